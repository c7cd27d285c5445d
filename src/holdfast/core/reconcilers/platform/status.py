"""What the regions together say of a workload: how many are bound, ready and serving, and why not all of them.

    observed, assignments, health of regions ──▶ sums and conditions ──▶ ReportStatus, where something differs

A sum counts each region's last word. The word of a region that is lost is old: what was ready and serving there counts
no more, and the condition says so. Of a fresh workload its creation has told whether it fits; nothing more is said
before some of it is placed or every region has said why not, or before so long a time that somebody will ask. What is
said then of some regions is not said anew with the word of each further one, but once all have spoken or as long after.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.objects.workloads import Workload, WorkloadStatus
from holdfast.core.model.records.region_reports import ObservedWorkload
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import ReportStatus
from holdfast.core.platform.queries.completion import deadline_of, is_deadline_open
from holdfast.core.platform.queries.feasibility import FITS
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.status_conditions import ASSIGNED, conditions_of, is_settled
from holdfast.core.reconcilers.platform.status_progress import WorkloadProgress, progress_of

#: How long a fresh workload may be without a word from all its regions before that is said; and how long without a
#: node: most have one soon, and what is said of the moments before that would be said twice.
PATIENCE_MS = 10_000
PLACED_SOON_MS = 2_000
#: For so long after its creation.
FRESH_MS = 30_000
#: How soon it is looked again at what does not fit, or lacks anything that summaries tell of: they wake nobody. Nor
#: does the end of what a region has offered back.
LOOK_AGAIN_MS = 15_000


class StatusReconciler:
    """Looks at one workload at a time, by uid."""

    name = "status"
    watches: tuple[str, ...] = ("workload", "observed", "standing")

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return state.workloads.keys()

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        """A region's summaries and acknowledgements come every second: they wake nobody. Its health wakes its own, and
        what waits for regions, of which it may be one."""
        kind, name = touched
        if kind != "standing":
            return [name]
        waiting = {uid for uid, one in state.workloads.unordered() if _waits_for_regions(one.status)}
        return sorted({one.workload for _, one in state.assignments.unordered() if one.region == name} | waiting)

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None:
            return NO_CHANGES
        due = deadline_of(workload) if is_deadline_open(workload) else 0
        quiet_until = _quiet_until(state, workload)
        if now < quiet_until and (not due or now < due):
            return ReconcileResult((), min(due, quiet_until) if due else quiet_until)
        progress = progress_of(state, workload)
        wanted = report(state, workload, progress, now)
        again = [now + LOOK_AGAIN_MS] if _may_change_unheard(wanted) else []
        again_at = min([*again, due] if due > now else again, default=None)
        if not _differs(workload.status, wanted):
            return ReconcileResult((), again_at)
        return ReconcileResult((ProposedCommand(wanted, workload.meta.revision),), again_at)


def report(state: PlatformState, workload: Workload, progress: WorkloadProgress, now: Instant) -> ReportStatus:
    """What there is to say of a workload now."""
    return ReportStatus(
        workload.meta.uid,
        progress.generation,
        progress.bound,
        progress.ready,
        progress.serving,
        conditions_of(state, workload, progress, now),
        progress.completed.done,
        progress.completed.failed,
    )


def _quiet_until(state: PlatformState, workload: Workload) -> Instant:
    """When there is something to say of a workload that was only just created; 0: now."""
    conditions = {one.type: one for one in workload.status.conditions}
    if FITS not in conditions or workload.meta.deletion is not None or _is_under_way(workload):
        return 0
    created, observed = conditions[FITS].since, state.observed.get(workload.meta.uid) or ()
    stands = any(count.bound or count.done or count.failed for one in observed for count in one.seen.counts)
    if stands or any(one.seen.failing for one in observed):
        return 0
    if observed and _have_looked(state, workload, observed):
        return created + PLACED_SOON_MS
    if ASSIGNED not in conditions:
        return created + PATIENCE_MS
    if _waits_for_regions(workload.status):
        return 0
    said = max(one.since for one in conditions.values())
    return min(said + PATIENCE_MS, created + FRESH_MS)


def _is_under_way(workload: Workload) -> bool:
    """Whether it is not fresh: it was changed, or something of it was said to stand."""
    status = workload.status
    return workload.meta.generation > 1 or bool(status.bound or status.succeeded or status.failed)


def _have_looked(state: PlatformState, workload: Workload, observed: tuple[ObservedWorkload, ...]) -> bool:
    """Whether every region that is to run some of it has told why it does not: a part of that would be said twice."""
    looked = {
        one.region
        for one in observed
        if not any(waiting.code == ConditionReason.NOT_YET_EXAMINED.value for waiting in one.seen.waiting)
    }
    return all(one.region in looked for one in assignments_of(state, workload.meta.uid))


def _waits_for_regions(known: WorkloadStatus) -> bool:
    """Whether it was said that not all of it is assigned: with that go the names of regions that are not well."""
    return any(one.type == ASSIGNED and one.status is not ConditionStatus.TRUE for one in known.conditions)


def _may_change_unheard(wanted: ReportStatus) -> bool:
    """Whether a summary, or the end of an offer, may change what is said: it does not fit, or it lacks something."""
    fits = all(one.status is ConditionStatus.TRUE for one in wanted.conditions if one.type == FITS)
    return not fits or not is_settled(wanted.conditions)


def _differs(known: WorkloadStatus, wanted: ReportStatus) -> bool:
    """Whether the report says anything new. Since when a condition holds is the ledger's to say."""
    counts = (known.observed_generation, known.bound, known.ready, known.serving, known.succeeded, known.failed)
    said = (wanted.observed_generation, wanted.bound, wanted.ready, wanted.serving, wanted.succeeded, wanted.failed)
    if counts != said:
        return True
    stored = {one.type: _timeless(one) for one in known.conditions}
    return any(stored.get(one.type) != one for one in wanted.conditions)


def _timeless(condition: Condition) -> Condition:
    return replace(condition, since=0)
