"""Which controllers run beside the leader of which ledger: the one table that servers and the simulator read."""

from __future__ import annotations

from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.override import Overrides
from holdfast.core.reconcilers.platform.assignment import Assignments
from holdfast.core.reconcilers.platform.finalizer import Finalizers
from holdfast.core.reconcilers.platform.grant import Grants
from holdfast.core.reconcilers.platform.region_health import Regions
from holdfast.core.reconcilers.platform.retirement import Retirement
from holdfast.core.reconcilers.platform.status import Statuses
from holdfast.core.reconcilers.region.emergency_quota import Emergencies
from holdfast.core.reconcilers.region.node_health import NodesHealth
from holdfast.core.reconcilers.region.repair import Repair
from holdfast.core.reconcilers.region.replica import Replicas
from holdfast.core.reconcilers.region.rights import Rights
from holdfast.core.reconcilers.region.rollout import Rollout
from holdfast.core.region.state.tables import RegionState


def of_platform() -> list[Reconciler[PlatformState]]:
    """The controllers of the platform's ledger."""
    return [Assignments(), Grants(), Statuses(), Regions(), Finalizers(), Retirement(), Overrides()]


def of_region() -> list[Reconciler[RegionState]]:
    """The controllers of a region's ledger."""
    return [Replicas(), Rollout(), Rights(), Emergencies(), NodesHealth(), Repair(), Overrides()]
