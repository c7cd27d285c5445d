"""Reservations standing alone: placeholders for recovery, dated holds, the room of a gang, offers. They always end."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.overrides import in_force
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Stage
from holdfast.core.model.placement import EMPTY_ROOM, HoldPurpose, Reservation, Room
from holdfast.core.model.resources import NOTHING, Resources, add, ill_formed, lacking
from holdfast.core.model.topology import Node, usable
from holdfast.core.region.charging import ENDED, affordable, leaves_protected
from holdfast.core.region.commands import DropHold, ExtendHold, Hold
from holdfast.core.region.events import HoldEnded, HoldStored
from holdfast.core.region.gates import refuse_paused, refuse_zone
from holdfast.core.region.state import RegionState


def hold(state: RegionState, command: Hold, case: Case) -> Accepted | Refused:
    """Keep room on a node. Placeholders take the shape of their template; what is held is paid for like what runs."""
    latest = case.at + state.facts.settings.grant_life
    if not case.at < command.ends <= latest:
        return Refused(Code.EXPIRED, "a hold ends after now and within its longest life", {"latest": latest})
    node = state.nodes.get(command.node)
    if node is None:
        return not_found("node", command.node)
    shaped = _shape(state, command, case)
    if isinstance(shaped, Refused):
        return shaped
    need, milli, tenant = shaped
    overrides = in_force(state, case.at)
    misfit = refuse_paused(overrides, tenant) or refuse_zone(overrides, node)
    if misfit is not None:
        return Refused(misfit.code, misfit.detail, {"tenant": tenant, "node": node.name})
    room = state.rooms.get(node.uid) or EMPTY_ROOM
    refused = _refuse_room(node, room, need, command.devices, milli)
    if refused is not None:
        return refused
    affords = affordable(state, command.account, case.at, need)
    if affords < 1:
        code = Code.GRANT_ENDED if affords == ENDED else Code.OVER_GRANT
        return Refused(code, f"{command.account} cannot pay for it", {"account": command.account})
    if leaves_protected(state, f"quota/{tenant}", NOTHING, need) < 1:
        return Refused(Code.PROTECTED, "what is left is kept for protected tenants", {})
    stored = Reservation(
        case.revision, command.purpose, case.actor, tenant, command.assignment, command.template, node.uid, need,
        command.devices, milli, command.account, command.ends,
    )  # fmt: skip
    return Accepted((HoldStored(stored),))


def _shape(state: RegionState, command: Hold, case: Case) -> tuple[Resources, int, str] | Refused:
    """What is held, how much of each device, and for which tenant."""
    if command.purpose is not HoldPurpose.PLACEHOLDER:
        wrong = ill_formed(command.need) or ("" if 0 < command.device_milli <= 1000 else "deviceMilli is 1 to 1000")
        if not wrong and command.need.gpu != len(command.devices) * command.device_milli:
            wrong = "the gpu that is needed is the sum over its devices"
        if wrong or command.assignment or command.template or not command.tenant:
            return Refused(Code.MALFORMED, wrong or "a hold is for a tenant; only placeholders name a standby", {})
        if case.outside_tenant(command.tenant) or command.account != f"quota/{command.tenant}":
            message = f"{case.actor} may not hold room for {command.tenant} at the cost of {command.account}"
            return Refused(Code.WRONG_SCOPE, message, {"tenant": command.tenant, "account": command.account})
        return command.need, command.device_milli, command.tenant
    assignment = state.assignments.get(command.assignment)
    template = state.templates.get(command.template)
    if assignment is None or template is None:
        return not_found("assignment with template", f"{command.assignment}/{command.template}")
    if assignment.stage is Stage.ENDED or command.template not in {share.template for share in assignment.shares}:
        return Refused(Code.NOT_ASSIGNED, f"assignment {assignment.uid} does not ask for it", {})
    if case.outside_tenant(assignment.tenant):
        return Refused(Code.WRONG_SCOPE, f"{case.actor} may not hold room for {assignment.tenant}", {})
    if command.account not in assignment.accounts or len(command.devices) != template.gpus:
        return Refused(Code.MALFORMED, "a placeholder names its assignment's account and as many devices as needed", {})
    return template.need, template.gpu_milli, assignment.tenant


def _refuse_room(node: Node, room: Room, need: Resources, devices: tuple[int, ...], milli: int) -> Refused | None:
    """Reclaimable work may stand where room is held: only firm work and other holds are counted."""
    if not usable(node):
        return Refused(Code.NODE_UNAVAILABLE, f"{node.name} takes no new work", {"node": node.name})
    short = lacking(need, add(room.firm, room.held), node.capacity)
    if short:
        return Refused(Code.CAPACITY, f"{node.name} has too little {short}", {"resource": short})
    if len({*devices}) != len(devices):
        return Refused(Code.DEVICE, "a device is named twice", {})
    for index in devices:
        if not 0 <= index < len(node.devices):
            return Refused(Code.DEVICE, f"{node.name} has no device {index}", {"device": index})
        taken = room.devices[index].firm + room.devices[index].held if index < len(room.devices) else 0
        if taken + milli > node.devices[index].milli:
            return Refused(Code.DEVICE, f"device {index} of {node.name} is taken", {"device": index})
    return None


def _mine(state: RegionState, uid: int, case: Case) -> Reservation | Refused:
    known = state.holds.get(uid)
    if known is None:
        return not_found("hold", uid)
    if case.kind == "person":
        outside = case.outside_tenant(known.tenant)
        return Refused(Code.WRONG_SCOPE, f"hold {uid} is of {known.tenant}", {}) if outside else known
    if known.owner != case.actor:
        return Refused(Code.NOT_OWNER, f"hold {uid} is of {known.owner}", {"owner": known.owner})
    return known


def extend_hold(state: RegionState, command: ExtendHold, case: Case) -> Accepted | Refused:
    """Its owner, or an operator, keeps it longer, while its account has not ended."""
    known = _mine(state, command.hold, case)
    if isinstance(known, Refused):
        return known
    if known.ends <= case.at or not known.ends < command.ends <= case.at + state.facts.settings.grant_life:
        return Refused(Code.EXPIRED, "it has ended, or the new end is not later, or too late", {"ends": known.ends})
    if affordable(state, known.account, case.at, NOTHING) == ENDED:
        return Refused(Code.GRANT_ENDED, f"{known.account} has ended", {"account": known.account})
    return Accepted((HoldStored(replace(known, ends=command.ends)),))


def drop_hold(state: RegionState, command: DropHold, case: Case) -> Accepted | Refused:
    """Its owner, or an operator, gives it back."""
    known = _mine(state, command.hold, case)
    if isinstance(known, Refused):
        return known
    return Accepted((HoldEnded(known.uid, known.node, known.assignment, "dropped"),))
