"""Reservations standing alone: placeholders for recovery, dated holds, the room of a gang, offers. They always end.

Hold ──▶ held ──▶ used by a placement · dropped by its owner · expired · displaced: given back by repair
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.overrides import in_force
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Stage
from holdfast.core.model.isolation import not_enforced, takes_one_tenant
from holdfast.core.model.placement import EMPTY_ROOM, DeviceRoom, HoldPurpose, Reservation
from holdfast.core.model.resources import NOTHING, add, exceeded, ill_formed
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Effect, Node, NodeHealth, ports_of
from holdfast.core.model.workload import Template, tolerates
from holdfast.core.region.assigned import outlawed
from holdfast.core.region.breaches import keeper_of
from holdfast.core.region.charging import ENDED, affordable, leaves_protected, paid_until
from holdfast.core.region.commands import NAMED_MAX, DropHold, ExtendHold, Hold
from holdfast.core.region.events import HoldEnded, HoldStored
from holdfast.core.region.feasible import Misfit, feasible
from holdfast.core.region.gates import REPAIR, refuse_paused, refuse_repair, refuse_zone
from holdfast.core.region.occupancy import is_kept_from, tenants_on
from holdfast.core.region.state import RegionState

#: So many are kept on one node: all of them end with it, in one record.
HOLDS_MAX = NAMED_MAX
#: Why a hold is given back of a node that has become too small.
NO_ROOM = "no-room"


def hold(state: RegionState, command: Hold, case: Case) -> Accepted | Refused:
    """Keep room on a node, by the gates of a binding. What is held is paid for like what runs."""
    latest = case.at + state.facts.settings.grant_life
    if not case.at < command.ends <= latest:
        return Refused(Code.EXPIRED, "a hold ends after now and within its longest life", {"latest": latest})
    node = state.nodes.get(command.node)
    if node is None:
        return not_found("node", command.node)
    if case.outside_node(node.name):
        return Refused(Code.WRONG_SCOPE, f"{case.actor} may not hold room on {node.name}", {"node": node.name})
    shaped = _shape(state, command, case)
    if isinstance(shaped, Refused):
        return shaped
    template, tenant = shaped
    misfit = _refuse_place(state, command, tenant, case) or _misfit(state, node, template, tenant, command.devices)
    if misfit is not None:
        return Refused(misfit.code, f"{node.name}: {misfit.detail}", {"node": node.name})
    affords = affordable(state, command.account, case.at, template.need)
    if affords < 1:
        code = Code.GRANT_ENDED if affords == ENDED else Code.OVER_GRANT
        return Refused(code, f"{command.account} cannot pay for it", {"account": command.account})
    if leaves_protected(state, f"quota/{tenant}", NOTHING, template.need) < 1:
        return Refused(Code.PROTECTED, "what is left is kept for protected tenants", {})
    stored = Reservation(
        case.revision, command.purpose, case.actor, tenant, command.assignment, command.template, node.uid,
        template.need, command.devices, template.gpu_milli, command.account, command.ends, case.revision,
    )  # fmt: skip
    return Accepted((HoldStored(stored),))


def _shape(state: RegionState, command: Hold, case: Case) -> tuple[Template, str] | Refused:
    """What is held, as the template of what will stand there, and for which tenant."""
    if command.purpose is not HoldPurpose.PLACEHOLDER:
        wrong = ill_formed(command.need) or ("" if 0 < command.device_milli <= 1000 else "deviceMilli is 1 to 1000")
        if not wrong and command.need.gpu != len(command.devices) * command.device_milli:
            wrong = "the gpu that is needed is the sum over its devices"
        if wrong or command.assignment or command.template or not command.tenant:
            return Refused(Code.MALFORMED, wrong or "a hold is for a tenant; only placeholders name a standby", {})
        if case.outside_tenant(command.tenant) or command.account != f"quota/{command.tenant}":
            message = f"{case.actor} may not hold room for {command.tenant} at the cost of {command.account}"
            return Refused(Code.WRONG_SCOPE, message, {"tenant": command.tenant, "account": command.account})
        gpus, milli = len(command.devices), command.device_milli
        return Template(need=command.need, gpus=gpus, gpu_milli=milli), command.tenant
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
    return template, assignment.tenant


def _refuse_place(state: RegionState, command: Hold, tenant: str, case: Case) -> Misfit | None:
    """What overrides and the law say before any node is asked."""
    overrides = in_force(state, case.at)
    misfit = refuse_paused(overrides, tenant) or refuse_zone(overrides, state.nodes[command.node])
    assignment = state.assignments.get(command.assignment)
    return misfit or (outlawed(state, assignment) if assignment is not None else None)


def _misfit(state: RegionState, node: Node, template: Template, tenant: str, devices: tuple[int, ...]) -> Misfit | None:
    """Reclaimable work may stand where room is held: only firm work and other holds are counted. Ports are not held:
    so many have to be free."""
    room = state.rooms.get(node.uid) or EMPTY_ROOM
    if len(room.holds) >= HOLDS_MAX:
        return Misfit(Code.CAPACITY, f"{HOLDS_MAX} holds are as many as a node keeps")
    kept = replace(room, all=room.firm, devices=tuple(DeviceRoom(d.firm, d.firm, d.held) for d in room.devices))
    free = (port for port in ports_of(node) if port not in room.ports)
    ports = tuple(islice(free, template.ports))
    return feasible(node, kept, template, tenant, devices, ports, there=tenants_on(state, node))


def displaced(state: RegionState, held: Reservation, at: Instant, kept_by: str | None = None) -> str:
    """Why room is held in vain, so that repair gives it back; empty: it is not.

    Its node is lost, evicts what would stand there, is kept for or has become others', does not isolate it as it has
    to be, or is smaller than what it holds; or its
    assignment does not ask for it any more, or the emergency that pays for it is over. `kept_by` is the keeper of a
    node that takes one tenant at a time, where it is known.
    """
    node, assignment = state.nodes[held.node], state.assignments.get(held.assignment)
    if node.health is NodeHealth.LOST:
        return "node-lost"
    until = paid_until(state, held.account)
    if until is not None and until <= at:
        return "grant-ended"
    shares = assignment.shares if assignment is not None and assignment.stage is not Stage.ENDED else ()
    if held.assignment and held.template not in {share.template for share in shares}:
        return "not-assigned"
    template = state.templates[held.template] if held.template else Template()
    evicts = any(taint.effect is Effect.EVICT and not tolerates(template, taint) for taint in node.taints)
    if evicts or is_kept_from(node, held.tenant) or not_enforced(template.isolation, node.capabilities):
        return "not-allowed"
    if takes_one_tenant(node) and (keeper_of(state, node) if kept_by is None else kept_by) != held.tenant:
        return "not-allowed"
    room = state.rooms.get(node.uid) or EMPTY_ROOM
    over = bool(exceeded(add(room.firm, room.held), node.capacity)) or any(
        taken.firm + taken.held > (node.devices[index].milli if index < len(node.devices) else 0)
        for index, taken in enumerate(room.devices)
    )
    return NO_ROOM if over else ""


def _mine(state: RegionState, uid: int, case: Case) -> Reservation | Refused:
    known = state.holds.get(uid)
    if known is None:
        return not_found("hold", uid)
    if case.kind == "person":
        node = state.nodes[known.node].name
        outside = case.outside_tenant(known.tenant) or case.outside_node(node)
        return Refused(Code.WRONG_SCOPE, f"hold {uid} is of {known.tenant}, on {node}", {}) if outside else known
    if case.actor == REPAIR and displaced(state, known, case.at):
        misfit = refuse_repair(in_force(state, case.at))
        return Refused(misfit.code, misfit.detail, {"hold": uid}) if misfit is not None else known
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
    return Accepted((HoldStored(replace(known, ends=command.ends, revision=case.revision)),))


def drop_hold(state: RegionState, command: DropHold, case: Case) -> Accepted | Refused:
    """Its owner or an operator gives it back; repair, where it is held in vain."""
    known = _mine(state, command.hold, case)
    if isinstance(known, Refused):
        return known
    return Accepted((ended(known, displaced(state, known, case.at) if case.kind == "controller" else "dropped"),))


def ended(held: Reservation, cause: str) -> HoldEnded:
    """The end of a hold."""
    return HoldEnded(held.uid, held.node, held.assignment, cause)
