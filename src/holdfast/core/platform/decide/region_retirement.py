"""RetireRegion, ReleaseRetired: an operator attests that nothing runs in a region, and everything it held is released.

    RetireRegion ──▶ tombstone, and as much as one record takes ──▶ ReleaseRetired, part after part ──▶ holds nothing

The tombstone comes first: then the region's log has no authority and the region gets nothing new, so the rest is
released in any number of parts. `unreleased` in the region's status counts the rows left. At 0 a new log can join, with
nothing. In a log of level 1, one record releases everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import groupby, islice

from msgspec import Struct

from holdfast.core.ledger.answers import Accepted, Code, Refused, already
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.grants import Grant, grant_key
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import Ranges, count_numbers, first_of
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import events as e
from holdfast.core.platform.commands import ReleaseRetired, RetireRegion
from holdfast.core.platform.decide import workload_deletion
from holdfast.core.platform.decide.breaches import recount_workload
from holdfast.core.platform.decide.checks import refuse_outside_whole_region, refuse_reason, refuse_unknown
from holdfast.core.platform.decide.grant_settlement import recount_lent
from holdfast.core.platform.decide.rights import release_events
from holdfast.core.platform.limits import OBJECTS_MAX
from holdfast.core.platform.queries.accounts import account_charge
from holdfast.core.platform.state.lookups import assignments_of, held_in
from holdfast.core.platform.state.tables import PlatformState

#: Evidence of the released rights.
RETIRED = "its region is retired"


class RetirementPart(Struct):
    """What one record releases of a region: all it has of some workloads, or some rights to one, or grants."""

    workloads: list[Revision]
    some: tuple[Revision, Ranges] | None
    grants: list[Grant]
    #: Rows of assignments, rights and grants that it releases, and rows that are left.
    rows: int
    left: int


def retire_region(state: PlatformState, command: RetireRegion, ctx: CommandContext) -> Accepted | Refused:
    """Tombstone the region's log and release what fits into one record."""
    name = command.region
    refused = (
        refuse_unknown("Region", (name,), state.regions)
        or refuse_outside_whole_region(ctx, name)
        or refuse_reason(command.reason)
    )
    if refused is not None:
        return refused
    status = state.regions[name].status
    if status.health is RegionHealth.RETIRED:
        return already(f"Region/{name}", state.regions[name].meta.revision)
    part = _next_part(state, name)
    retired = e.RegionRetired(name, status.log_id, command.reason, part.left)
    # The record of the tombstone contains the reason once. Repeated for each workload it would not fit.
    evidence = f"retired: {command.reason}" if state.info.level < 2 else RETIRED
    return Accepted((retired, *_released(state, name, part, evidence, ctx)), rows=part.rows)


def release_retired(state: PlatformState, command: ReleaseRetired, ctx: CommandContext) -> Accepted | Refused:
    """Release the next part of what a retired region held."""
    name = command.region
    refused = refuse_unknown("Region", (name,), state.regions)
    if refused is not None:
        return refused
    status = state.regions[name].status
    if status.health is not RegionHealth.RETIRED:
        facts = {"region": name, "health": status.health.value}
        return Refused(Code.WRONG_PHASE, f"region {name} is {status.health}, not retired", facts)
    if not status.unreleased:
        return already(f"Region/{name}", state.regions[name].meta.revision)
    part = _next_part(state, name)
    released = _released(state, name, part, RETIRED, ctx)
    return Accepted((e.RetirementContinued(name, part.left), *released), rows=part.rows)


def _next_part(state: PlatformState, region: str) -> RetirementPart:
    """Return as much as fits: workloads first, oldest first, then grants. At level 1 it is everything."""
    assigned, held = state.assigned_in.get(region) or (), state.rights_in.get(region) or ()
    accounts = state.granted_in.get(region) or ()
    every = len(assigned) + (state.right_counts.get(region) or 0) + len(accounts)
    workloads = (uid for uid, _ in groupby(merge((workload for workload, _ in assigned), held)))
    if state.info.level < 2:
        return RetirementPart([*workloads], None, _grants(state, region, accounts), every, 0)
    chosen: list[Revision] = []
    rows = 0
    for uid in workloads:
        rights = held_in(state, uid, region)
        more = count_numbers(rights) + sum(one.region == region for one in assignments_of(state, uid))
        if len(chosen) >= OBJECTS_MAX or (chosen and rows + more > RIGHTS_MAX):
            return RetirementPart(chosen, None, [], rows, every - rows)
        if count_numbers(rights) > RIGHTS_MAX:
            some = first_of(rights, RIGHTS_MAX)
            return RetirementPart([], (uid, some), [], count_numbers(some), every - count_numbers(some))
        chosen.append(uid)
        rows += more
    paid = _grants(state, region, islice(accounts, OBJECTS_MAX - len(chosen)))
    return RetirementPart(chosen, None, paid, rows + len(paid), every - rows - len(paid))


def _grants(state: PlatformState, region: str, accounts: Iterable[str]) -> list[Grant]:
    return [state.grants[grant_key(region, account)] for account in accounts]


def _released(
    state: PlatformState, region: str, part: RetirementPart, evidence: str, ctx: CommandContext
) -> tuple[object, ...]:
    if part.some is not None:
        uid, ordinals = part.some
        return release_events(state, uid, [(region, ordinals)], evidence, ctx)
    mine = [a for uid in part.workloads for a in assignments_of(state, uid) if a.region == region]
    assignments = sorted(mine, key=lambda assignment: assignment.uid)
    workloads = [state.workloads[uid] for uid in part.workloads if _is_finalised_by(state.workloads[uid], region)]
    return (
        *_release_assignments(state, assignments, workloads, ctx),
        *_release_rights(state, region, part.workloads, workloads, evidence),
        *_release_finalizers(state, region, workloads, ctx),
        *_release_grants(state, region, part.grants, ctx),
    )


def _is_finalised_by(workload: Workload, region: str) -> bool:
    return any(finalizer.owner == f"region/{region}" for finalizer in workload.meta.finalizers)


def _ready_to_go(workloads: list[Workload]) -> list[Workload]:
    return [workload for workload in workloads if len(workload.meta.finalizers) == 1]


def _release_assignments(
    state: PlatformState, assignments: list[Assignment], workloads: list[Workload], ctx: CommandContext
) -> tuple[object, ...]:
    if not assignments:
        return ()
    gone = {assignment.uid for assignment in assignments}
    events: list[object] = [workload_deletion.removal_event(assignments, _done_by(state, assignments))]
    ending = {workload.meta.uid for workload in workloads}
    for uid in sorted({assignment.workload for assignment in assignments} - ending):
        left = [assignment for assignment in assignments_of(state, uid) if assignment.uid not in gone]
        events.extend(recount_workload(state, state.workloads[uid], left, ctx))
    return tuple(events)


def _done_by(state: PlatformState, assignments: list[Assignment]) -> dict[Revision, workload_deletion.Done]:
    """Return the done counts that the region reported last, by assignment: a workload's counts go to its first one."""
    found: dict[Revision, workload_deletion.Done] = {}
    told: set[Revision] = set()
    for one in assignments:
        said = [seen for seen in state.workload_reports.get(one.workload) or () if seen.region == one.region]
        if one.workload not in told and said:
            told.add(one.workload)
            counts = [(count.template, count.done) for count in said[0].seen.counts if count.done]
            found[one.uid] = tuple(sorted(counts))
    return found


def _release_rights(
    state: PlatformState, region: str, uids: list[Revision], workloads: list[Workload], evidence: str
) -> tuple[object, ...]:
    """Release rights, except of workloads that are removed with the region: their removal releases those."""
    going: set[Revision] = {workload.meta.uid for workload in _ready_to_go(workloads)}
    held = [(uid, region, held_in(state, uid, region)) for uid in uids if uid not in going]
    return workload_deletion.freed_right_events(state, held, evidence)


def _release_finalizers(
    state: PlatformState, region: str, workloads: list[Workload], ctx: CommandContext
) -> tuple[object, ...]:
    """Release the region's finalizers; workloads that waited for this region alone are removed."""
    going = [workload.meta.uid for workload in _ready_to_go(workloads)]
    others = tuple(
        e.WorkloadOf(workload.meta.uid, workload.meta.tenant)
        for workload in workloads
        if len(workload.meta.finalizers) > 1
    )
    return (
        *((e.FinalizersReleased(f"region/{region}", others),) if others else ()),
        *workload_deletion.workload_removal_events(state, going, ctx),
    )


def _release_grants(state: PlatformState, region: str, grants: list[Grant], ctx: CommandContext) -> tuple[object, ...]:
    if not grants:
        return ()
    freed: dict[str, Resources] = {}
    for grant in grants:
        freed[grant.account] = add(freed.get(grant.account, ZERO), grant.offered)
    events: list[object] = [e.GrantsRemoved(tuple(grant_key(grant.region, grant.account) for grant in grants))]
    for account, amount in sorted(freed.items()):
        before = account_charge(state, account, region)
        events.extend(recount_lent(state, account, region, (before, subtract(before, amount)), ctx))
    return tuple(events)
