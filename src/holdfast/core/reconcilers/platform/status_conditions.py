"""A workload's conditions, from its progress.

    Fits       some node could hold it                        platform/queries/feasibility
    OnTime     its deadline was met, or may be                platform/queries/completion
    Assigned   regions have as many as the spec requires      the platform
    Placed     as many have a node                            what waits, and why, from the regions
    Available  of services: enough replicas serve             and the regions that are lost
    Complete   of batch work: all are done                    finished replicas, from the regions
    Failed     of batch work: some have failed for good       the same, with the last reason
    Healthy    no replica fails, or takes too long            agents' messages, from the regions
    Updated    none runs an older template                    where some do, and what the change waits for

A workload has `Updated` once it was changed, `Failed` once a replica has failed for good, and `Healthy` once one was
unhealthy. Each condition states the gravest known reason in few words: every change is a record in the log.

Summaries trigger no controller, and omit nodes whose agents are silent for a moment. They are used only for workloads
that are not settled, which are checked periodically; a settled workload keeps `Fits` true.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus, ConditionValue
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.queries.completion import has_deadline_condition, is_abandoned, on_time_condition
from holdfast.core.platform.queries.feasibility import FITS, candidate_regions, fits, fits_condition
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.status_progress import WorkloadProgress
from holdfast.core.reconcilers.platform.status_reasons import (
    by_region,
    condition_false,
    condition_true,
    fails,
    format_waiting,
    gravity,
    named,
    reason_held,
    reason_of,
    short,
)

ASSIGNED, PLACED, AVAILABLE, HEALTHY, UPDATED = "Assigned", "Placed", "Available", "Healthy", "Updated"
COMPLETE, FAILED = "Complete", "Failed"
#: Reasons that pass with the next cycle: a change of template does not wait for them.
_PASSING = (ConditionReason.STALE_VIEW, ConditionReason.NOT_YET_EXAMINED, ConditionReason.PROGRESSING)


def conditions_of(
    state: PlatformState, workload: Workload, progress: WorkloadProgress, now: Instant
) -> tuple[Condition, ...]:
    """Return all conditions, sorted by type, without their time."""
    if workload.meta.deletion is not None:
        return (
            _condition(
                AVAILABLE,
                ConditionValue(ConditionStatus.FALSE, ConditionReason.PROGRESSING, "it is being deleted"),
                progress,
            ),
        )
    assigned = _assigned(state, workload, progress)
    placed = _placed(workload, progress, assigned)
    found = [_condition(ASSIGNED, assigned, progress), _condition(PLACED, placed, progress)]
    if workload.spec.batch:  # batch work completes instead
        found.append(_condition(COMPLETE, _complete(workload, progress), progress))
        if progress.completed.failed or _was_reported(workload, FAILED):
            found.append(_condition(FAILED, _failed(progress), progress))
    else:
        found.append(_condition(AVAILABLE, _available(workload, progress, placed), progress))
    if progress.failing or _was_reported(workload, HEALTHY):
        found.append(_condition(HEALTHY, _healthy(progress), progress))
    if progress.generation > 1 or progress.older or _was_reported(workload, UPDATED):
        found.append(_condition(UPDATED, _updated(state, workload, progress), progress))
    fit = _fits(state, workload, settled=is_settled(found))
    if has_deadline_condition(workload):
        found.append(replace(on_time_condition(state, workload, fit, now), since=0))
    return tuple(sorted([*found, fit], key=lambda one: one.type))


def is_settled(conditions: Iterable[Condition]) -> bool:
    """Whether a workload lacks nothing that summaries tell of: no region, no node, none of the present template."""
    return all(one.status is ConditionStatus.TRUE for one in conditions if one.type in (ASSIGNED, PLACED, UPDATED))


def _fits(state: PlatformState, workload: Workload, *, settled: bool) -> Condition:
    """Whether some node could hold it. Of what stands as wanted, that it fits stays said, until another generation of
    it is stored: with that it is judged anew."""
    said = next((one for one in workload.status.conditions if one.type == FITS), None)
    if settled and said is not None and said.status is ConditionStatus.TRUE:
        return replace(said, since=0)
    return fits_condition(state, workload, 0)


def _was_reported(workload: Workload, type: str) -> bool:
    return any(one.type == type for one in workload.status.conditions)


def _condition(type: str, fit: ConditionValue, progress: WorkloadProgress) -> Condition:
    return Condition(
        type=type, status=fit.status, reason=fit.reason, message=fit.message, observed_generation=progress.generation
    )


def _assigned(state: PlatformState, workload: Workload, progress: WorkloadProgress) -> ConditionValue:
    """Compare the assigned replicas with the spec. Finished ones cannot be taken back."""
    wanted, assigned = max(workload.spec.replicas, progress.completed.over), progress.assigned
    if assigned == wanted:
        return condition_true()
    if is_abandoned(workload):
        return condition_false(
            ConditionReason.DEADLINE_MISSED, f"{assigned} of {wanted} are assigned: it was to fail at its deadline"
        )
    if assigned > wanted:
        return condition_false(ConditionReason.PROGRESSING, f"{assigned} are assigned, {wanted} wanted")
    share = f"{assigned} of {wanted} are assigned"
    allowed = candidate_regions(state, workload)
    healths = [(name, state.regions[name].status.health) for name in allowed]
    ill = [f"{name} is {health}" for name, health in healths if health is not RegionHealth.HEALTHY]
    if len(ill) == len(allowed):
        return condition_false(
            ConditionReason.WAITING_FOR_REGION, short(f"{share}: {', '.join(ill) or 'no region has joined'}")
        )
    fit = fits(state, workload)
    if fit.status is ConditionStatus.FALSE:
        return condition_false(fit.reason, short(f"{share}: {fit.message}"))
    full = [one.region for one in state.overflows.get(workload.meta.uid) or () if one.until > state.info.at]
    if full:
        return condition_false(
            ConditionReason.WAITING_FOR_ROOM, short(f"{share}: no capacity left in {', '.join(full)}")
        )
    return condition_false(ConditionReason.WAITING_FOR_REGION, short("; ".join([share, *ill])))


def _placed(workload: Workload, progress: WorkloadProgress, assigned: ConditionValue) -> ConditionValue:
    """Check whether enough replicas have a node; if some wait, with the regions' reasons, the gravest first."""
    wanted = workload.spec.replicas - progress.completed.over
    if progress.alive >= wanted:
        return condition_true()
    share = f"{progress.alive} of {wanted} have a node"
    if progress.waiting:
        first, *others = by_region(progress.waiting)
        return condition_false(
            reason_held(first), "; ".join(filter(None, (short(format_waiting(first)), short(named(others)))))
        )
    if progress.lost:
        return condition_false(ConditionReason.LOST, short(f"{share}; {_without(progress)}"))
    silent = [one for one in progress.failing if reason_of(one.failing.code) is ConditionReason.SESSION_ENDED]
    if silent:
        return fails(silent, share)
    if assigned.status is not ConditionStatus.TRUE and assigned.reason is not ConditionReason.PROGRESSING:
        return assigned
    return condition_false(ConditionReason.PROGRESSING, share)


def _available(workload: Workload, progress: WorkloadProgress, placed: ConditionValue) -> ConditionValue:
    """Check whether enough replicas serve: at least one, if the spec requires any."""
    wanted = workload.spec.replicas
    least = max(wanted - workload.spec.disruption_max, min(wanted, 1))
    without = _without(progress)
    if progress.serving >= least:
        return condition_true(short(without))
    share = "; ".join(filter(None, (f"{progress.serving} of {wanted} serve", without)))
    if progress.lost:
        return condition_false(ConditionReason.LOST, short(share))
    if progress.failing and (placed.status is ConditionStatus.TRUE or placed.reason in _PASSING):
        return fails(progress.failing, share)
    if placed.status is ConditionStatus.FALSE:
        return condition_false(placed.reason, short(share))
    return condition_false(ConditionReason.PROGRESSING, short(share))


def _healthy(progress: WorkloadProgress) -> ConditionValue:
    """Check whether no replica fails or takes too long; otherwise with the gravest reason."""
    return fails(progress.failing) if progress.failing else condition_true()


def _complete(workload: Workload, progress: WorkloadProgress) -> ConditionValue:
    """Check whether all are done. With the rest failed for good, they never will be."""
    done, failed, why = progress.completed
    wanted = workload.spec.replicas
    share = f"{done} of {wanted} are done"
    if done >= wanted:
        return condition_true(share)
    if done + failed >= wanted:
        return condition_false(reason_of(why), f"{share}, {failed} have failed for good")
    return condition_false(ConditionReason.PROGRESSING, share)


def _failed(progress: WorkloadProgress) -> ConditionValue:
    """Check whether some have failed for good, with the last one's reason."""
    _, failed, why = progress.completed
    if not failed:
        return condition_false(ConditionReason.AS_DESIRED, "none has failed for good")
    return ConditionValue(ConditionStatus.TRUE, reason_of(why), f"{failed} have failed for good, the last for: {why}")


def _updated(state: PlatformState, workload: Workload, progress: WorkloadProgress) -> ConditionValue:
    """Check whether none runs an older template; otherwise with what the change waits for."""
    without = _without(progress)
    if not progress.older:
        return condition_true(short(without))
    where = ", ".join(f"{count} in {region}" for region, count in progress.older)
    share = "; ".join(filter(None, (f"of {progress.alive}, still on an older template: {where}", without)))
    if workload.spec.exclusive and not workload.spec.disruption_max:
        return condition_false(ConditionReason.MAY_NOT_DISRUPT, short(f"disruptionMax is 0; {share}"))
    regions = [region for region, _ in progress.older]
    waiting = [one for one in progress.waiting if one.region in regions and reason_held(one) not in _PASSING]
    if waiting:
        held = min(waiting, key=gravity)
        return condition_false(reason_held(held), short(f"{share}; {format_waiting(held)}"))
    ill = [f"{name} is {state.regions[name].status.health}" for name in regions if not _is_healthy(state, name)]
    if len(ill) == len(regions):
        return condition_false(ConditionReason.WAITING_FOR_REGION, short("; ".join((share, *ill))))
    return condition_false(ConditionReason.PROGRESSING, short(share))


def _is_healthy(state: PlatformState, region: str) -> bool:
    return state.regions[region].status.health is RegionHealth.HEALTHY


def _without(progress: WorkloadProgress) -> str:
    """Return the lost regions, whose replicas are not counted."""
    lost = [f"{region} is lost, {bound} there are not counted" for region, bound in progress.lost]
    return "; ".join(lost)
