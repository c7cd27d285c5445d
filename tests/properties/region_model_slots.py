"""The model of a slot's life: proposals and every hard gate, reservations, moves, stops.

Parts of a proposal and of a stop are judged one by one, each on what those before it took. The moves of one command are
reports of one moment: each is judged on what was before the command, and names its slot once.
"""

from __future__ import annotations

import copy

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.allotment import Assignment, Purpose
from holdfast.core.model.control import Action
from holdfast.core.model.lifecycle import EDGE_BY_KEY, STOP_CAUSES, STOPPABLE, Kind, Phase
from holdfast.core.model.shapes import SlotKey
from holdfast.core.model.workload import Template
from holdfast.core.region import commands as c
from tests.properties.region_model import Amounts, Model, Node, Slot, amounts
from tests.properties.region_model_objects import NAMED_MAX, asks_for
from tests.properties.region_model_senders import Sender
from tests.properties.region_model_shipping import tolerated

#: Which part of a command, as (group, index), and why it was refused.
Parts = dict[tuple[int, int], Code]
ROOM_CODES = (Code.CAPACITY, Code.DEVICE, Code.PORT)


def wrong_count(count: int) -> Code | None:
    return None if 0 < count <= NAMED_MAX else Code.TOO_LARGE


# Propose


def propose(model: Model, command: c.Propose, sender: Sender) -> Code | Parts:
    if not sender.at < command.valid_until <= sender.at + model.settings.proposal_life:
        return Code.EXPIRED
    refused = wrong_count(sum(len(group.placements) for group in command.groups)) or wrong_count(len(command.groups))
    if refused is not None:
        return refused
    lost: Parts = {}
    before = model.clone()
    for number, group in enumerate(command.groups):
        closed = _refuse_group(model, group, sender)
        for index, placement in enumerate(group.placements):
            code = closed or _place(model, group, placement, sender, before, bind=command.bind)
            if code is not None:
                lost[number, index] = code if closed else _or_stale(before, group, placement, code, sender)
    return lost


def refuse_assigned(model: Model, assignment: Assignment, template: str, at: int) -> Code | None:
    """Assigned, active, its right not lapsed, its residency allowed."""
    if not asks_for(assignment, template) or (assignment.right_until and assignment.right_until <= at):
        return Code.NOT_ASSIGNED
    if assignment.jurisdictions and model.jurisdiction not in assignment.jurisdictions:
        return Code.RESIDENCY
    return None


def valid_policy(model: Model, tenant: str) -> int:
    return model.validities.get(tenant, model.validities.get("", 0))


def in_force(model: Model, action: Action, at: int) -> list[str]:
    """What overrides of this action are aimed at now."""
    every = [*model.overrides.values(), *model.shipped_overrides.values()]
    return [override.target for override in every if override.action is action and override.ends > at]


def _refuse_group(model: Model, group: c.Group, sender: Sender) -> Code | None:
    assignment = model.assignments.get(group.assignment)
    if assignment is None or group.template not in model.templates or not assignment.accounts:
        return Code.NOT_FOUND
    refused = refuse_assigned(model, assignment, group.template, sender.at)
    if refused is not None:
        return refused
    paused = in_force(model, Action.PAUSE_SCHEDULING, sender.at)
    if "" in paused or assignment.tenant in paused:
        return Code.PAUSED
    if sender.envelope.policy != valid_policy(model, assignment.tenant):
        return Code.POLICY
    return None if assignment.priority_class in model.classes else Code.NOT_FOUND


def _or_stale(before: Model, group: c.Group, placement: c.Placement, code: Code, sender: Sender) -> Code:
    """If what it ran into changed after the view of the sender, it should look again. Views end with a batch."""
    view = seq_of(sender.envelope.view)
    slot = before.slots.get((before.assignments[group.assignment].workload, placement.ordinal))
    node = before.nodes.get(placement.node)
    newer = slot is not None and slot.changed > view
    newer |= node is not None and (node.changed > view or (code in ROOM_CODES and node.room_changed > view))
    return Code.STALE if view and newer else code


def _place(
    model: Model, group: c.Group, placement: c.Placement, sender: Sender, before: Model, *, bind: bool
) -> Code | None:
    assignment, template = model.assignments[group.assignment], model.templates[group.template]
    slot = model.slots.get((assignment.workload, placement.ordinal))
    if slot is None:
        return Code.NOT_FOUND
    if slot.phase is not Phase.PENDING or slot.template != group.template:
        return Code.WRONG_PHASE
    if slot.assignment != assignment.uid:
        return Code.NOT_ASSIGNED
    if assignment.exclusive and slot.ordinal not in assignment.ordinals:
        return Code.NOT_ASSIGNED
    node = model.nodes.get(placement.node)
    if node is None:
        return Code.NOT_FOUND
    refused = _refuse_node(model, node, template, assignment, sender.at)
    refused = refused or _refuse_crowd(model, node, template, assignment)
    refused = refused or _refuse_victims(model, placement, assignment, before)
    refused = refused or _refuse_hold(model, placement, assignment, sender.at)
    refused = refused or _refuse_fit(model, node, placement, template, firm=_firm(model, assignment))
    return refused or _take(model, slot, placement, assignment, sender, bind=bind)


def _firm(model: Model, assignment: Assignment) -> bool:
    return not model.classes[assignment.priority_class].spec.reclaimable


def _refuse_node(model: Model, node: Node, template: Template, assignment: Assignment, at: int) -> Code | None:
    if not node.usable:
        return Code.NODE_UNAVAILABLE
    if not all(tolerated(template, taint) for taint in node.meant.taints):
        return Code.TAINT
    if node.meant.tenancy and assignment.tenant not in node.meant.tenancy:
        return Code.TENANCY
    if any(node.label(key) != value for key, value in template.require):
        return Code.LABELS
    return Code.NODE_UNAVAILABLE if node.said.zone in in_force(model, Action.AVOID_ZONE, at) else None


def _refuse_crowd(model: Model, node: Node, template: Template, assignment: Assignment) -> Code | None:
    """Spread counts slots of the workload that are spread so; a group counts whoever of the tenant names it."""
    for rule in template.spread:
        counts = {one.domain(rule.key): 0 for one in model.nodes.values() if one.usable}
        for slot in model.standing():
            rules = [other.key for other in model.templates[slot.template].spread]
            where = model.nodes[slot.node].domain(rule.key)
            if slot.workload == assignment.workload and rule.key in rules and where in counts:
                counts[where] += 1
        if counts[node.domain(rule.key)] + 1 - min(counts.values()) > rule.max_skew:
            return Code.SPREAD
    for apart in template.apart:
        there = 0
        for slot in model.standing():
            groups = [other.group for other in model.templates[slot.template].apart]
            same = model.assignments[slot.assignment].tenant == assignment.tenant and apart.group in groups
            there += same and model.nodes[slot.node].domain(apart.key) == node.domain(apart.key)
        if there >= apart.most:
            return Code.APART
    return None


def _refuse_victims(model: Model, placement: c.Placement, assignment: Assignment, before: Model) -> Code | None:
    """Victims stand there already, wait for nobody, have no other heir, and may be stopped for this one."""
    if len(set(placement.after)) < len(placement.after):
        return Code.MALFORMED
    costs: dict[int, int] = {}
    for key in placement.after:
        victim = model.slots.get(key)
        if victim is None or victim.node != placement.node or not before.slots[key].node:
            return Code.NOT_FOUND
        if model.heir(key) is not None:
            return Code.IN_USE
        if victim.phase is Phase.TERMINATING:
            if victim.waits:
                return Code.IN_USE
            continue
        if victim.phase not in STOPPABLE or victim.waits:
            return Code.WRONG_PHASE
        if assignment.purpose is Purpose.RECOVERY and not victim.firm:
            continue
        mine = model.classes[assignment.priority_class].spec
        theirs = model.classes.get(model.assignments[victim.assignment].priority_class)
        if not mine.may_preempt or (theirs is not None and theirs.spec.priority >= mine.priority):
            return Code.PRIORITY
        if victim.phase is Phase.SERVING:
            cost = costs.get(victim.assignment, 0)
            if model.disruption_left(victim.assignment, cost) <= 0:
                return Code.DISRUPTION
            costs[victim.assignment] = cost + 1
    return None


def _refuse_hold(model: Model, placement: c.Placement, assignment: Assignment, at: int) -> Code | None:
    if not placement.hold:
        return None
    hold = model.holds.get(placement.hold)
    if hold is None or hold.node != placement.node:
        return Code.NOT_FOUND
    kept_for = hold.assignment == assignment.uid if hold.assignment else hold.tenant == assignment.tenant
    if not kept_for:
        return Code.NOT_OWNER
    return Code.EXPIRED if hold.ends <= at else None


def _refuse_fit(model: Model, node: Node, placement: c.Placement, template: Template, *, firm: bool) -> Code | None:
    """What is left once the victims and the hold are gone is enough, of every resource, device and port."""
    room, capacity = model.room(node.uid, placement.after, placement.hold), model.capacity(node)
    if not room.fits(amounts(template.need), capacity, firm=firm):
        return Code.CAPACITY
    devices, ports = placement.devices, placement.ports
    if len(devices) != template.gpus or len(set(devices)) < len(devices):
        return Code.DEVICE
    for index in devices:
        if f"device/{index}" not in capacity or not room.fits(
            {f"device/{index}": template.gpu_milli}, capacity, firm=firm
        ):
            return Code.DEVICE
        if template.gpu_models and node.said.devices[index].model not in template.gpu_models:
            return Code.DEVICE
    first, last = node.said.ports
    wrong = any(not first <= port <= last or port in room.ports for port in ports)
    if wrong or len(ports) != template.ports or len(set(ports)) < len(ports):
        return Code.PORT
    return None


def _take(
    model: Model, slot: Slot, placement: c.Placement, assignment: Assignment, sender: Sender, *, bind: bool
) -> Code | None:
    """Take it all; and give it all back if protected tenants would be crowded out or nobody pays."""
    free, owed = model.free(), model.owed_to_others(assignment.tenant)
    before, hold = copy.copy(slot), model.holds.get(placement.hold)
    stopped = {key: model.slots[key] for key in placement.after}
    slot.node, slot.devices, slot.ports = placement.node, placement.devices, placement.ports
    slot.waits, slot.firm = placement.after, _firm(model, assignment)
    slot.phase, slot.cause = (Phase.BOUND, "bound") if bind else (Phase.RESERVED, "placed")
    if hold is not None:
        del model.holds[hold.uid]
    code: Code | None = None
    if slot.firm and model.crowds_out(free, owed):
        code = Code.PROTECTED
    elif not slot.account:
        slot.account = _payer(model, assignment, model.need(slot.template), sender.at)
        code = None if slot.account else _unpaid(model, assignment, sender.at)
    if code is not None:
        model.slots[slot.key] = before
        if hold is not None:
            model.holds[hold.uid] = hold
        return code
    slot.changed, slot.reported = model.here, model.here if bind else 0
    slot.ends = 0 if bind else sender.at + model.settings.reservation_life
    model.touch_room(slot.node)
    for victim in stopped.values():
        if victim.phase is not Phase.TERMINATING:
            borrowed = assignment.purpose is Purpose.RECOVERY and not victim.firm
            _terminate(model, victim, "reclaimed" if borrowed else "preempted", victim.following)
    return None


def _payer(model: Model, assignment: Assignment, need: Amounts, at: int) -> str:
    return next((account for account in assignment.accounts if model.pays(account, need, at)), "")


def _unpaid(model: Model, assignment: Assignment, at: int) -> Code:
    grants = [model.grants.get(account) for account in assignment.accounts]
    ended = bool(grants) and all(grant is not None and grant.ends <= at for grant in grants)
    return Code.GRANT_ENDED if ended else Code.OVER_GRANT


def _terminate(model: Model, slot: Slot, cause: str, following: str) -> None:
    slot.phase, slot.cause, slot.following, slot.changed = Phase.TERMINATING, cause, following, model.here


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
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is not None and code is None:
            code = _refuse_binding(model, slot, sender)
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            slot.phase, slot.cause, slot.ends = Phase.BOUND, "bound", 0
            slot.changed = slot.reported = model.here
    return lost


def _refuse_binding(model: Model, slot: Slot, sender: Sender) -> Code | None:
    """What it was reserved for still holds."""
    if slot.ends <= sender.at:
        return Code.EXPIRED
    if not model.nodes[slot.node].usable:
        return Code.NODE_UNAVAILABLE
    assignment = model.assignments[slot.assignment]
    refused = refuse_assigned(model, assignment, slot.template, sender.at)
    if refused is not None:
        return refused
    if assignment.exclusive and slot.ordinal not in assignment.ordinals:
        return Code.NOT_ASSIGNED
    return None if sender.envelope.policy == valid_policy(model, assignment.tenant) else Code.POLICY


def unreserve(model: Model, command: c.Unreserve, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.slots))
    if refused is not None:
        return refused
    lost: Parts = {}
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            model.leave(slot, "refused")
    return lost


def expire(model: Model, command: c.Expire, sender: Sender) -> Code | Parts:
    refused = wrong_count(len(command.slots) + len(command.holds))
    if refused is not None:
        return refused
    lost: Parts = {}
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        code = _refuse_reserved(slot)
        if slot is not None and code is None and slot.ends > sender.at:
            code = Code.TOO_EARLY
        if slot is None or code is not None:
            lost[0, index] = code or Code.NOT_FOUND
        else:
            model.leave(slot, "expired")
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
            model.leave(slot, one.cause)
        else:
            slot.phase, slot.cause = one.target, one.cause
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
    if slot.epoch != one.epoch:
        return Code.STALE
    if edge.owner not in (sender.actor, sender.kind):
        return Code.NOT_OWNER
    node = model.nodes[slot.node]
    if edge.owner == "agent":
        return _refuse_agent(model, slot, node, one, sender)
    # What an agent was given, or has spoken of, in its present session it must answer for itself.
    in_session = bool(node.session) and slot.reported > model.sessions[node.session].opened
    if edge.cause == "session-ended" and in_session:
        return Code.TOO_EARLY
    if edge.cause == "fenced" and slot.cause != "fenced":
        fallen = sender.at >= node.ended + model.settings.fence_time
        spoken_for = in_session and slot.phase is not Phase.UNKNOWN
        return None if fallen and not spoken_for else Code.FENCE
    return None


def _refuse_agent(model: Model, slot: Slot, node: Node, one: c.MoveSlot, sender: Sender) -> Code | None:
    if sender.actor != f"agent/{node.said.name}" or sender.envelope.session != node.session:
        return Code.NOT_OWNER
    if one.cause in ("started", "restarted", "found-again") and slot.waits:
        return Code.TOO_EARLY
    assignment = model.assignments[slot.assignment]
    late = sender.at >= node.ended + model.settings.fence_time
    if one.cause == "found-again" and assignment.exclusive and late:
        return Code.FENCE
    if one.cause == "restarted" and slot.restarts >= model.templates[slot.template].restarts_max:
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
    if cause.name in ("preempted", "reclaimed"):
        return Code.CONTRADICTORY
    if command.template and (not cause.again or command.template not in model.templates):
        return Code.NOT_FOUND
    lost: Parts = {}
    for index, key in enumerate(command.slots):
        slot = model.slots.get(key)
        if slot is None:
            lost[0, index] = Code.NOT_FOUND
        elif slot.phase not in STOPPABLE:
            lost[0, index] = Code.WRONG_PHASE
        elif (
            cause.kind is Kind.VOLUNTARY and slot.phase is Phase.SERVING and model.disruption_left(slot.assignment) <= 0
        ):
            lost[0, index] = Code.DISRUPTION
        else:
            wanted = cause.again and slot.following
            _terminate(model, slot, cause.name, (command.template or slot.following) if wanted else "")
    return lost
