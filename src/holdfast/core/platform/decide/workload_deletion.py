"""DeleteWorkload, ReleaseFinalizer: how a workload ends, and its templates.

    live --DeleteWorkload--> ending (finalizers) --RemoveAssignment, RetireRegion--> removed
      \\_____________________ no assignments: removed at once ________________________/

A deleted workload has one finalizer for each region with an assignment of it. A region releases its own with its last
assignment. The commit that releases the last one removes the workload, its rights and its templates. The name is free
at once, since everything refers to the uid (RULES 13).

    PutWorkload of another template ──▶ the workload keeps the last ten ──▶ others are forgotten ──▶ regions

A template is stored once under its digest. A workload keeps its present template, those of its assignments, and the
last few others, since a rollout may go back to one. Regions keep their own copies while they run them.

ReleaseFinalizer drops a lost region's finalizer after its deadline. If the region returns, its full list lacks the
workload, and it ends the rest. A region that is not lost releases its own, however long that takes. Exclusive
identities need evidence (RULES 6): an operator retires the region or attests for them. An override can pause it.

Size: a deletion, its finalizers and its templates end in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, not_found
from holdfast.core.ledger.builtin.overrides import active_overrides, refuse_while_paused
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.workloads import Workload, name_key
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.limits import RIGHTS_MAX, TEMPLATES_MAX
from holdfast.core.model.values.metadata import Finalizer
from holdfast.core.model.values.ranges import Ranges, count_numbers, numbers, with_numbers
from holdfast.core.model.values.ranges import without as outside
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import events as e
from holdfast.core.platform.commands import DeleteWorkload, ReleaseFinalizer
from holdfast.core.platform.decide.breaches import close_workload
from holdfast.core.platform.decide.checks import refuse_other_uid, refuse_outside_placement, refuse_outside_tenant
from holdfast.core.platform.state.lookups import assignments_of, is_left_to_its_region
from holdfast.core.platform.state.tables import PlatformState

#: Number of replicas done, by template.
Done = tuple[tuple[str, int], ...]


def delete_workload(state: PlatformState, command: DeleteWorkload, ctx: CommandContext) -> Accepted | Refused:
    """Begin a deletion. All assignments end in the same commit, so no region continues the work."""
    refused = refuse_outside_tenant(ctx, command.tenant)
    if refused is not None:
        return refused
    key = name_key(command.tenant, command.name)
    workload = state.workloads.get(state.workload_names.get(key) or 0)
    if workload is None:
        ending = state.workloads.get(command.uid)
        if ending is not None and name_key(ending.meta.tenant, ending.meta.name) == key:
            return already(f"Workload/{key}", ending.meta.revision)
        return not_found("Workload", key)
    refused = refuse_outside_placement(ctx, workload.spec) or refuse_other_uid(
        f"Workload/{key}", workload.meta, command.uid
    )
    if refused is not None:
        return refused
    assignments = assignments_of(state, workload.meta.uid)
    asked = _asked_back(state, workload, assignments)
    if not assignments and not asked:
        return Accepted(workload_removal_events(state, [workload.meta.uid], ctx))
    return Accepted(_ending(state, workload, assignments, asked, ctx))


def _asked_back(state: PlatformState, workload: Workload, assignments: Sequence[Assignment]) -> list[Assignment]:
    """Return ended assignments, one for each region, that request unlisted rights back.

    There are none if one record can free all such rights: then they are removed with the workload.
    """
    uid = workload.meta.uid
    unlisted: dict[str, Ranges] = {}
    for region, ordinals in state.rights_of.get(uid) or ():
        for one in assignments:
            ordinals = outside(ordinals, with_numbers(one.ordinals, one.returning))
        unlisted |= {region: ordinals} if ordinals else {}
    if sum(map(count_numbers, unlisted.values())) <= RIGHTS_MAX:
        return []
    found = []
    for region, ordinals in sorted(unlisted.items()):
        mine = next((one for one in assignments if one.region == region), None)
        if mine is None:
            mine = _empty(workload, region)
        found.append(replace(mine, returning=with_numbers(mine.returning, ordinals)))
    return found


def _empty(workload: Workload, region: str) -> Assignment:
    """Return an ended assignment without replicas."""
    spec, meta = workload.spec, workload.meta
    return Assignment(
        0, 0, meta.uid, meta.name, meta.tenant, region, AssignmentPurpose.SERVING, AssignmentStage.ENDED,
        meta.generation, (), (),
        spec.priority_class, exclusive=spec.exclusive, jurisdictions=spec.placement.jurisdictions,
    )  # fmt: skip


def _ending(
    state: PlatformState,
    workload: Workload,
    assignments: Sequence[Assignment],
    asked: Sequence[Assignment],
    ctx: CommandContext,
) -> tuple[object, ...]:
    deadline = ctx.at + state.info.settings.finalizer_deadline
    regions = sorted({assignment.region for assignment in (*assignments, *asked)})
    uid, more = workload.meta.uid, {assignment.uid: assignment for assignment in asked if assignment.uid}
    changed = [
        more.get(one.uid, one) for one in assignments if one.stage is not AssignmentStage.ENDED or one.uid in more
    ]
    is_whole = state.info.level < e.AssignmentsEnded.SINCE
    named = tuple(_named(one) for one in changed if not is_whole and one.uid not in more)
    stored = [one for one in changed if is_whole or one.uid in more]
    live = [*stored, *(assignment for assignment in asked if not assignment.uid)]
    return (
        e.DeletionBegun(uid, workload.meta.tenant, tuple(finalizer_of(region, deadline) for region in regions)),
        *((e.AssignmentsEnded(named),) if named else ()),
        *(e.AssignmentStored(ended_assignment(assignment)) for assignment in live),
        *close_workload(state, uid, ctx),
    )


def ended_assignment(assignment: Assignment) -> Assignment:
    """Return the assignment without replicas. Its ordinals stay: the region holds their rights until it has released
    them."""
    return replace(assignment, stage=AssignmentStage.ENDED, shares=(), disruption=0)


def removal_event(assignments: Sequence[Assignment], done: Mapping[Revision, Done]) -> e.AssignmentsRemoved:
    """Return the removal of assignments that their regions have released, with the done counts of each."""
    return e.AssignmentsRemoved(tuple(_named(one, done.get(one.uid, ())) for one in assignments))


def _named(one: Assignment, done: Done = ()) -> e.AssignmentOf:
    return e.AssignmentOf(one.uid, one.workload, one.tenant, one.region, done)


def finalizer_of(region: str, deadline: Instant) -> Finalizer:
    """Return the finalizer that a region must release before a workload is removed."""
    return Finalizer(name=f"slots/{region}", owner=f"region/{region}", deadline=deadline)


def finalizer_events(state: PlatformState, last: Assignment, ctx: CommandContext) -> tuple[object, ...]:
    """Release the finalizer with a region's last assignment; with the last finalizer, remove the workload."""
    workload = state.workloads[last.workload]
    left = [a for a in assignments_of(state, last.workload) if a.uid != last.uid]
    if workload.meta.deletion is None or any(a.region == last.region for a in left):
        return ()
    owner = f"region/{last.region}"
    if all(finalizer.owner == owner for finalizer in workload.meta.finalizers):
        return workload_removal_events(state, [last.workload], ctx, without=with_numbers(last.ordinals, last.returning))
    return (e.FinalizersReleased(owner, (e.WorkloadOf(last.workload, workload.meta.tenant),)),)


def workload_removal_events(
    state: PlatformState, uids: Sequence[Revision], ctx: CommandContext, without: Ranges = ()
) -> tuple[object, ...]:
    """Return the events that remove workloads which no region holds, with their rights except ordinals released
    already."""
    gone = tuple(e.WorkloadOf(uid, state.workloads[uid].meta.tenant) for uid in uids)
    held = [
        (uid, region, outside(ordinals, without)) for uid in uids for region, ordinals in state.rights_of.get(uid) or ()
    ]
    return (
        *((e.WorkloadsRemoved(gone),) if gone else ()),
        *freed_right_events(state, held, "the workload is gone"),
        *unused_templates(state, uids),
        *(event for uid in uids for event in close_workload(state, uid, ctx)),
    )


def freed_right_events(
    state: PlatformState, held: Sequence[tuple[Revision, str, Ranges]], evidence: str
) -> tuple[object, ...]:
    """Return the events that free rights, by workload and region. At level 1 each right is listed."""
    if state.info.level >= 2:
        return tuple(e.RightsFreed(uid, ordinals, region, evidence) for uid, region, ordinals in held if ordinals)
    keys = sorted((uid, ordinal) for uid, _, ordinals in held for ordinal in numbers(ordinals))
    return (e.RightsReleased(tuple(state.rights[key] for key in keys), evidence),) if keys else ()


def unused_templates(state: PlatformState, workloads: Iterable[Revision]) -> tuple[e.TemplatesForgotten, ...]:
    """Return the templates that no workload names once these workloads are removed."""
    going: dict[str, int] = {}
    for uid in workloads:
        for digest in state.templates_of.get(uid) or ():
            going[digest] = going.get(digest, 0) + 1
    gone = sorted(digest for digest, count in going.items() if count == _workloads_naming(state, digest))
    return (e.TemplatesForgotten(tuple(gone)),) if gone else ()


def template_drop_events(
    state: PlatformState, workload: e.WorkloadOf, newest: str
) -> tuple[e.TemplatesDropped | e.TemplatesForgotten, ...]:
    """Return the templates that a workload drops when it names this one, and those of them that no workload names."""
    if state.info.level < e.TemplatesDropped.SINCE:
        return ()
    named = [*(one for one in state.templates_of.get(workload.workload) or () if one != newest), newest]
    assigned = {share.template for one in assignments_of(state, workload.workload) for share in one.shares}
    going = sorted(one for one in named[:-TEMPLATES_MAX] if one not in assigned)
    if not going:
        return ()
    gone = tuple(digest for digest in going if _workloads_naming(state, digest) == 1)
    return (
        e.TemplatesDropped(workload.workload, workload.tenant, tuple(going)),
        *((e.TemplatesForgotten(gone),) if gone else ()),
    )


def done_of_kept_templates(
    state: PlatformState, workload: Revision, done: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """Return the done counts of templates that the workload keeps; others are of no use."""
    if state.info.level < e.TemplatesDropped.SINCE:
        return done
    kept = state.templates_of.get(workload) or ()
    return tuple(row for row in done if row[0] in kept)


def _workloads_naming(state: PlatformState, digest: str) -> int:
    return sum(count for _, count in state.template_uses.get(digest) or ())


def release_finalizer(state: PlatformState, command: ReleaseFinalizer, ctx: CommandContext) -> Accepted | Refused:
    """Release a lost region's finalizer after its deadline; with the last one, remove the workload."""
    workload, owner = state.workloads.get(command.workload), f"region/{command.region}"
    held = [one for one in workload.meta.finalizers if one.owner == owner] if workload is not None else []
    if workload is None or not held:
        return not_found("finalizer", f"{owner} of workload {command.workload}")
    refused = (
        _refuse_early(held[0], ctx)
        or _refuse_owned(state, workload, command.region)
        or refuse_while_paused(active_overrides(state, ctx.at, command.region).repair, "repair is paused")
    )
    if refused is not None:
        return refused
    uid, tenant = workload.meta.uid, workload.meta.tenant
    theirs = [one for one in assignments_of(state, uid) if one.region == command.region]
    if len(workload.meta.finalizers) == 1:
        return Accepted((removal_event(theirs, {}), *workload_removal_events(state, [uid], ctx)))
    return Accepted((removal_event(theirs, {}), e.FinalizersReleased(owner, (e.WorkloadOf(uid, tenant),))))


def _refuse_early(finalizer: Finalizer, ctx: CommandContext) -> Refused | None:
    if ctx.at >= finalizer.deadline:
        return None
    facts = {"deadline": finalizer.deadline, "at": ctx.at}
    return Refused(Code.TOO_EARLY, f"{finalizer.owner} has until {finalizer.deadline} to release it", facts)


def _refuse_owned(state: PlatformState, workload: Workload, region: str) -> Refused | None:
    if not is_left_to_its_region(state, workload, region):
        return None
    facts = {"region": region, "health": state.regions[region].status.health.value}
    if workload.spec.exclusive:
        return Refused(Code.RIGHT_HELD, f"region {region} may hold identities of it: they move by evidence", facts)
    return Refused(Code.NOT_OWNER, f"region {region} is not lost: it releases it itself", facts)
