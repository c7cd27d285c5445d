"""Stop: the one way to end a slot, for a cause from the closed list.

Voluntary causes are refused once the region's share of the workload's disruption budget is spent. Causes that the owner
asked for, and forced ones, never are. A slot in a stoppable phase that is not serving may always be stopped and uses no
budget.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import RefusedPart, partial_answer, wrong_count
from holdfast.core.model.records.lifecycle import STOP_CAUSES, STOPPABLE, Phase, StopCause, StopKind
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.commands import Stop
from holdfast.core.region.events import SlotsStopping, SlotStop
from holdfast.core.region.queries.assignments import disruption_left
from holdfast.core.region.queries.gates import REPAIR, refuse_repair
from holdfast.core.region.state.gangs import members_in, standing_members
from holdfast.core.region.state.tables import RegionState

#: Causes that a proposal commits together with the successor; they are never sent alone.
_WITH_SUCCESSOR = ("preempted", "reclaimed")


def stop(state: RegionState, command: Stop, ctx: CommandContext) -> Accepted | Refused:
    """Stop slots, each decided alone."""
    cause = STOP_CAUSES.get(command.cause)
    refused = wrong_count(len(command.slots)) or _refuse_cause(state, command, cause, ctx)
    if refused is not None or cause is None:
        return refused or Refused(Code.MALFORMED, f"there is no stop cause {command.cause}", {"cause": command.cause})
    stops: list[SlotStop] = []
    lost: list[RefusedPart] = []
    seen: set[tuple[int, int]] = set()
    serving_lost: dict[Revision, int] = {}
    for index, key in enumerate(command.slots):
        slot = state.slots.get(key)
        unmet = _refuse_slot(state, cause, slot, serving_lost, repeated=key in seen)
        unmet = unmet or _refuse_whole_gang(state, cause, slot)
        unmet = unmet or _refuse_template(state, slot, command.template)
        if unmet is not None or slot is None:
            code, detail = unmet or (Code.NOT_FOUND, "no such slot")
            lost.append(RefusedPart(0, index, code, f"slot {key}: {detail}"))
            continue
        seen.add(key)
        if slot.phase is Phase.SERVING:
            serving_lost[slot.assignment] = serving_lost.get(slot.assignment, 0) + 1
        stops.append(SlotStop(key, slot.node, _next_template(slot, cause, command.template)))
    events = (SlotsStopping(command.cause, tuple(stops)),) if stops else ()
    return partial_answer(events, lost, ctx.envelope.view)


def is_urgent_stop(command: Stop) -> bool:
    """Return whether another region waits for it: a lapsed right is reassigned after a time, stopped or not."""
    return command.cause == "right-lapsed"


def _refuse_cause(state: RegionState, command: Stop, cause: StopCause | None, ctx: CommandContext) -> Refused | None:
    if cause is None:
        return Refused(Code.MALFORMED, f"there is no stop cause {command.cause}", {"cause": command.cause})
    if ctx.actor != cause.owner and ctx.kind != cause.owner:
        facts = {"cause": cause.name, "owner": cause.owner}
        return Refused(Code.NOT_OWNER, f"only {cause.owner} may stop slots for {cause.name}", facts)
    misfit = refuse_repair(active_overrides(state, ctx.at)) if cause.owner == REPAIR else None
    if misfit is not None:
        return Refused(misfit.code, misfit.detail, {"cause": cause.name})
    if cause.name in _WITH_SUCCESSOR:
        return Refused(Code.CONTRADICTORY, f"{cause.name} is committed with the successor: send a proposal", {})
    if command.template and (not cause.again or command.template not in state.templates):
        return Refused(Code.NOT_FOUND, f"no template {command.template} for ordinals after {cause.name}", {})
    return None


def _refuse_slot(
    state: RegionState, cause: StopCause, slot: Slot | None, serving_lost: dict[Revision, int], *, repeated: bool
) -> tuple[Code, str] | None:
    if slot is None:
        return Code.NOT_FOUND, "no such slot"
    if slot.phase not in STOPPABLE or repeated:
        return Code.WRONG_PHASE, f"is {slot.phase}"
    if cause.kind is StopKind.VOLUNTARY and slot.phase is Phase.SERVING:
        assignment = state.assignments[slot.assignment]
        if disruption_left(state, assignment, serving_lost.get(slot.assignment, 0)) <= 0:
            return Code.DISRUPTION, f"the disruption budget of {assignment.workload_name} is spent"
    return None


def _refuse_whole_gang(state: RegionState, cause: StopCause, slot: Slot | None) -> tuple[Code, str] | None:
    """Refuse to end a gang as broken that has enough members by now: a placement may have come before the stop."""
    assignment = state.assignments[slot.assignment] if slot is not None and cause.name == "gang-broken" else None
    if slot is None or assignment is None or assignment.gang is None:
        return None
    gang = assignment.gang
    there = members_in(standing_members(state, assignment.uid), slot.ordinal // gang.size, gang.size)
    return (Code.GANG, f"has a gang with {there} members") if there >= gang.needed else None


def _refuse_template(state: RegionState, slot: Slot | None, template: str) -> tuple[Code, str] | None:
    if slot is None or not template:
        return None
    if any(share.template == template and share.count for share in state.assignments[slot.assignment].shares):
        return None
    return Code.NOT_ASSIGNED, f"its assignment has no share of template {template}"


def _next_template(slot: Slot, cause: StopCause, template: str) -> str:
    if not cause.again or not slot.next_template:
        return ""
    return template or slot.next_template
