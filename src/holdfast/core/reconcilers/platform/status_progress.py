"""A workload's progress: sums over its assignments and the regions' last reports, on which its conditions are based."""

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

#: Health of regions whose last report is stale: what still runs there is unknown.
SILENT = (RegionHealth.LOST, RegionHealth.RETIRED)


class RegionWaiting(NamedTuple):
    """Waiting replicas of a region, and why they wait."""

    region: str
    waiting: Waiting


class RegionFailing(NamedTuple):
    """Failing replicas of a region, and how they fail."""

    region: str
    failing: Failing


class WorkloadProgress(NamedTuple):
    """The progress of a workload.

    All regions count for `bound`; those that are not lost for `alive`, `ready` and `serving`. `lost` has bound replicas
    by lost region, `older` live replicas of an older template by region. `completed` is finished batch work; work done
    by removed assignments counts as assigned.
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
    """Return the sums over regions."""
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
    """Return how many replicas an assignment runs."""
    return sum(share.count for share in assignment.shares) if assignment.stage is AssignmentStage.ACTIVE else 0


def _before(state: PlatformState, workload: Workload) -> int:
    return completed_before(state, workload) if workload.spec.batch else 0


def _bound(seen: WorkloadReport) -> int:
    return sum(count.bound for count in seen.counts)


def _older(workload: Workload, there: list[ObservedWorkload]) -> tuple[tuple[str, int], ...]:
    """Return the regions with replicas of an older template. A workload that was never changed has none."""
    if workload.meta.generation == 1:
        return ()
    digest = template_digest(workload.spec.template)
    found = [(one.region, sum(c.bound for c in one.seen.counts if c.template != digest)) for one in there]
    return tuple((region, count) for region, count in found if count)


def _generation(
    state: PlatformState, workload: Workload, assignments: list[Assignment], observed: tuple[ObservedWorkload, ...]
) -> int:
    """Return the newest generation on which every region with an open assignment acts. It never goes back."""
    known: dict[str, Revision] = {one.region: one.seen.generation for one in observed}
    acting = [
        min(one.generation, known.get(one.region, 0)) for one in assignments if one.stage is not AssignmentStage.ENDED
    ]
    if not acting:
        nothing_wanted = workload.spec.replicas == 0 or workload.meta.deletion is not None
        acting = [workload.meta.generation if nothing_wanted else 0]
    return max(workload.status.observed_generation, min(workload.meta.generation, *acting))
