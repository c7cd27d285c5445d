"""The status of a workload over all regions: how many replicas are bound, ready and serving, and why not all.

    observed, assignments, health of regions ──▶ sums and conditions ──▶ ReportStatus, if something differs

A sum counts each region's last report. A lost region's report is stale: its ready and serving replicas do not count,
and the condition names it. A fresh workload has `Fits` since its creation. Its first report waits until a replica is
placed, every region has reported why not, or PATIENCE_MS have passed. The next one waits for all regions, or as long
again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.objects.workloads import Workload, WorkloadStatus
from holdfast.core.model.records.region_reports import ObservedWorkload
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import ReportStatus
from holdfast.core.platform.queries.completion import deadline_of, is_deadline_open
from holdfast.core.platform.queries.feasibility import FITS
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.status_conditions import ASSIGNED, conditions_of, is_settled
from holdfast.core.reconcilers.platform.status_progress import WorkloadProgress, progress_of

#: How long a fresh workload waits for all its regions, and for a node. Most get one soon; an earlier report would only
#: be replaced.
PATIENCE_MS = 10_000
PLACED_SOON_MS = 2_000
#: How long after its creation a workload is fresh.
FRESH_MS = 30_000
#: Period of checking a workload that does not fit or is not settled: neither summaries nor the end of an offer trigger
#: this controller.
LOOK_AGAIN_MS = 15_000


class StatusReconciler:
    """The status controller, keyed by workload uid."""

    name = "status"
    watches: tuple[str, ...] = ("workload", "observed", "standing")

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return state.workloads.keys()

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        """Return the workloads to reconcile.

        Summaries and acknowledgements of regions arrive every second and reconcile none. A region's health reconciles
        its workloads, and those that wait for regions.
        """
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
    """Return when the first report of a new workload is due; 0: now."""
    conditions = {one.type: one for one in workload.status.conditions}
    if FITS not in conditions or workload.meta.deletion is not None or _is_under_way(workload):
        return 0
    created, observed = conditions[FITS].since, state.workload_reports.get(workload.meta.uid) or ()
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
    """Check whether a workload is not fresh: it was changed, or a replica of it was reported bound or finished."""
    status = workload.status
    return workload.meta.generation > 1 or bool(status.bound or status.succeeded or status.failed)


def _have_looked(state: PlatformState, workload: Workload, observed: tuple[ObservedWorkload, ...]) -> bool:
    """Check whether every assigned region has reported why no replica is placed: a partial report would be repeated."""
    looked = {
        one.region
        for one in observed
        if not any(waiting.code == ConditionReason.NOT_YET_EXAMINED.value for waiting in one.seen.waiting)
    }
    return all(one.region in looked for one in assignments_of(state, workload.meta.uid))


def _waits_for_regions(known: WorkloadStatus) -> bool:
    """Check whether the status reports missing assignments: their message names unhealthy regions."""
    return any(one.type == ASSIGNED and one.status is not ConditionStatus.TRUE for one in known.conditions)


def _may_change_unheard(wanted: ReportStatus) -> bool:
    """Check whether a summary or the end of an offer may change the report: it does not fit, or is not settled."""
    fits = all(one.status is ConditionStatus.TRUE for one in wanted.conditions if one.type == FITS)
    return not fits or not is_settled(wanted.conditions)


def _differs(known: WorkloadStatus, wanted: ReportStatus) -> bool:
    """Check whether the report is new. The ledger sets since when a condition holds."""
    counts = (known.observed_generation, known.bound, known.ready, known.serving, known.succeeded, known.failed)
    said = (wanted.observed_generation, wanted.bound, wanted.ready, wanted.serving, wanted.succeeded, wanted.failed)
    if counts != said:
        return True
    stored = {one.type: replace(one, since=0) for one in known.conditions}
    return any(stored.get(one.type) != one for one in wanted.conditions)
