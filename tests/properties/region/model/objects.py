"""The model of nodes and wanted ordinals."""

from __future__ import annotations

from itertools import pairwise

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Machine, NodeHealth
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from tests.properties.region.model.records import Node, Slot, summed
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender
from tests.properties.region.model.shipments import open_breaches, overshoots_of_node

NAMED_MAX = 1_000
LABELS_MAX = 64
DEVICES_MAX = 64
NODE_NAME_MAX = 250
ADDRESS_MAX = 253
PRESENT_MAX = 128
REASONS_MAX = 256
ORDINAL_MAX = 2**31
AMOUNT_MAX = 2**40


def badly_put(resources: Resources) -> bool:
    """No amount is negative or too large; extended resources are named once, in order, with more than none of each."""
    named = [name for name, _ in resources.extended]
    every = (resources.cpu, resources.memory, resources.disk, resources.gpu, *(n for _, n in resources.extended))
    some = all(amount for _, amount in resources.extended) and "" not in named
    return not all(0 <= n <= AMOUNT_MAX for n in every) or named != sorted(set(named)) or not some


# Nodes


def register_node(model: Model, command: c.RegisterNode, sender: Sender) -> Code | None:
    if sender.actor != f"agent/{command.name}":
        return Code.NOT_OWNER
    if _badly_registered(command):
        return Code.MALFORMED
    known = next((node for node in model.nodes.values() if node.said.name == command.name), None)
    session = sender.envelope.session
    if known is None:
        node = Node(model.uid, command, model.here, c.AdministerNode(model.uid), session=session)
        node.machine_since = model.here
        model.nodes[node.uid] = node
        return None
    if (known.said, known.session, known.health) == (command, session, NodeHealth.READY):
        return Code.ALREADY
    moved = (known.said.zone, known.said.pool) != (command.zone, command.pool)
    if moved and model.on(known.uid):
        return Code.IN_USE
    before = overshoots_of_node(model, known)
    if known.said.machine != command.machine:
        known.machine_since = model.here
    known.said, known.session, known.health, known.changed = command, session, NodeHealth.READY, model.here
    open_breaches(model, before, overshoots_of_node(model, known), sender.at)
    return None


def _badly_registered(command: c.RegisterNode) -> bool:
    first, last = command.ports
    return (
        not 0 < len(command.name) <= NODE_NAME_MAX
        or not command.zone
        or not command.pool
        or len(command.devices) > DEVICES_MAX
        or not all(0 < device.milli <= 1000 for device in command.devices)
        or command.capacity.gpu != sum(device.milli for device in command.devices)
        or not (1 <= first <= last <= 65535 or first == last == 0)
        or len(command.labels) > LABELS_MAX
        or len(command.address) > ADDRESS_MAX
        or not all(letter.isascii() and (letter.isalnum() or letter in ".:%_-") for letter in command.address)
        or command.overrun < 0
        or not all(len(name) <= 64 and name.isprintable() for name in _names_of(command.machine))
        or sorted({one.value for one in command.capabilities}) != [one.value for one in command.capabilities]
        or len(command.tenant) > 128
        or not all(letter in "-.0123456789abcdefghijklmnopqrstuvwxyz" for letter in command.tenant)
        or badly_put(command.capacity)
    )


def _names_of(machine: Machine) -> tuple[str, str, str]:
    return machine.id, machine.host, machine.boot


def report_node(model: Model, command: c.ReportNode, sender: Sender) -> Code | None:
    if sender.actor != f"agent/{command.name}":
        return Code.NOT_OWNER
    loads = (command.cpu, command.memory)
    short = len(command.present) <= PRESENT_MAX and all(1 <= len(name) <= 200 for name in command.present)
    in_order = all(one < other for one, other in pairwise(command.present))
    if not all(0 <= load <= 100 and load % 10 == 0 for load in loads) or not short or not in_order:
        return Code.MALFORMED
    node = next((node for node in model.nodes.values() if node.said.name == command.name), None)
    if node is None:
        return Code.NOT_FOUND
    if node.session != sender.envelope.session:
        return Code.NOT_OWNER
    known, told = node.fares or (c.ReportNode(command.name, 0, 0), 0)
    if command == known:
        return Code.ALREADY
    if command.present == known.present and sender.at - told < 60_000:
        return Code.TOO_EARLY
    node.fares = command, sender.at
    return None


def administer_node(model: Model, command: c.AdministerNode, sender: Sender) -> Code | None:
    node = model.nodes.get(command.node)
    if node is None:
        return Code.NOT_FOUND
    if sender.outside("node", node.said.name) or sender.scope("tenant"):
        return Code.WRONG_SCOPE
    if (command.cordoned or command.draining) and not command.note.strip():
        return Code.MALFORMED
    if max(len(command.labels), len(command.taints), len(command.tenancy)) > LABELS_MAX:
        return Code.TOO_LARGE
    if node.meant == command:
        return Code.ALREADY
    before = overshoots_of_node(model, node)
    node.meant, node.changed = command, model.here
    open_breaches(model, before, overshoots_of_node(model, node), sender.at)
    return None


def judge_node(model: Model, command: c.JudgeNode, sender: Sender) -> Code | None:
    node = model.nodes.get(command.node)
    if node is None:
        return Code.NOT_FOUND
    if node.health is command.health:
        return Code.ALREADY
    if command.health is (NodeHealth.LOST if node.session else NodeHealth.READY):
        return Code.TOO_EARLY
    node.health, node.changed = command.health, model.here
    return None


def remove_node(model: Model, command: c.RemoveNode, sender: Sender) -> Code | None:
    node = model.nodes.get(command.node)
    if node is None:
        return Code.NOT_FOUND
    if sender.outside("node", node.said.name) or sender.scope("tenant"):
        return Code.WRONG_SCOPE
    if model.on(node.uid) or node.session:
        return Code.IN_USE
    for uid in [hold.uid for hold in model.holds.values() if hold.node == node.uid]:
        del model.holds[uid]
    del model.nodes[node.uid]
    return None


# Wanted ordinals


def _refuse_named(model: Model, assignment: int, ordinals: tuple[int, ...]) -> Code | None:
    if not 0 < len(ordinals) <= NAMED_MAX:
        return Code.TOO_LARGE
    if assignment not in model.assignments:
        return Code.NOT_FOUND
    if len(set(ordinals)) < len(ordinals) or not all(0 <= ordinal < ORDINAL_MAX for ordinal in ordinals):
        return Code.MALFORMED
    return None


def asks_for(assignment: Assignment, template: str) -> bool:
    wanted = any(share.template == template and share.count > 0 for share in assignment.shares)
    return assignment.stage is AssignmentStage.ACTIVE and wanted


def open_slots(model: Model, command: c.OpenSlots, sender: Sender) -> Code | None:
    refused = _refuse_named(model, command.assignment, command.ordinals)
    if refused is not None:
        return refused
    assignment = model.assignments[command.assignment]
    if not asks_for(assignment, command.template):
        return Code.NOT_ASSIGNED
    if assignment.exclusive and not set(command.ordinals) <= set(numbers(assignment.ordinals)):
        return Code.NOT_ASSIGNED
    if any(over.assignment == assignment.uid and over.ordinal in command.ordinals for over in model.over):
        return Code.ALREADY
    keys = [(assignment.workload, ordinal) for ordinal in command.ordinals]
    known = [model.slots[key] for key in keys if key in model.slots]
    if any(slot.assignment != assignment.uid or slot.phase is Phase.PENDING for slot in known):
        return Code.EXISTS
    if len(known) == len(keys) and all(slot.following == command.template for slot in known):
        return Code.ALREADY
    for key in keys:
        slot = model.slots.get(key)
        if slot is None:
            model.slots[key] = Slot(
                *key, assignment.uid, command.template, command.template, model.here, cause="opened"
            )
        elif slot.following != command.template:
            slot.following, slot.changed = command.template, model.here
    return None


def withdraw_slots(model: Model, command: c.WithdrawSlots, sender: Sender) -> Code | None:
    refused = _refuse_named(model, command.assignment, command.ordinals)
    if refused is not None:
        return refused
    workload = model.assignments[command.assignment].workload
    named = [model.slots.get((workload, ordinal)) for ordinal in command.ordinals]
    slots = [slot for slot in named if slot is not None and slot.assignment == command.assignment]
    if len(slots) < len(named):
        return Code.NOT_FOUND
    waiting = [slot for slot in slots if slot.phase in (Phase.PENDING, Phase.RESERVED)]
    unwanted = [slot for slot in slots if slot not in waiting and slot.following]
    if not waiting and not unwanted:
        return Code.ALREADY
    for slot in waiting:
        model.leave(slot, "withdrawn")
    for slot in unwanted:
        slot.following, slot.changed = "", model.here
    return None


def forget_assignment(model: Model, command: c.ForgetAssignment, sender: Sender) -> Code | None:
    assignment = model.assignments.get(command.assignment)
    if assignment is None:
        return Code.NOT_FOUND
    if assignment.stage is not AssignmentStage.ENDED:
        return Code.WRONG_PHASE
    if model.of(assignment.uid) or any(hold.assignment == assignment.uid for hold in model.holds.values()):
        return Code.IN_USE
    del model.assignments[assignment.uid]
    return None


def adopt_slots(model: Model, command: c.AdoptSlots, sender: Sender) -> Code | None:
    refused = _refuse_named(model, command.assignment, command.ordinals)
    if refused is not None:
        return refused
    assignment = model.assignments[command.assignment]
    slots = []
    for ordinal in command.ordinals:
        slot = model.slots.get((assignment.workload, ordinal))
        if slot is None or slot.assignment != assignment.uid or not slot.account:
            return Code.NOT_FOUND
        if slot.account in assignment.accounts:
            return Code.ALREADY
        slots.append(slot)
    needed = summed(model.need(slot.template) for slot in slots)
    payers = [account for account in assignment.accounts if model.pays(account, needed, sender.at)]
    if not payers:
        return Code.OVER_GRANT
    for slot in slots:
        slot.account, slot.changed = payers[0], model.here
    return None


def report_pending(model: Model, command: c.ReportPending, sender: Sender) -> Code | None:
    request = (command.assignment, command.template)
    if request not in model.open_requests():
        return Code.NOT_FOUND
    if _tree_size(command.reasons) > REASONS_MAX:
        return Code.TOO_LARGE
    if command.examined >= model.uid:
        return Code.MALFORMED
    if command.examined <= model.examined.get(request, 0):
        return Code.ALREADY
    model.examined[request] = command.examined
    return None


def _tree_size(reasons: tuple[PendingReason, ...]) -> int:
    return sum(1 + _tree_size(reason.below) for reason in reasons)
