"""RetireRegion: a person attests that nothing runs there, and everything the region held is released in one commit.

The one idea: all or nothing. Grants, assignments, rights and finalizers go together with the tombstone of the
region's log. Were they released one by one, the region could speak between two of them and act on what it still seems
to hold.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Assignment, Grant
from holdfast.core.model.resources import NOTHING, Resources, add, subtract
from holdfast.core.model.shapes import Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform.breaches import recount_workload
from holdfast.core.platform.checks import refuse_unknown
from holdfast.core.platform.commands import RetireRegion
from holdfast.core.platform.endings import Done, removal, removed
from holdfast.core.platform.escrow import charged_to
from holdfast.core.platform.events import (
    FinalizersReleased,
    GrantsRemoved,
    RegionRetired,
    RightsReleased,
    WorkloadOf,
)
from holdfast.core.platform.names import refuse_reason
from holdfast.core.platform.objects import already
from holdfast.core.platform.senders import outside_whole_region
from holdfast.core.platform.settling import recount_lent
from holdfast.core.platform.state import PlatformState, assignments_of, grant_key


def retire_region(state: PlatformState, command: RetireRegion, case: Case) -> Accepted | Refused:
    """What it held is free; its log never speaks for it again."""
    name = command.region
    refused = (
        refuse_unknown("Region", (name,), state.regions)
        or outside_whole_region(case, name)
        or refuse_reason(command.reason)
    )
    if refused is not None:
        return refused
    status = state.regions[name].status
    if status.health is RegionHealth.RETIRED:
        return already(f"Region/{name}", state.regions[name].meta.revision)
    assignments = [assignment for assignment in state.assignments.values() if assignment.region == name]
    workloads = _finalised_by(state, name)
    return Accepted(
        (
            RegionRetired(name, status.log_id, command.reason),
            *_release_assignments(state, assignments, workloads, case),
            *_release_rights(state, command, workloads),
            *_release_finalizers(state, name, workloads, case),
            *_release_grants(state, name, case),
        )
    )


def _finalised_by(state: PlatformState, region: str) -> list[Workload]:
    owner = f"region/{region}"
    found = (
        uid
        for uid, workload in state.workloads.unordered()
        if any(finalizer.owner == owner for finalizer in workload.meta.finalizers)
    )
    return [state.workloads[uid] for uid in sorted(found)]


def _ready_to_go(workloads: list[Workload]) -> list[Workload]:
    return [workload for workload in workloads if len(workload.meta.finalizers) == 1]


def _release_assignments(
    state: PlatformState, assignments: list[Assignment], workloads: list[Workload], case: Case
) -> tuple[object, ...]:
    if not assignments:
        return ()
    gone = {assignment.uid for assignment in assignments}
    events: list[object] = [removed(assignments, _done_by(state, assignments))]
    ending = {workload.meta.uid for workload in workloads}
    for uid in sorted({assignment.workload for assignment in assignments} - ending):
        left = [assignment for assignment in assignments_of(state, uid) if assignment.uid not in gone]
        events.extend(recount_workload(state, state.workloads[uid], left, case))
    return tuple(events)


def _done_by(state: PlatformState, assignments: list[Assignment]) -> dict[Revision, Done]:
    """By assignment: what the region said last that it had done. It says so of a workload, by whichever assignment."""
    found: dict[Revision, Done] = {}
    told: set[Revision] = set()
    for one in assignments:
        said = [seen for seen in state.observed.get(one.workload) or () if seen.region == one.region]
        if one.workload not in told and said:
            told.add(one.workload)
            counts = [(count.template, count.done) for count in said[0].seen.counts if count.done]
            found[one.uid] = tuple(sorted(counts))
    return found


def _release_rights(state: PlatformState, command: RetireRegion, workloads: list[Workload]) -> tuple[object, ...]:
    """Rights of workloads that go with the region are released by their removal."""
    going: set[Revision] = {workload.meta.uid for workload in _ready_to_go(workloads)}
    held = sorted(
        key for key, right in state.rights.unordered() if right.region == command.region and key[0] not in going
    )
    if not held:
        return ()
    return (RightsReleased(tuple(state.rights[key] for key in held), f"retired: {command.reason}"),)


def _release_finalizers(state: PlatformState, region: str, workloads: list[Workload], case: Case) -> tuple[object, ...]:
    """Deletions that waited for this region alone are complete."""
    going = [workload.meta.uid for workload in _ready_to_go(workloads)]
    others = tuple(
        WorkloadOf(workload.meta.uid, workload.meta.tenant)
        for workload in workloads
        if len(workload.meta.finalizers) > 1
    )
    return (
        *((FinalizersReleased(f"region/{region}", others),) if others else ()),
        *removal(state, going, case),
    )


def _release_grants(state: PlatformState, region: str, case: Case) -> tuple[object, ...]:
    grants: list[Grant] = [grant for grant in state.grants.values() if grant.region == region]
    if not grants:
        return ()
    freed: dict[str, Resources] = {}
    for grant in grants:
        freed[grant.account] = add(freed.get(grant.account, NOTHING), grant.offered)
    events: list[object] = [GrantsRemoved(tuple(grant_key(grant.region, grant.account) for grant in grants))]
    for account, amount in sorted(freed.items()):
        before = charged_to(state, account, region)
        events.extend(recount_lent(state, account, region, (before, subtract(before, amount)), case))
    return tuple(events)
