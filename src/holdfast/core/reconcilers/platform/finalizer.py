"""Finalizers: a deletion that waits for a lost region goes on without it, once its deadline has passed.

Those of a region that is heard, and of identities, are left to the region or a person: they are told as repairs.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.watch import OVERRIDE
from holdfast.core.ledger.reconciler import (
    EVERYTHING,
    NO_CHANGES,
    ProposedCommand,
    ReconcileKey,
    ReconcileResult,
    WatchKey,
)
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import ReleaseFinalizer
from holdfast.core.platform.state.lookups import is_left_to_its_region
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.platform.watch import REGION_STATE, WORKLOAD


class FinalizerReconciler:
    """Looks at one workload that is being deleted at a time, by uid; at all of them when a region fares otherwise or an
    override has ended."""

    name = "repair"
    watches: tuple[str, ...] = (WORKLOAD, REGION_STATE, OVERRIDE)

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return sorted(uid for uid, workload in state.workloads.unordered() if workload.meta.finalizers)

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        kind, key = touched
        if kind == WORKLOAD:
            return [key]
        # What opens takes authority away; an end may give it back, and says no more than that.
        opened = kind == OVERRIDE and state.overrides.get(key) is not None  # type: ignore[arg-type]
        return () if opened else EVERYTHING

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or not workload.meta.finalizers:
            return NO_CHANGES
        stale = [
            (max(one.deadline, _paused_until(state, region, now)), region)
            for one in workload.meta.finalizers
            if not is_left_to_its_region(state, workload, region := one.owner.removeprefix("region/"))
        ]
        due = [ReleaseFinalizer(workload.meta.uid, region) for deadline, region in stale if deadline <= now]
        again = min((deadline for deadline, _ in stale if deadline > now), default=None)
        return ReconcileResult(tuple(ProposedCommand(one, workload.meta.revision) for one in due), again)


def _paused_until(state: PlatformState, region: str, now: Instant) -> Instant:
    """When people let repair go on there; 0: they have not paused it."""
    pause = active_overrides(state, now, region).repair
    return pause.ends if pause is not None else 0
