"""The controllers of each ledger, for servers and the simulator. A new controller is added here."""

from __future__ import annotations

from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.override import OverrideReconciler
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.platform.finalizer import FinalizerReconciler
from holdfast.core.reconcilers.platform.grant import GrantReconciler
from holdfast.core.reconcilers.platform.region_health import RegionHealthReconciler, RetirementReconciler
from holdfast.core.reconcilers.platform.status import StatusReconciler
from holdfast.core.reconcilers.region.expiry import EmergencyQuotaReconciler, RightsReconciler
from holdfast.core.reconcilers.region.node_health import NodeHealthReconciler
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.rollout import RolloutReconciler
from holdfast.core.region.state.tables import RegionState


def of_platform() -> list[Reconciler[PlatformState]]:
    """Return the controllers of the platform ledger."""
    return [
        AssignmentReconciler(),
        GrantReconciler(),
        StatusReconciler(),
        RegionHealthReconciler(),
        FinalizerReconciler(),
        RetirementReconciler(),
        OverrideReconciler(),
    ]


def of_region() -> list[Reconciler[RegionState]]:
    """Return the controllers of a region ledger."""
    return [
        ReplicaReconciler(),
        RolloutReconciler(),
        RightsReconciler(),
        EmergencyQuotaReconciler(),
        NodeHealthReconciler(),
        RepairReconciler(),
        OverrideReconciler(),
    ]
