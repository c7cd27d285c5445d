"""Activate, EndAssignment, RemoveAssignment, Adopt: the stages of an assignment.

    standby --Activate--> active --EndAssignment--> ended --RemoveAssignment, by the region--> removed
       \\____________________________/
    recovery --Adopt--> serving, charged to the quota

The platform ends an assignment, the region releases it. In between, the region still has its slots.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, malformed, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import count_numbers, with_numbers
from holdfast.core.platform.commands import Activate, Adopt, EndAssignment, RemoveAssignment
from holdfast.core.platform.decide import assignments
from holdfast.core.platform.decide.breaches import disruption_shared
from holdfast.core.platform.decide.checks import refuse_unjoined_session
from holdfast.core.platform.decide.workload_deletion import (
    done_of_kept_templates,
    ended_assignment,
    finalizer_events,
    freed_right_events,
    removal_event,
)
from holdfast.core.platform.limits import COUNTS_MAX
from holdfast.core.platform.queries.accounts import paying_accounts
from holdfast.core.platform.queries.identities import lease_end, refuse_uncovered
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState


def activate(state: PlatformState, command: Activate, ctx: CommandContext) -> Accepted | Refused:
    """Start a standby assignment. A suspect region may: it holds the capacity, and recovery is more urgent."""
    standby = state.assignments.get(command.assignment)
    if standby is None:
        return not_found("assignment", command.assignment)
    workload = state.workloads[standby.workload]
    if standby.stage is AssignmentStage.ACTIVE:
        return already(f"assignment/{standby.uid}", standby.revision)
    active = replace(standby, stage=AssignmentStage.ACTIVE)
    refused = (
        assignments.refuse_ending(workload)
        or _refuse_stage(standby, AssignmentStage.STANDBY)
        or assignments.refuse_without_loss(state)
        or _refuse_gone(state, standby.region)
        or refuse_uncovered(active)
    )
    if refused is not None:
        return refused
    leased = replace(active, right_until=lease_end(state, workload, active, ctx.at))
    return Accepted(assignments.assignment_events(state, workload, standby, leased, ctx))


def end_assignment(state: PlatformState, command: EndAssignment, ctx: CommandContext) -> Accepted | Refused:
    """End an assignment. The health of its region is no reason to refuse, since nothing more is requested there."""
    assignment = state.assignments.get(command.assignment)
    if assignment is None:
        return not_found("assignment", command.assignment)
    if assignment.stage is AssignmentStage.ENDED:
        return already(f"assignment/{assignment.uid}", assignment.revision)
    return Accepted(
        assignments.assignment_events(
            state, state.workloads[assignment.workload], assignment, ended_assignment(assignment), ctx
        )
    )


def remove_assignment(state: PlatformState, command: RemoveAssignment, ctx: CommandContext) -> Accepted | Refused:
    """Remove an ended assignment that its region has released. That frees its identities, too: evidence (a) of RULES 6.

    The region reports how much batch work was done, so that no region repeats it.
    """
    assignment = state.assignments.get(command.assignment)
    if assignment is None:
        return not_found("assignment", command.assignment)
    refused = refuse_unjoined_session(state, assignment.region, ctx) or _refuse_stage(assignment, AssignmentStage.ENDED)
    refused = refused or _refuse_done(command)
    if refused is not None:
        return refused
    held = with_numbers(assignment.ordinals, assignment.returning)
    if count_numbers(held) > RIGHTS_MAX:
        facts = {"assignment": assignment.uid, "rights": count_numbers(held), "most": RIGHTS_MAX}
        message = f"it has {count_numbers(held)} rights: release them first, {RIGHTS_MAX} at a time"
        return Refused(Code.IN_USE, message, facts)
    released = freed_right_events(state, [(assignment.workload, assignment.region, held)], "released by its region")
    gone = removal_event(
        [assignment], {assignment.uid: done_of_kept_templates(state, assignment.workload, command.done)}
    )
    return Accepted((gone, *released, *finalizer_events(state, assignment, ctx)), rows=count_numbers(held))


def _refuse_done(command: RemoveAssignment) -> Refused | None:
    names = [template for template, _ in command.done]
    if len(names) > COUNTS_MAX or names != sorted({*names}) or not all(count > 0 for _, count in command.done):
        return malformed(f"up to {COUNTS_MAX} templates in order, each with a count above 0", templates=len(names))
    return None


def adopt(state: PlatformState, command: Adopt, ctx: CommandContext) -> Accepted | Refused:
    """Move recovered work from the recovery budget to the quota. It is an explicit step, never automatic (RULES 7)."""
    recovered = state.assignments.get(command.assignment)
    if recovered is None:
        return not_found("assignment", command.assignment)
    if recovered.purpose is not AssignmentPurpose.RECOVERY:
        return already(f"assignment/{recovered.uid}", recovered.revision)
    workload = state.workloads[recovered.workload]
    refused = (
        assignments.refuse_ending(workload)
        or _refuse_stage(recovered, AssignmentStage.ACTIVE)
        or _refuse_second(state, recovered)
        or _refuse_shared(state, recovered)
    )
    if refused is not None:
        return refused
    accounts = paying_accounts(state, workload, recovered.region, AssignmentPurpose.SERVING, ctx.at)
    adopted = replace(recovered, purpose=AssignmentPurpose.SERVING, accounts=accounts)
    return Accepted(assignments.assignment_events(state, workload, recovered, adopted, ctx))


def _refuse_stage(assignment: Assignment, stage: AssignmentStage) -> Refused | None:
    if assignment.stage is stage:
        return None
    facts = {"assignment": assignment.uid, "stage": assignment.stage.value, "needed": stage.value}
    return Refused(Code.WRONG_PHASE, f"the assignment is {assignment.stage}, not {stage}", facts)


def _refuse_gone(state: PlatformState, region: str) -> Refused | None:
    health = state.regions[region].status.health
    if health in (RegionHealth.HEALTHY, RegionHealth.SUSPECT):
        return None
    facts = {"region": region, "health": health.value}
    return Refused(Code.REGION_UNAVAILABLE, f"region {region} is {health}", facts)


def _refuse_second(state: PlatformState, recovered: Assignment) -> Refused | None:
    serving = assignments.assignment_in(state, recovered.workload, recovered.region, AssignmentPurpose.SERVING)
    if serving is None:
        return None
    facts = {"assignment": serving.uid, "region": serving.region}
    return Refused(Code.EXISTS, f"region {serving.region} has a serving assignment of it", facts)


def _refuse_shared(state: PlatformState, recovered: Assignment) -> Refused | None:
    """Refuse a share that would exceed the disruption budget: it counts once the assignment serves."""
    most = state.workloads[recovered.workload].spec.disruption_max
    shared = disruption_shared(assignments_of(state, recovered.workload)) + recovered.disruption
    if not recovered.disruption or shared <= most:
        return None
    facts = {"shared": shared, "most": most}
    return Refused(Code.DISRUPTION, f"regions would hold {shared} of a disruption budget of {most}", facts)
