"""What agents, operators and node health say of nodes. A shrinking node is a fact: what it breaks is opened."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.placement import EMPTY_ROOM, standing
from holdfast.core.model.resources import ill_formed
from holdfast.core.model.topology import Node, NodeHealth
from holdfast.core.region.breaches import node_overshoots, opened
from holdfast.core.region.commands import AdministerNode, JudgeNode, RegisterNode, RemoveNode
from holdfast.core.region.events import NodeRemoved, NodeStored
from holdfast.core.region.state import RegionState

LABELS_MAX = 64
DEVICES_MAX = 64
NAME_MAX = 253
PORT_MAX = 65_535
NO_PORTS = (0, 0)


def register_node(state: RegionState, command: RegisterNode, case: Case) -> Accepted | Refused:
    """An agent registers its own node, in its session. Zone and pool stay while work stands there."""
    if case.actor != f"agent/{command.name}":
        return Refused(Code.NOT_OWNER, f"{case.actor} registers its own node, not {command.name}", {})
    wrong = _ill_formed(command)
    if wrong:
        return Refused(Code.MALFORMED, wrong, {"node": command.name})
    uid = state.node_names.get(command.name)
    known = state.nodes.get(uid) if uid is not None else None
    node = Node(
        command.name, known.uid if known else case.revision, case.revision, command.pool, command.zone,
        command.capacity, command.devices, command.ports, command.labels, session=case.envelope.session,
    )  # fmt: skip
    if known is None:
        return Accepted((NodeStored(node),))
    node = replace(
        node, labels=known.labels, taints=known.taints, tenancy=known.tenancy, cordoned=known.cordoned,
        draining=known.draining, note=known.note, session_ended=known.session_ended,
    )  # fmt: skip
    if replace(node, revision=known.revision) == known:
        return Refused(Code.ALREADY, f"{node.name} is registered so", {"uid": node.uid})
    room = state.rooms.get(node.uid) or EMPTY_ROOM
    if (node.zone, node.pool) != (known.zone, known.pool) and room.slots:
        return Refused(
            Code.IN_USE, "zone and pool stay as they are while work stands there", {"slots": len(standing(room))}
        )
    return Accepted((NodeStored(node), *opened(state, node_overshoots(state, node), case.at)))


def _ill_formed(command: RegisterNode) -> str:
    if not 0 < len(command.name) <= NAME_MAX or not command.zone or not command.pool:
        return f"a node has a name of at most {NAME_MAX} characters, a zone and a pool"
    if len(command.devices) > DEVICES_MAX or any(not 0 < device.milli <= 1000 for device in command.devices):
        return f"a node has at most {DEVICES_MAX} devices of 1 to 1000 milli"
    if command.capacity.gpu != sum(device.milli for device in command.devices):
        return "the capacity's gpu is the sum of its devices"
    first, last = command.ports
    if command.ports != NO_PORTS and not 1 <= first <= last <= PORT_MAX:
        return f"ports are a range within 1 to {PORT_MAX}, or 0 to 0 for none"
    if len(command.labels) > LABELS_MAX:
        return f"labels are at most {LABELS_MAX}"
    return ill_formed(command.capacity)


def administer_node(state: RegionState, command: AdministerNode, case: Case) -> Accepted | Refused:
    """An operator's word: all of it, each time. A cordon and a drain say why."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if case.outside_node(known.name):
        return Refused(Code.WRONG_SCOPE, f"{case.actor} may not operate {known.name}", {"node": known.name})
    if (command.cordoned or command.draining) and not command.note.strip():
        return Refused(Code.MALFORMED, "a cordon or a drain says why: give a note", {})
    if len(command.labels) > LABELS_MAX or len(command.taints) > LABELS_MAX or len(command.tenancy) > LABELS_MAX:
        return Refused(Code.TOO_LARGE, f"at most {LABELS_MAX} labels, taints and tenants", {})
    node = replace(
        known, revision=case.revision, cordoned=command.cordoned, draining=command.draining, taints=command.taints,
        labels=command.labels, tenancy=command.tenancy, note=command.note,
    )  # fmt: skip
    if replace(node, revision=known.revision) == known:
        return Refused(Code.ALREADY, f"{node.name} is administered so", {})
    return Accepted((NodeStored(node), *opened(state, node_overshoots(state, node), case.at)))


def judge_node(state: RegionState, command: JudgeNode, case: Case) -> Accepted | Refused:
    """A node is given up only once its session has ended, and is ready only in one."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if known.health is command.health:
        return Refused(Code.ALREADY, f"{known.name} is {known.health}", {})
    alive = known.session != 0
    if (command.health is NodeHealth.LOST and alive) or (command.health is NodeHealth.READY and not alive):
        facts = {"session": known.session, "health": known.health.value}
        return Refused(Code.TOO_EARLY, f"{known.name} cannot be {command.health} in its session {known.session}", facts)
    return Accepted((NodeStored(replace(known, revision=case.revision, health=command.health)),))


def remove_node(state: RegionState, command: RemoveNode, case: Case) -> Accepted | Refused:
    """Nothing stands on it, nothing is held on it, and its agent is gone."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if case.outside_node(known.name):
        return Refused(Code.WRONG_SCOPE, f"{case.actor} may not operate {known.name}", {"node": known.name})
    room = state.rooms.get(known.uid) or EMPTY_ROOM
    if room.slots or room.holds or known.session:
        facts = {"slots": len(standing(room)), "holds": len(room.holds), "session": known.session}
        return Refused(Code.IN_USE, f"{known.name} is not empty, or its agent lives", facts)
    return Accepted((NodeRemoved(known.uid),))
