"""Which controllers run beside the leader of which ledger: the one table that servers and the simulator read."""

from __future__ import annotations

from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.platform.state import PlatformState
from holdfast.core.reconcilers.assignment import Assignments
from holdfast.core.reconcilers.emergencies import Emergencies
from holdfast.core.reconcilers.finalizers import Finalizers
from holdfast.core.reconcilers.grants import Grants
from holdfast.core.reconcilers.node_health import NodesHealth
from holdfast.core.reconcilers.overrides import Overrides
from holdfast.core.reconcilers.region_health import Regions
from holdfast.core.reconcilers.repair import Repair
from holdfast.core.reconcilers.replicas import Replicas
from holdfast.core.reconcilers.retirement import Retirement
from holdfast.core.reconcilers.rights import Rights
from holdfast.core.reconcilers.rollout import Rollout
from holdfast.core.reconcilers.status import Statuses
from holdfast.core.region.state import RegionState


def of_platform() -> list[Reconciler[PlatformState]]:
    """The controllers of the platform's ledger."""
    return [Assignments(), Grants(), Statuses(), Regions(), Finalizers(), Retirement(), Overrides()]


def of_region() -> list[Reconciler[RegionState]]:
    """The controllers of a region's ledger."""
    return [Replicas(), Rollout(), Rights(), Emergencies(), NodesHealth(), Repair(), Overrides()]
