"""DeleteWorkload: how a workload ends.

The one idea: deleting asks, releasing answers. A deleted workload keeps one finalizer for each region that has an
assignment of it; a region releases its own with its last assignment, and the commit that releases the last one removes
the workload, its rights and its templates. Its name is free from the first moment, since everything refers to its uid
(RULES 13).

    live --DeleteWorkload--> ending (finalizers) --RemoveAssignment, RetireRegion--> gone
      \\_____________________ no assignments: gone at once _________________________/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Assignment, Purpose, Stage
from holdfast.core.model.limits import RIGHTS_MAX
from holdfast.core.model.meta import Finalizer
from holdfast.core.model.runs import Runs, joined, numbers, size
from holdfast.core.model.runs import without as outside
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.workload import Workload
from holdfast.core.platform.breaches import close_workload
from holdfast.core.platform.commands import DeleteWorkload
from holdfast.core.platform.events import (
    AssignmentOf,
    AssignmentsEnded,
    AssignmentsRemoved,
    AssignmentStored,
    DeletionBegun,
    FinalizersReleased,
    RightsFreed,
    RightsReleased,
    WorkloadOf,
    WorkloadsRemoved,
)
from holdfast.core.platform.objects import already, refuse_other_uid
from holdfast.core.platform.senders import outside_placement, outside_tenant
from holdfast.core.platform.state import PlatformState, assignments_of, name_key
from holdfast.core.platform.templates import forgotten

#: How many of each template were done.
Done = tuple[tuple[str, int], ...]


def delete_workload(state: PlatformState, command: DeleteWorkload, case: Case) -> Accepted | Refused:
    """Every assignment ends in the same commit, so no region is left with work that nobody wants."""
    refused = outside_tenant(case, command.tenant)
    if refused is not None:
        return refused
    key = name_key(command.tenant, command.name)
    workload = state.workloads.get(state.workload_names.get(key) or 0)
    if workload is None:
        ending = state.workloads.get(command.uid)
        if ending is not None and name_key(ending.meta.tenant, ending.meta.name) == key:
            return already(f"Workload/{key}", ending.meta.revision)
        return not_found("Workload", key)
    refused = outside_placement(case, workload.spec) or refuse_other_uid(f"Workload/{key}", workload.meta, command.uid)
    if refused is not None:
        return refused
    assignments = assignments_of(state, workload.meta.uid)
    asked = _asked_back(state, workload, assignments)
    if not assignments and not asked:
        return Accepted(removal(state, [workload.meta.uid], case))
    return Accepted(_ending(state, workload, assignments, asked, case))


def _asked_back(state: PlatformState, workload: Workload, assignments: Sequence[Assignment]) -> list[Assignment]:
    """Rights that no assignment lists go with the workload. Where they are too many for one record they are asked
    back, as all others are: each region that holds some has an ended assignment of them."""
    uid = workload.meta.uid
    unlisted: dict[str, Runs] = {}
    for region, ordinals in state.rights_of.get(uid) or ():
        for one in assignments:
            ordinals = outside(ordinals, joined(one.ordinals, one.returning))
        unlisted |= {region: ordinals} if ordinals else {}
    if sum(map(size, unlisted.values())) <= RIGHTS_MAX:
        return []
    found = []
    for region, ordinals in sorted(unlisted.items()):
        mine = next((one for one in assignments if one.region == region), None)
        if mine is None:
            mine = _empty(workload, region)
        found.append(replace(mine, returning=joined(mine.returning, ordinals)))
    return found


def _empty(workload: Workload, region: str) -> Assignment:
    """An assignment of which nothing is wanted."""
    spec, meta = workload.spec, workload.meta
    return Assignment(
        0, 0, meta.uid, meta.name, meta.tenant, region, Purpose.SERVING, Stage.ENDED, meta.generation, (), (),
        spec.priority_class, exclusive=spec.exclusive, jurisdictions=spec.placement.jurisdictions,
    )  # fmt: skip


def _ending(
    state: PlatformState,
    workload: Workload,
    assignments: Sequence[Assignment],
    asked: Sequence[Assignment],
    case: Case,
) -> tuple[object, ...]:
    deadline = case.at + state.facts.settings.finalizer_deadline
    regions = sorted({assignment.region for assignment in (*assignments, *asked)})
    uid, more = workload.meta.uid, {assignment.uid: assignment for assignment in asked if assignment.uid}
    changed = [more.get(one.uid, one) for one in assignments if one.stage is not Stage.ENDED or one.uid in more]
    is_whole = state.facts.level < AssignmentsEnded.SINCE
    named = tuple(_named(one) for one in changed if not is_whole and one.uid not in more)
    stored = [one for one in changed if is_whole or one.uid in more]
    live = [*stored, *(assignment for assignment in asked if not assignment.uid)]
    return (
        DeletionBegun(uid, workload.meta.tenant, tuple(finalizer_of(region, deadline) for region in regions)),
        *((AssignmentsEnded(named),) if named else ()),
        *(AssignmentStored(ended(assignment)) for assignment in live),
        *close_workload(state, uid, case),
    )


def ended(assignment: Assignment) -> Assignment:
    """Nothing of it is wanted. The ordinals stay: the region holds their rights until it has released them."""
    return replace(assignment, stage=Stage.ENDED, shares=(), disruption=0)


def removed(assignments: Sequence[Assignment], done: Mapping[Revision, Done]) -> AssignmentsRemoved:
    """Assignments of which no region has anything left, and what each of them had done."""
    return AssignmentsRemoved(tuple(_named(one, done.get(one.uid, ())) for one in assignments))


def _named(one: Assignment, done: Done = ()) -> AssignmentOf:
    return AssignmentOf(one.uid, one.workload, one.tenant, one.region, done)


def finalizer_of(region: str, deadline: Instant) -> Finalizer:
    """What a region must release before a workload may go."""
    return Finalizer(name=f"slots/{region}", owner=f"region/{region}", deadline=deadline)


def release_finalizer(state: PlatformState, last: Assignment, case: Case) -> tuple[object, ...]:
    """With a region's last assignment of a workload that is being deleted its finalizer goes; with the last of these,
    the workload."""
    workload = state.workloads[last.workload]
    left = [a for a in assignments_of(state, last.workload) if a.uid != last.uid]
    if workload.meta.deletion is None or any(a.region == last.region for a in left):
        return ()
    owner = f"region/{last.region}"
    if all(finalizer.owner == owner for finalizer in workload.meta.finalizers):
        return removal(state, [last.workload], case, without=joined(last.ordinals, last.returning))
    return (FinalizersReleased(owner, (WorkloadOf(last.workload, workload.meta.tenant),)),)


def removal(state: PlatformState, uids: Sequence[Revision], case: Case, without: Runs = ()) -> tuple[object, ...]:
    """What removes workloads that no region holds any more, their rights included, except ordinals released already."""
    gone = tuple(WorkloadOf(uid, state.workloads[uid].meta.tenant) for uid in uids)
    held = [
        (uid, region, outside(ordinals, without)) for uid in uids for region, ordinals in state.rights_of.get(uid) or ()
    ]
    return (
        *((WorkloadsRemoved(gone),) if gone else ()),
        *freed(state, held, "the workload is gone"),
        *forgotten(state, uids),
        *(event for uid in uids for event in close_workload(state, uid, case)),
    )


def freed(state: PlatformState, held: Sequence[tuple[Revision, str, Runs]], evidence: str) -> tuple[object, ...]:
    """These rights, by workload and region, are nobody's. At level 1 each of them is listed."""
    if state.facts.level >= 2:
        return tuple(RightsFreed(uid, ordinals, region, evidence) for uid, region, ordinals in held if ordinals)
    keys = sorted((uid, ordinal) for uid, _, ordinals in held for ordinal in numbers(ordinals))
    return (RightsReleased(tuple(state.rights[key] for key in keys), evidence),) if keys else ()
