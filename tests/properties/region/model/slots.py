"""The model of a slot's life after it was placed: reservations, moves, stops.

Parts of a command are judged one by one, each on what those before it did. Only the moves of one command are reports of
one moment: each is judged on what was before the command, and names its slot once.
"""

from __future__ import annotations

import copy

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.lifecycle import EDGE_BY_KEY, STOP_CAUSES, STOPPABLE, Phase, StopKind
from holdfast.core.model.records.slots import Failure
from holdfast.core.model.values.ranges import contains
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region import commands as c
from tests.properties.region.model.proposals import (
    Parts,
    has_right,
    keeps_times,
    lacks_members,
    members,
    refuse_assigned,
    refuse_node,
    terminate,
    valid_policy,
    wrong_count,
)
from tests.properties.region.model.records import Node, Slot
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender, fence_of, in_force, is_paused

# Reservations


def _refuse_reserved(slot: Slot | None) -> Code | None:
    if slot is None:
        return Code.NOT_FOUND
    return None if slot.phase is Phase.RESERVED else Code.WRONG_PHASE


def bind(model: Model, command: c.Bind, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    lost: Parts = {}
    bound: dict[int, Slot] = {}
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is not None and code is None:
            code = _refuse_binding(model, slot, sender)
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            bound[index] = copy.copy(slot)
            slot.phase, slot.cause, slot.detail, slot.ends = Phase.BOUND, "bound", "", 0
            slot.bound_at = sender.at
            slot.changed = slot.reported = model.here
    parted = {index: before for index, before in bound.items() if _is_left(model, before)}
    for index, before in parted.items():
        model.slots[before.key] = before
        lost[0, index] = Code.GANG
    return lost


def _is_left(model: Model, slot: Slot) -> bool:
    """Whether a member of its gang stays reserved: those are bound together."""
    assignment = model.assignments[slot.assignment]
    return assignment.gang is not None and any(
        one.phase is Phase.RESERVED for one in members(model, assignment, slot.ordinal)
    )


def _release_gangs(model: Model, named: list[Slot], cause: str) -> None:
    """What is reserved of a gang goes with those that leave too few behind."""
    for slot in named:
        assignment = model.assignments[slot.assignment]
        if lacks_members(model, assignment, slot.ordinal):
            for one in members(model, assignment, slot.ordinal):
                if one.phase is Phase.RESERVED:
                    model.leave(one, cause)


def _refuse_binding(model: Model, slot: Slot, sender: Sender) -> Code | None:
    """What it was reserved for still holds."""
    if slot.ends <= sender.at:
        return Code.EXPIRED
    assignment = model.assignments[slot.assignment]
    template = model.templates[slot.template]
    refused = refuse_node(model, model.nodes[slot.node], template, assignment, sender.at)
    if refused is not None:
        return refused
    refused = refuse_assigned(model, assignment, slot.template, sender.at)
    if refused is not None:
        return refused
    if is_paused(model, assignment.tenant, sender.at):
        return Code.PAUSED
    if sender.envelope.policy != valid_policy(model, assignment.tenant):
        return Code.POLICY
    return Code.NOT_ASSIGNED if assignment.exclusive and not contains(assignment.ordinals, slot.ordinal) else None


def unreserve(model: Model, command: c.Unreserve, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    lost: Parts = {}
    named: list[Slot] = []
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            named.append(slot)
            model.leave(slot, "refused")
    _release_gangs(model, named, "refused")
    return lost


def expire(model: Model, command: c.Expire, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.slots) + len(command.holds))
    if refused is not None:
        return refused
    lost: Parts = {}
    named: list[Slot] = []
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is not None and code is None and slot.ends > sender.at:
            code = Code.TOO_EARLY
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            named.append(slot)
            model.leave(slot, "expired")
    _release_gangs(model, named, "expired")
    for index, uid in enumerate(command.holds):
        if uid not in model.holds:
            lost[1, index] = Code.NOT_FOUND
        elif model.holds[uid].ends > sender.at:
            lost[1, index] = Code.TOO_EARLY
        else:
            model.drop_hold(uid)
    return lost


# Moves


def move(model: Model, command: c.Move, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.moves))
    if refused is not None:
        return refused
    lost: Parts = {}
    met: dict[SlotKey, c.MoveSlot] = {}
    for index, one in enumerate(command.moves):
        code = Code.WRONG_PHASE if one.slot in met else _refuse_move(model, one, sender)
        if code is None:
            met[one.slot] = one
        else:
            lost[0, index] = code
    for one in met.values():
        slot = model.slots[one.slot]
        if one.target is Phase.RELEASED:
            model.leave(slot, one.cause, one.detail, sender.at)
        else:
            slot.phase, slot.cause, slot.detail = one.target, one.cause, one.detail
            if one.target is Phase.FAILED and sender.kind == "agent":
                slot.failure = Failure(one.cause, one.detail, sender.at)
            slot.restarts += one.cause == "restarted"
            slot.changed = model.here
            slot.reported = model.here if sender.kind == "agent" else slot.reported
    return lost


def _refuse_move(model: Model, one: c.MoveSlot, sender: Sender) -> Code | None:
    """An edge has one owner; an agent speaks for its own node in its present session; repair waits for the fence."""
    slot = model.slots.get(one.slot)
    if slot is None:
        return Code.NOT_FOUND
    edge = EDGE_BY_KEY.get((slot.phase, one.target, one.cause))
    by_others = (Phase.RESERVED, Phase.BOUND, Phase.TERMINATING, Phase.PENDING)
    if edge is None or one.target in by_others or not slot.node:
        return Code.WRONG_PHASE
    if len(one.detail) > 200 or any(not letter.isprintable() for letter in one.detail):
        return Code.MALFORMED
    if slot.epoch != one.epoch:
        return Code.STALE
    if edge.owner not in (sender.actor, sender.kind):
        return Code.NOT_OWNER
    if edge.owner == "controller/repair" and in_force(model, OverrideAction.PAUSE_REPAIR, sender.at):
        return Code.PAUSED
    node = model.nodes[slot.node]
    if edge.owner == "agent":
        return _refuse_agent(model, slot, node, one, sender)
    # What an agent was given, or has spoken of, in its present session it must answer for itself.
    in_session = bool(node.session) and slot.reported > model.sessions[node.session].opened
    if edge.cause == "session-ended" and slot.cause == "fenced":
        return Code.WRONG_PHASE
    if edge.cause == "session-ended" and in_session:
        return Code.TOO_EARLY
    if edge.cause == "fenced" and slot.cause != "fenced":
        deadline = fence_of(model, node)
        lives = [life for life in model.sessions.values() if life.principal == f"agent/{node.said.name}"]
        kept = any(life.since < deadline or slot.reported > life.opened for life in lives)
        return None if sender.at >= deadline and not kept else Code.FENCE
    return None


def _refuse_agent(model: Model, slot: Slot, node: Node, one: c.MoveSlot, sender: Sender) -> Code | None:
    if sender.actor != f"agent/{node.said.name}" or sender.envelope.session != node.session:
        return Code.NOT_OWNER
    if one.cause in ("started", "restarted", "found-again") and slot.waits:
        return Code.TOO_EARLY
    assignment = model.assignments[slot.assignment]
    late = sender.at >= fence_of(model, node)
    if one.cause == "found-again" and assignment.exclusive and (late or not keeps_times(model, node)):
        return Code.FENCE
    is_named = node.said.machine.id and node.said.machine.boot
    since = node.machine_since if is_named else max(node.machine_since, model.sessions[node.session].opened)
    is_theirs = slot.reported > since
    if one.cause not in ("found-again", "collected") and assignment.exclusive and not late and not is_theirs:
        return Code.FENCE
    if one.cause == "restarted" and not has_right(model, assignment, sender.at):
        return Code.NOT_ASSIGNED
    template = model.templates[slot.template]
    if one.cause == "restarted" and (template.restart == "never" or slot.restarts >= template.restarts_max):
        return Code.CONTRADICTORY
    return Code.CONTRADICTORY if one.cause == "completed" and not assignment.batch else None


# Stop


def stop(model: Model, command: c.Stop, sender: Sender) -> Code | Parts:
    cause = STOP_CAUSES.get(command.cause)
    refused = wrong_count(len(command.slots))
    if refused is not None or cause is None:
        return refused or Code.MALFORMED
    if cause.owner not in (sender.actor, sender.kind):
        return Code.NOT_OWNER
    if cause.owner == "controller/repair" and in_force(model, OverrideAction.PAUSE_REPAIR, sender.at):
        return Code.PAUSED
    if cause.name in ("preempted", "reclaimed"):
        return Code.CONTRADICTORY
    if command.template and (not cause.again or command.template not in model.templates):
        return Code.NOT_FOUND
    lost: Parts = {}
    before = model.clone()
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        assignment = model.assignments[slot.assignment] if slot is not None else None
        if slot is None or assignment is None:
            lost[0, index] = Code.NOT_FOUND
        elif slot.phase not in STOPPABLE:
            lost[0, index] = Code.WRONG_PHASE
        elif (
            cause.name == "gang-broken"
            and assignment.gang is not None
            and not lacks_members(before, assignment, slot.ordinal)
        ):
            lost[0, index] = Code.GANG
        elif (
            cause.kind is StopKind.VOLUNTARY
            and slot.phase is Phase.SERVING
            and model.disruption_left(slot.assignment) <= 0
        ):
            lost[0, index] = Code.DISRUPTION
        elif command.template and not any(
            share.template == command.template and share.count for share in model.assignments[slot.assignment].shares
        ):
            lost[0, index] = Code.NOT_ASSIGNED
        else:
            wanted = cause.again and slot.following
            terminate(model, slot, cause.name, (command.template or slot.following) if wanted else "")
    return lost
