"""The model of Propose: every hard gate, in the order in which the ledger tells of shut ones.

Placements are judged one by one, each on what those before it took.
"""

from __future__ import annotations

import copy

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.records.lifecycle import ON_NODE, STOPPABLE, Phase
from holdfast.core.model.records.slots import PreemptionReceipt
from holdfast.core.model.values.ranges import contains
from holdfast.core.region import commands as c
from tests.properties.region.model.objects import NAMED_MAX, asks_for
from tests.properties.region.model.records import Amounts, Node, Slot, amounts
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender, in_force, is_paused
from tests.properties.region.model.shipments import tolerated
from tests.properties.region.model.tenants import refuse_tenant

#: Which part of a command, as (group, index), and why it was refused.
Parts = dict[tuple[int, int], Code]
ROOM_CODES = (Code.CAPACITY, Code.DEVICE, Code.PORT, Code.ONE_TENANT)


def wrong_count(count: int) -> Code | None:
    return None if 0 < count <= NAMED_MAX else Code.TOO_LARGE


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
        for unit in [] if closed else _units(model, group):
            saved, codes = model.clone(), dict[int, Code | None]()
            for index in unit:
                placement = group.placements[index]
                code = _place(model, group, placement, sender, before, bind=command.bind)
                codes[index] = _or_stale(before, group, placement, code, sender) if code else None
            if None in codes.values() and _is_partial(model, group, group.placements[unit[0]].ordinal):
                vars(model).update(vars(saved))
                kept = [index for index, code in codes.items() if code is None]
                codes = {
                    **{index: codes[index] for index in codes if index not in kept},
                    **dict.fromkeys(kept, Code.GANG),
                }
            lost |= {(number, index): code for index, code in codes.items() if code is not None}
        lost |= {(number, index): closed for index in range(len(group.placements)) if closed is not None}
    return lost


def _units(model: Model, group: c.PlacementGroup) -> list[list[int]]:
    """What is decided together: each placement alone, or those of a gang, which come where its first one does."""
    gang = model.assignments[group.assignment].gang
    found: dict[int, list[int]] = {}
    for index, placement in enumerate(group.placements):
        found.setdefault(index if gang is None else placement.ordinal // gang.size, []).append(index)
    return list(found.values())


def members(model: Model, assignment: Assignment, ordinal: int) -> list[Slot]:
    """The slots of an ordinal's gang."""
    size = assignment.gang.size if assignment.gang else 1
    return [slot for slot in model.of(assignment.uid) if slot.ordinal // size == ordinal // size]


def lacks_members(model: Model, assignment: Assignment, ordinal: int) -> bool:
    """Whether fewer are there than the gang of an ordinal needs. Those that are done are there."""
    gang = assignment.gang
    if gang is None:
        return False
    there = [one for one in members(model, assignment, ordinal) if one.phase in ON_NODE]
    staying = sum(one.phase is not Phase.TERMINATING for one in there)
    done = [one.ordinal for one in model.over if one.assignment == assignment.uid and one.done]
    return staying + sum(n // gang.size == ordinal // gang.size for n in done) < (gang.min or gang.size)


def _is_partial(model: Model, group: c.PlacementGroup, ordinal: int) -> bool:
    assignment = model.assignments[group.assignment]
    if assignment.gang is None:
        return False
    failed = [one.ordinal for one in model.over if one.assignment == assignment.uid and not one.done]
    is_over = any(n // assignment.gang.size == ordinal // assignment.gang.size for n in failed)
    return is_over or lacks_members(model, assignment, ordinal)


def refuse_assigned(model: Model, assignment: Assignment, template: str, at: int) -> Code | None:
    """Assigned, active, its right not lapsed, not to fail at a deadline that has passed, its residency allowed."""
    if not asks_for(assignment, template) or not has_right(model, assignment, at):
        return Code.NOT_ASSIGNED
    if assignment.fails_late and assignment.deadline and at >= assignment.deadline:
        return Code.DEADLINE_MISSED
    if assignment.jurisdictions and model.jurisdiction not in assignment.jurisdictions:
        return Code.RESIDENCY
    return None


def has_right(model: Model, assignment: Assignment, at: int) -> bool:
    """A lease is worth something in the term in which it was told, until it ends."""
    if assignment.right_until == 0:
        return True
    return assignment.right_term == model.term and assignment.right_until > at


def valid_policy(model: Model, tenant: str) -> int:
    return model.validities.get(tenant, model.validities.get("", 0))


def _refuse_group(model: Model, group: c.PlacementGroup, sender: Sender) -> Code | None:
    assignment = model.assignments.get(group.assignment)
    if assignment is None or group.template not in model.templates or not assignment.accounts:
        return Code.NOT_FOUND
    refused = refuse_assigned(model, assignment, group.template, sender.at)
    if refused is not None:
        return refused
    if is_paused(model, assignment.tenant, sender.at):
        return Code.PAUSED
    if sender.envelope.policy != valid_policy(model, assignment.tenant):
        return Code.POLICY
    return None if assignment.priority_class in model.classes else Code.NOT_FOUND


def _or_stale(before: Model, group: c.PlacementGroup, placement: c.SlotPlacement, code: Code, sender: Sender) -> Code:
    """If what it ran into changed after the view of the sender, it should look again. Views end with a batch."""
    view = seq_of(sender.envelope.view)
    slot = before.slots.get((before.assignments[group.assignment].workload, placement.ordinal))
    node = before.nodes.get(placement.node)
    newer = slot is not None and slot.changed > view
    victims = [before.slots[key] for key in placement.waits_for if key in before.slots]
    newer |= any(victim.changed > view for victim in victims)
    newer |= node is not None and (node.changed > view or (code in ROOM_CODES and node.room_changed > view))
    return Code.STALE if view and newer else code


def _place(
    model: Model, group: c.PlacementGroup, placement: c.SlotPlacement, sender: Sender, before: Model, *, bind: bool
) -> Code | None:
    assignment, template = model.assignments[group.assignment], model.templates[group.template]
    slot = model.slots.get((assignment.workload, placement.ordinal))
    if slot is None:
        return Code.NOT_FOUND
    if slot.phase is not Phase.PENDING or slot.template != group.template:
        return Code.WRONG_PHASE
    if slot.assignment != assignment.uid:
        return Code.NOT_ASSIGNED
    if assignment.exclusive and not contains(assignment.ordinals, slot.ordinal):
        return Code.NOT_ASSIGNED
    node = model.nodes.get(placement.node)
    if node is None:
        return Code.NOT_FOUND
    refused = refuse_node(model, node, template, assignment, sender.at)
    refused = refused or _refuse_crowd(model, node, template, assignment, sender.at)
    refused = refused or _refuse_victims(model, placement, assignment, before, sender.at)
    refused = refused or _refuse_hold(model, placement, assignment, sender.at)
    refused = refused or _refuse_fit(model, node, placement, template, firm=_firm(model, assignment))
    return refused or _take(model, slot, placement, assignment, sender, bind=bind)


def _firm(model: Model, assignment: Assignment) -> bool:
    return not model.classes[assignment.priority_class].spec.reclaimable


def refuse_node(
    model: Model, node: Node, template: Template, assignment: Assignment, at: int, *, empty: bool = False
) -> Code | None:
    if not node.usable:
        return Code.NODE_UNAVAILABLE
    if not all(tolerated(template, taint) for taint in node.meant.taints):
        return Code.TAINT
    refused = refuse_tenant(model, node, template, assignment.tenant, empty=empty)
    if refused is not None:
        return refused
    if any(node.label(key) != value for key, value in template.require):
        return Code.LABELS
    if node.said.zone in in_force(model, OverrideAction.AVOID_ZONE, at):
        return Code.NODE_UNAVAILABLE
    return Code.NODE_UNAVAILABLE if assignment.exclusive and not keeps_times(model, node) else None


def keeps_times(model: Model, node: Node) -> bool:
    """Whether what is exclusive has ended there when a fence falls, which is counted from the end of a lease."""
    s = model.settings
    lease = -(-s.session_lease * (1_000_000 + s.drift_per_million) // 1_000_000)
    return lease + node.said.overrun <= s.fence_time


def _is_for(model: Model, node: Node, template: Template, assignment: Assignment, at: int) -> bool:
    """Whether a node would take it, if nothing stood there."""
    return refuse_node(model, node, template, assignment, at, empty=True) is None and _is_large(model, node, template)


def _is_large(model: Model, node: Node, template: Template) -> bool:
    """Whether all that a node has is enough for one."""
    has, said = model.capacity(node), node.said
    enough = all(amount <= has.get(name, 0) for name, amount in amounts(template.need).items())
    suits = [one for one in said.devices if not template.gpu_models or one.model in template.gpu_models]
    devices = sum(one.milli >= template.gpu_milli for one in suits) >= template.gpus
    return enough and devices and len(set(range(said.ports[0], said.ports[1] + 1)) - {0}) >= template.ports


def _refuse_crowd(model: Model, node: Node, template: Template, assignment: Assignment, at: int) -> Code | None:
    """Spread counts slots of the workload that are spread so, over domains that could have one; a group counts whoever
    of the tenant names it."""
    for rule in template.spread:
        able = [one for one in model.nodes.values() if _is_for(model, one, template, assignment, at)]
        counts = {one.domain(rule.key): 0 for one in model.nodes.values()}
        for slot in model.standing():
            rules = [other.key for other in model.templates[slot.template].spread]
            if slot.workload == assignment.workload and rule.key in rules:
                counts[model.nodes[slot.node].domain(rule.key)] += 1
        fewest = min((counts[one.domain(rule.key)] for one in able), default=0)
        if counts[node.domain(rule.key)] + 1 - fewest > rule.max_skew:
            return Code.SPREAD
    for apart in template.apart:
        there = 0
        for slot in model.standing():
            same = _is_member(model, slot, apart.group, assignment.tenant)
            there += same and model.nodes[slot.node].domain(apart.key) == node.domain(apart.key)
        if there >= apart.most:
            return Code.APART
    for near in template.near:
        members = [slot for slot in model.standing() if _is_member(model, slot, near.group, assignment.tenant)]
        taken = {model.nodes[slot.node].domain(near.key) for slot in members}
        if near.required and taken and node.domain(near.key) not in taken:
            return Code.NEAR
    return None


def _is_member(model: Model, slot: Slot, group: str, tenant: str) -> bool:
    template = model.templates[slot.template]
    names = [rule.group for rule in template.apart] + [rule.group for rule in template.near]
    return model.assignments[slot.assignment].tenant == tenant and group in names


def _refuse_victims(
    model: Model, placement: c.SlotPlacement, assignment: Assignment, before: Model, at: int
) -> Code | None:
    """Victims stand there already, wait for nobody, have no other heir, and may be stopped for this one."""
    stopped = 0
    if len(set(placement.waits_for)) < len(placement.waits_for):
        return Code.MALFORMED
    costs: dict[int, int] = {}
    for key in placement.waits_for:
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
        if assignment.purpose is AssignmentPurpose.RECOVERY and not victim.firm:
            continue
        mine = model.classes[assignment.priority_class].spec
        theirs = model.classes.get(model.assignments[victim.assignment].priority_class)
        if not mine.may_preempt or (theirs is not None and theirs.spec.priority >= mine.priority):
            return Code.PRIORITY
        young = victim.firm and at < victim.bound_at + model.settings.preempt_after
        if young or model.preemptions(at) + stopped >= model.settings.preempt_max:
            return Code.TOO_EARLY
        stopped += 1
        if victim.phase is Phase.SERVING:
            cost = costs.get(victim.assignment, 0)
            if model.disruption_left(victim.assignment, cost) <= 0:
                return Code.DISRUPTION
            costs[victim.assignment] = cost + 1
    return None


def _refuse_hold(model: Model, placement: c.SlotPlacement, assignment: Assignment, at: int) -> Code | None:
    if not placement.hold:
        return None
    hold = model.holds.get(placement.hold)
    if hold is None or hold.node != placement.node:
        return Code.NOT_FOUND
    kept_for = hold.assignment == assignment.uid if hold.assignment else hold.tenant == assignment.tenant
    if not kept_for:
        return Code.NOT_OWNER
    return Code.EXPIRED if hold.ends <= at else None


def _refuse_fit(model: Model, node: Node, placement: c.SlotPlacement, template: Template, *, firm: bool) -> Code | None:
    """What is left once the victims and the hold are gone is enough, of every resource, device and port."""
    room, capacity = model.room(node.uid, placement.waits_for, placement.hold), model.capacity(node)
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
    wrong = any(port == 0 or not first <= port <= last or port in room.ports for port in ports)
    if wrong or len(ports) != template.ports or len(set(ports)) < len(ports):
        return Code.PORT
    return None


def _take(
    model: Model, slot: Slot, placement: c.SlotPlacement, assignment: Assignment, sender: Sender, *, bind: bool
) -> Code | None:
    """Take it all; and give it all back if protected tenants would be crowded out or nobody pays."""
    free, owed = model.free(), model.owed_to_others(assignment.tenant)
    before, hold = copy.copy(slot), model.holds.get(placement.hold)
    stopped = {key: model.slots[key] for key in placement.waits_for}
    slot.node, slot.devices, slot.ports = placement.node, placement.devices, placement.ports
    slot.waits, slot.firm = placement.waits_for, _firm(model, assignment)
    slot.phase, slot.cause = (Phase.BOUND, "bound") if bind else (Phase.RESERVED, "placed")
    slot.detail = ""
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
    slot.bound_at = sender.at if bind else 0
    model.touch_room(slot.node)
    for victim in stopped.values():
        if victim.phase is not Phase.TERMINATING:
            borrowed = assignment.purpose is AssignmentPurpose.RECOVERY and not victim.firm
            theirs = model.classes.get(model.assignments[victim.assignment].priority_class)
            victim.receipt = PreemptionReceipt(
                slot.key, assignment.tenant, assignment.workload_name, "reclaimed" if borrowed else "priority",
                model.classes[assignment.priority_class].spec.priority,
                0 if theirs is None else theirs.spec.priority, sender.at,
            )  # fmt: skip
            if not borrowed:
                model.count_preemption(sender.at)
            terminate(model, victim, "reclaimed" if borrowed else "preempted", victim.following)
    return None


def _payer(model: Model, assignment: Assignment, need: Amounts, at: int) -> str:
    return next((account for account in assignment.accounts if model.pays(account, need, at)), "")


def _unpaid(model: Model, assignment: Assignment, at: int) -> Code:
    grants = [model.grants.get(account) for account in assignment.accounts]
    ended = bool(grants) and all(grant is not None and grant.ends <= at for grant in grants)
    return Code.GRANT_ENDED if ended else Code.OVER_GRANT


def terminate(model: Model, slot: Slot, cause: str, following: str) -> None:
    slot.phase, slot.cause, slot.detail = Phase.TERMINATING, cause, ""
    slot.following, slot.changed = following, model.here
