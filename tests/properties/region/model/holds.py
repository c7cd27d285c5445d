"""The model of room that is held: who may hold it, where, until when, and when it is held in vain."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.region import commands as c
from tests.properties.region.model.objects import badly_put
from tests.properties.region.model.records import Hold, Node, amounts, plus
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender, in_force, is_paused
from tests.properties.region.model.shipments import tolerated
from tests.properties.region.model.tenants import has_one_user, is_bare, keeper, refuse_tenant


def hold(model: Model, command: c.Hold, sender: Sender) -> Code | None:
    if not sender.at < command.ends <= sender.at + model.settings.grant_life:
        return Code.EXPIRED
    node = model.nodes.get(command.node)
    if node is None:
        return Code.NOT_FOUND
    if sender.outside("node", node.said.name):
        return Code.WRONG_SCOPE
    placeholder = command.purpose is ReservationPurpose.PLACEHOLDER
    shape = _placeholder(model, command, sender) if placeholder else _plain(command, sender)
    if isinstance(shape, Code):
        return shape
    template, tenant = shape
    refused = _refuse_overridden(model, node, tenant, sender.at)
    refused = refused or (_refuse_law(model, command.assignment) if placeholder else None)
    refused = (
        refused or _refuse_node(model, node, template, tenant) or _refuse_room(model, node, template, command.devices)
    )
    if refused is not None:
        return refused
    need = amounts(template.need)
    if not model.pays(command.account, need, sender.at):
        grant = model.grants.get(command.account)
        return Code.GRANT_ENDED if grant and grant.ends <= sender.at else Code.OVER_GRANT
    free, owed = model.free(), model.owed_to_others(tenant)
    model.holds[model.uid] = Hold(
        model.uid, command.purpose, sender.actor, tenant, command.assignment, node.uid, need, command.devices,
        template.gpu_milli, command.account, command.ends, template, command.template,
    )  # fmt: skip
    if model.crowds_out(free, owed):
        del model.holds[model.uid]
        return Code.PROTECTED
    model.touch_room(node.uid)
    return None


def _plain(command: c.Hold, sender: Sender) -> tuple[Template, str] | Code:
    whole = 0 < command.device_milli <= 1000 and command.need.gpu == len(command.devices) * command.device_milli
    if badly_put(command.need) or not whole or command.assignment or command.template or not command.tenant:
        return Code.MALFORMED
    if sender.outside("tenant", command.tenant) or command.account != f"quota/{command.tenant}":
        return Code.WRONG_SCOPE
    return Template(need=command.need, gpus=len(command.devices), gpu_milli=command.device_milli), command.tenant


def _placeholder(model: Model, command: c.Hold, sender: Sender) -> tuple[Template, str] | Code:
    assignment, template = model.assignments.get(command.assignment), model.templates.get(command.template)
    if assignment is None or template is None:
        return Code.NOT_FOUND
    if assignment.stage is AssignmentStage.ENDED or not any(
        share.template == command.template for share in assignment.shares
    ):
        return Code.NOT_ASSIGNED
    if sender.outside("tenant", assignment.tenant):
        return Code.WRONG_SCOPE
    if command.account not in assignment.accounts or len(command.devices) != template.gpus:
        return Code.MALFORMED
    return template, assignment.tenant


def _refuse_overridden(model: Model, node: Node, tenant: str, at: int) -> Code | None:
    if is_paused(model, tenant, at):
        return Code.PAUSED
    return Code.NODE_UNAVAILABLE if node.said.zone in in_force(model, OverrideAction.AVOID_ZONE, at) else None


def _refuse_law(model: Model, assignment: int) -> Code | None:
    allowed = model.assignments[assignment].jurisdictions
    return Code.RESIDENCY if allowed and model.jurisdiction not in allowed else None


def _refuse_node(model: Model, node: Node, template: Template, tenant: str) -> Code | None:
    if not node.usable:
        return Code.NODE_UNAVAILABLE
    if not all(tolerated(template, taint) for taint in node.meant.taints):
        return Code.TAINT
    refused = refuse_tenant(model, node, template, tenant)
    if refused is not None:
        return refused
    return Code.LABELS if any(node.label(key) != value for key, value in template.require) else None


def _refuse_room(model: Model, node: Node, template: Template, devices: tuple[int, ...]) -> Code | None:
    """Only firm work and other holds are counted: reclaimable work may stand where room is held."""
    room, capacity = model.room(node.uid), model.capacity(node)
    kept = plus(room.firm, room.held)
    if sum(one.node == node.uid for one in model.holds.values()) >= 1_000:
        return Code.CAPACITY
    if any(kept.get(name, 0) + amount > capacity.get(name, 0) for name, amount in amounts(template.need).items()):
        return Code.CAPACITY
    if len(set(devices)) < len(devices):
        return Code.DEVICE
    for index in devices:
        if kept.get(f"device/{index}", 0) + template.gpu_milli > capacity.get(f"device/{index}", 0):
            return Code.DEVICE
        if template.gpu_models and node.said.devices[index].model not in template.gpu_models:
            return Code.DEVICE
    first, last = node.said.ports
    free = [port for port in range(first, last + 1) if port and port not in room.ports]
    return Code.PORT if len(free) < template.ports else None


def _mine(model: Model, uid: int, sender: Sender) -> Code | None:
    known = model.holds.get(uid)
    if known is None:
        return Code.NOT_FOUND
    if sender.kind == "person":
        elsewhere = sender.outside("node", model.nodes[known.node].said.name)
        return Code.WRONG_SCOPE if elsewhere or sender.outside("tenant", known.tenant) else None
    if sender.actor == "controller/repair" and is_in_vain(model, known, sender.at):
        return Code.PAUSED if in_force(model, OverrideAction.PAUSE_REPAIR, sender.at) else None
    return None if known.owner == sender.actor else Code.NOT_OWNER


def is_in_vain(model: Model, known: Hold, at: int) -> bool:
    """Whether nothing can come of what is held."""
    node, assignment = model.nodes[known.node], model.assignments.get(known.assignment)
    room, capacity = model.room(node.uid), model.capacity(node)
    kept = plus(room.firm, room.held)
    grant = model.grants.get(known.account)
    ended = assignment is None or assignment.stage is AssignmentStage.ENDED
    wanted = assignment is not None and not ended and known.digest in [s.template for s in assignment.shares]
    evicting = [taint for taint in node.meant.taints if taint.effect is TaintEffect.EVICT]
    return (
        node.health is NodeHealth.LOST
        or (known.account.startswith("emergency/") and (grant is None or grant.ends <= at))
        or (known.assignment != 0 and not wanted)
        or not all(tolerated(known.template, taint) for taint in evicting)
        or (bool(node.meant.tenancy) and known.tenant not in node.meant.tenancy)
        or node.said.tenant not in ("", known.tenant)
        or is_bare(node, known.template)
        or (has_one_user(node) and keeper(model, node) != known.tenant)
        or any(amount > capacity.get(name, 0) for name, amount in kept.items())
    )


def extend_hold(model: Model, command: c.ExtendHold, sender: Sender) -> Code | None:
    refused = _mine(model, command.hold, sender)
    if refused is not None:
        return refused
    known = model.holds[command.hold]
    if known.ends <= sender.at or not known.ends < command.ends <= sender.at + model.settings.grant_life:
        return Code.EXPIRED
    grant = model.grants.get(known.account)
    if grant is not None and grant.ends <= sender.at:
        return Code.GRANT_ENDED
    known.ends = command.ends
    return None


def drop_hold(model: Model, command: c.DropHold, sender: Sender) -> Code | None:
    refused = _mine(model, command.hold, sender)
    if refused is None:
        model.drop_hold(command.hold)
    return refused
