"""Finalizers: a deletion continues without a lost region, once the finalizer's deadline has passed.

Other regions and exclusive identities need the region or an operator, and appear as repairs.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger import reconciler
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.watch import OVERRIDE
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import ReleaseFinalizer
from holdfast.core.platform.state.lookups import is_left_to_its_region
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.platform.watch import REGION_STATE, WORKLOAD


class FinalizerReconciler:
    """The finalizer controller, keyed by workload uid. All are reconciled when a region's health changes or an override
    ends."""

    name = "repair"
    watches: tuple[str, ...] = (WORKLOAD, REGION_STATE, OVERRIDE)

    def keys(self, state: PlatformState) -> Iterable[reconciler.ReconcileKey]:
        return sorted(uid for uid, workload in state.workloads.unordered() if workload.meta.finalizers)

    def wake(self, state: PlatformState, touched: reconciler.WatchKey) -> Iterable[reconciler.ReconcileKey]:
        kind, key = touched
        if kind == WORKLOAD:
            return [key]
        # An override that opens only removes authority; one that ends may return it.
        opened = kind == OVERRIDE and state.overrides.get(key) is not None  # type: ignore[arg-type]
        return () if opened else reconciler.EVERYTHING

    def reconcile(self, state: PlatformState, key: reconciler.ReconcileKey, now: Instant) -> reconciler.ReconcileResult:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or not workload.meta.finalizers:
            return reconciler.NO_CHANGES
        stale = [
            (max(one.deadline, _paused_until(state, region, now)), region)
            for one in workload.meta.finalizers
            if not is_left_to_its_region(state, workload, region := one.owner.removeprefix("region/"))
        ]
        due = [ReleaseFinalizer(workload.meta.uid, region) for deadline, region in stale if deadline <= now]
        again = min((deadline for deadline, _ in stale if deadline > now), default=None)
        return reconciler.ReconcileResult(
            tuple(reconciler.ProposedCommand(one, workload.meta.revision) for one in due), again
        )


def _paused_until(state: PlatformState, region: str, now: Instant) -> Instant:
    """Return the end of a pause of repair there; 0: there is none."""
    pause = active_overrides(state, now, region).repair
    return pause.ends if pause is not None else 0
