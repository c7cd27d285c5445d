"""Where a workload stands, from what is assigned and what regions said last: the numbers that its conditions judge."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.region_reports import Failing, ObservedWorkload, Waiting, WorkloadReport
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.queries.completion import NO_PROGRESS, BatchProgress, batch_progress, completed_before
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState

#: What such a region said last is old: nobody knows what of it still runs.
SILENT = (RegionHealth.LOST, RegionHealth.RETIRED)


class RegionWaiting(NamedTuple):
    """What waits in a region, and why."""

    region: str
    waiting: Waiting


class RegionFailing(NamedTuple):
    """What fails in a region, and how."""

    region: str
    failing: Failing


class WorkloadProgress(NamedTuple):
    """How far a workload is.

    `bound` counts everywhere, `alive` what of it is not in lost regions; `ready` and `serving` only count there. `lost`
    are the regions that are lost and hold some of it, with how many were bound there. `older`: how many of those alive
    run another template than is wanted now, by region. `batch_progress` is what of batch work is over; what was done by
    assignments that are gone counts as assigned.
    """

    generation: int
    assigned: int
    bound: int
    alive: int
    ready: int
    serving: int
    lost: tuple[tuple[str, int], ...]
    waiting: tuple[RegionWaiting, ...]
    older: tuple[tuple[str, int], ...]
    failing: tuple[RegionFailing, ...] = ()
    completed: BatchProgress = NO_PROGRESS


def progress_of(state: PlatformState, workload: Workload) -> WorkloadProgress:
    """Sums over regions."""
    assignments = assignments_of(state, workload.meta.uid)
    observed = state.workload_reports.get(workload.meta.uid) or ()
    there = [one for one in observed if _health(state, one.region) not in SILENT]
    silent = [one for one in observed if _health(state, one.region) in SILENT]
    unheard = [region for region in _held_by(assignments) if region not in {one.region for one in observed}]
    lost = [(one.region, _bound(one.seen)) for one in silent]
    lost += [(region, 0) for region in unheard if _health(state, region) in SILENT]
    return WorkloadProgress(
        generation=_generation(state, workload, assignments, observed),
        assigned=sum(_count(one) for one in assignments if one.purpose is AssignmentPurpose.SERVING)
        + _before(state, workload),
        bound=sum(_bound(one.seen) for one in observed),
        alive=sum(_bound(one.seen) for one in there),
        ready=sum(count.ready for one in there for count in one.seen.counts),
        serving=sum(count.serving for one in there for count in one.seen.counts),
        lost=tuple(sorted(lost)),
        waiting=tuple(
            RegionWaiting(one.region, waiting) for one in there for waiting in one.seen.waiting if waiting.count
        ),
        older=_older(workload, there),
        failing=tuple(RegionFailing(one.region, failing) for one in there for failing in one.seen.failing),
        completed=batch_progress(state, workload),
    )


def _health(state: PlatformState, region: str) -> RegionHealth:
    known = state.regions.get(region)
    return known.status.health if known is not None else RegionHealth.RETIRED


def _held_by(assignments: list[Assignment]) -> list[str]:
    return sorted({one.region for one in assignments if _count(one)})


def _count(assignment: Assignment) -> int:
    """How many replicas are to run by it."""
    return sum(share.count for share in assignment.shares) if assignment.stage is AssignmentStage.ACTIVE else 0


def _before(state: PlatformState, workload: Workload) -> int:
    return completed_before(state, workload) if workload.spec.batch else 0


def _bound(seen: WorkloadReport) -> int:
    return sum(count.bound for count in seen.counts)


def _older(workload: Workload, there: list[ObservedWorkload]) -> tuple[tuple[str, int], ...]:
    """Of a workload that was never changed there is no older template."""
    if workload.meta.generation == 1:
        return ()
    digest = template_digest(workload.spec.template)
    found = [(one.region, sum(c.bound for c in one.seen.counts if c.template != digest)) for one in there]
    return tuple((region, count) for region, count in found if count)


def _generation(
    state: PlatformState, workload: Workload, assignments: list[Assignment], observed: tuple[ObservedWorkload, ...]
) -> int:
    """The newest generation that every region acts on which has something of the workload that is not ended.

    It never goes back: a region that comes new is not there yet, and what the others have done is done.
    """
    known: dict[str, Revision] = {one.region: one.seen.generation for one in observed}
    acting = [
        min(one.generation, known.get(one.region, 0)) for one in assignments if one.stage is not AssignmentStage.ENDED
    ]
    if not acting:
        nothing_wanted = workload.spec.replicas == 0 or workload.meta.deletion is not None
        acting = [workload.meta.generation if nothing_wanted else 0]
    return max(workload.status.observed_generation, min(workload.meta.generation, *acting))
