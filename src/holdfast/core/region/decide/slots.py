"""Open ordinals and pending reports: commands of the replica controller and the scheduler about slots and requests."""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found, too_large
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import wrong_count
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.ranges import count_numbers, is_within, ranges_of
from holdfast.core.model.values.resources import ZERO, add
from holdfast.core.region.commands import AdoptSlots, ForgetAssignment, OpenSlots, ReportPending, WithdrawSlots
from holdfast.core.region.events import (
    AssignmentForgotten,
    PendingReported,
    SlotOnNode,
    SlotRelease,
    SlotsAdopted,
    SlotsOpened,
    SlotsReleased,
    SlotsRetargeted,
)
from holdfast.core.region.limits import ORDINAL_MAX, REASONS_MAX
from holdfast.core.region.queries.accounts import affordable_count
from holdfast.core.region.state.lookups import is_finished
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState


def open_slots(state: RegionState, command: OpenSlots, ctx: CommandContext) -> Accepted | Refused:
    """Open new ordinals, and retarget known ones. Ordinals without a right and finished ordinals are refused."""
    assignment = state.assignments.get(command.assignment)
    refused = wrong_count(len(command.ordinals)) or _refuse_ordinals(assignment, command.assignment, command.ordinals)
    if refused is not None or assignment is None:
        return refused or not_found("assignment", command.assignment)
    if assignment.stage is not AssignmentStage.ACTIVE or command.template not in {
        s.template for s in assignment.shares if s.count
    }:
        facts = {"assignment": assignment.uid, "stage": assignment.stage.value, "template": command.template}
        return Refused(Code.NOT_ASSIGNED, "the assignment is not active, or has no share of this template", facts)
    if assignment.exclusive and not is_within(ranges_of(command.ordinals), assignment.ordinals):
        return Refused(Code.NOT_ASSIGNED, "this region has no right to all of these ordinals", {})
    over = [ordinal for ordinal in command.ordinals if is_finished(state, assignment.uid, ordinal)]
    if over:
        return Refused(Code.ALREADY, f"{len(over)} of these ordinals are finished", {"ordinals": over})
    new: list[int] = []
    again: list[SlotOnNode] = []
    for ordinal in command.ordinals:
        key = (assignment.workload, ordinal)
        slot = state.slots.get(key)
        if slot is None:
            new.append(ordinal)
        elif slot.assignment != assignment.uid:
            return Refused(Code.EXISTS, f"slot {key} belongs to another assignment", {"slot": key})
        elif slot.phase is Phase.PENDING:
            return Refused(Code.EXISTS, f"slot {key} is pending already", {"slot": key})
        elif slot.next_template != command.template:
            again.append(SlotOnNode(key, slot.node))
    if not new and not again:
        return Refused(Code.ALREADY, "all of these ordinals are open already", {})
    opened = (SlotsOpened(assignment.uid, assignment.workload, command.template, ranges_of(new)),) if new else ()
    retargeted = (SlotsRetargeted(tuple(again), command.template),) if again else ()
    return Accepted((*opened, *retargeted), rows=len(new) + len(again))


def _refuse_ordinals(assignment: Assignment | None, uid: int, ordinals: tuple[int, ...]) -> Refused | None:
    if assignment is None:
        return not_found("assignment", uid)
    if len({*ordinals}) != len(ordinals) or not all(0 <= ordinal < ORDINAL_MAX for ordinal in ordinals):
        return Refused(Code.MALFORMED, "ordinals must be distinct numbers from 0 to 2147483647", {})
    return None


def withdraw_slots(state: RegionState, command: WithdrawSlots, ctx: CommandContext) -> Accepted | Refused:
    """Release pending and reserved slots with their charge. Bound slots continue and do not return after their end."""
    assignment = state.assignments.get(command.assignment)
    refused = wrong_count(len(command.ordinals)) or _refuse_ordinals(assignment, command.assignment, command.ordinals)
    if refused is not None or assignment is None:
        return refused or not_found("assignment", command.assignment)
    releases: list[SlotRelease] = []
    unwanted: list[SlotOnNode] = []
    for ordinal in command.ordinals:
        key = (assignment.workload, ordinal)
        slot = state.slots.get(key)
        if slot is None or slot.assignment != assignment.uid:
            return not_found("slot", key)
        if slot.phase in (Phase.PENDING, Phase.RESERVED):
            releases.append(SlotRelease(key, slot.node, "withdrawn", "", ""))
        elif slot.next_template:
            unwanted.append(SlotOnNode(key, slot.node))
    if not releases and not unwanted:
        return Refused(Code.ALREADY, "all of these ordinals are withdrawn already", {})
    gone = (SlotsReleased(tuple(releases)),) if releases else ()
    last = (SlotsRetargeted(tuple(unwanted), ""),) if unwanted else ()
    return Accepted((*gone, *last), rows=len(releases) + len(unwanted))


def forget_assignment(state: RegionState, command: ForgetAssignment, ctx: CommandContext) -> Accepted | Refused:
    """Delete an ended assignment that has no slots and no holds."""
    assignment = state.assignments.get(command.assignment)
    if assignment is None:
        return not_found("assignment", command.assignment)
    if assignment.stage is not AssignmentStage.ENDED:
        return Refused(Code.WRONG_PHASE, f"it is {assignment.stage}, not ended", {"stage": assignment.stage.value})
    left = count_numbers(ordinals_of(state, assignment.uid))
    if left or state.holds_of.get(assignment.uid):
        return Refused(Code.IN_USE, f"the assignment still has {left} slots, or holds", {"slots": left})
    return Accepted((AssignmentForgotten(assignment.uid, assignment.workload),))


def adopt_slots(state: RegionState, command: AdoptSlots, ctx: CommandContext) -> Accepted | Refused:
    """Charge recovered slots to an account that their assignment names now; all of them or none."""
    assignment = state.assignments.get(command.assignment)
    refused = wrong_count(len(command.ordinals)) or _refuse_ordinals(assignment, command.assignment, command.ordinals)
    if refused is not None or assignment is None:
        return refused or not_found("assignment", command.assignment)
    needed = ZERO
    charged: list[SlotOnNode] = []
    for ordinal in command.ordinals:
        key = (assignment.workload, ordinal)
        slot = state.slots.get(key)
        if slot is None or slot.assignment != assignment.uid or not slot.account:
            return not_found("charged slot", key)
        if slot.account in assignment.accounts:
            return Refused(Code.ALREADY, f"slot {key} is charged to {slot.account}", {"slot": key})
        needed = add(needed, state.templates[slot.template].need)
        charged.append(SlotOnNode(key, slot.node))
    for account in assignment.accounts:
        if affordable_count(state, account, ctx.at, needed) > 0:
            return Accepted((SlotsAdopted(account, tuple(charged)),))
    return Refused(Code.OVER_GRANT, f"{', '.join(assignment.accounts)} cannot be charged for these slots", {})


def report_pending(state: RegionState, command: ReportPending, ctx: CommandContext) -> Accepted | Refused:
    """Store typed reasons on the request; an older report never replaces a newer one."""
    requests = state.requests.get(command.assignment) or ()
    request = next((r for r in requests if r.template == command.template), None)
    if request is None:
        return not_found("request", f"{command.assignment}/{command.template}")
    if _size(command.reasons) > REASONS_MAX:
        return too_large("reasons in its tree", _size(command.reasons), REASONS_MAX)
    if command.examined >= ctx.revision:
        return Refused(
            Code.MALFORMED, "the request was examined at a revision that does not exist", {"examined": command.examined}
        )
    if command.examined <= request.examined:
        return Refused(Code.ALREADY, f"examined already at {request.examined}", {"examined": request.examined})
    workload = state.assignments[command.assignment].workload
    reported = PendingReported(command.assignment, workload, command.template, command.examined, command.reasons)
    return Accepted((reported,))


def _size(reasons: tuple[PendingReason, ...]) -> int:
    return sum(1 + _size(reason.below) for reason in reasons)
