"""Commands of agents, operators and node health about nodes. A shrinking node is a fact: it opens breaches."""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import PRESENT_MAX, PRESENT_NAME_MAX
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.nodes import LOAD_STEP, MACHINE_NAME_MAX, NO_MACHINE, NO_REPORT, Node, NodeHealth
from holdfast.core.model.values.limits import MARKS_MAX, NODE_PORTS_MAX
from holdfast.core.model.values.resources import amount_problem
from holdfast.core.region.commands import AdministerNode, JudgeNode, RegisterNode, RemoveNode, ReportNode
from holdfast.core.region.decide.breaches import breach_events
from holdfast.core.region.decide.holds import hold_ended_event
from holdfast.core.region.events import NodeRemoved, NodeReported, NodeStored
from holdfast.core.region.limits import ADDRESS_MAX, LOAD_EVERY_MS, NAME_MAX, PORT_MAX
from holdfast.core.region.queries.breaches import node_overshoots
from holdfast.core.region.state.tables import RegionState

NO_PORTS = (0, 0)

#: A tenant's name, or empty.
_TENANT = re.compile(r"[-a-z0-9.]{0,128}")
#: A host name, or an IPv4 or IPv6 address.
_ADDRESS = re.compile(rf"[A-Za-z0-9._:%-]{{0,{ADDRESS_MAX}}}")


def register_node(state: RegionState, command: RegisterNode, ctx: CommandContext) -> Accepted | Refused:
    """Register an agent's own node in its session. Zone and pool cannot change while the node has slots."""
    if ctx.actor != f"agent/{command.name}":
        return Refused(Code.NOT_OWNER, f"{ctx.actor} may register only its own node, not {command.name}", {})
    wrong = _node_problem(command)
    if wrong:
        return Refused(Code.MALFORMED, wrong, {"node": command.name})
    uid = state.node_names.get(command.name)
    known = state.nodes.get(uid) if uid is not None else None
    node = Node(
        command.name, known.uid if known else ctx.revision, ctx.revision, command.pool, command.zone,
        command.capacity, command.devices, command.ports, command.labels, session=ctx.envelope.session,
        address=command.address, machine=command.machine, machine_since=ctx.revision, overrun=command.overrun,
        capabilities=command.capabilities, tenant=command.tenant, shares_user=command.shares_user,
    )  # fmt: skip
    if known is None:
        return Accepted((NodeStored(node),))
    node = replace(
        node, labels=known.labels, taints=known.taints, tenancy=known.tenancy, cordoned=known.cordoned,
        draining=known.draining, note=known.note, session_ended=known.session_ended, fence=known.fence,
    )  # fmt: skip
    node = _with_machine(node, known, ctx)
    if replace(node, revision=known.revision) == known:
        return Refused(Code.ALREADY, f"{node.name} is registered with these values already", {"uid": node.uid})
    usage = state.node_usage.get(node.uid) or EMPTY_USAGE
    if (node.zone, node.pool) != (known.zone, known.pool) and usage.slots:
        return Refused(
            Code.IN_USE, "zone and pool cannot change while the node has slots", {"slots": len(slot_keys(usage))}
        )
    return Accepted((NodeStored(node), *breach_events(state, node_overshoots(state, node), ctx.at)))


def _with_machine(node: Node, known: Node, ctx: CommandContext) -> Node:
    """Return the node with its machine history. `machine_before` stays until the agent has another session on the same
    machine. A first report of a machine is no change."""
    if node.machine != known.machine:
        if known.machine == NO_MACHINE:
            return node
        return replace(node, machine_before=known.machine, machine_changed=ctx.at)
    node = replace(node, machine_since=known.machine_since)
    if node.session != known.session:
        return node
    return replace(node, machine_before=known.machine_before, machine_changed=known.machine_changed)


def _node_problem(command: RegisterNode) -> str:
    if not 0 < len(command.name) <= NAME_MAX or not command.zone or not command.pool:
        return f"a node has a name of at most {NAME_MAX} characters, a zone and a pool"
    if any(not 0 < device.milli <= 1000 for device in command.devices):
        return "a device has from 1 to 1000 milli"
    if command.capacity.gpu != sum(device.milli for device in command.devices):
        return "the capacity's gpu must be the sum of its devices"
    first, last = command.ports
    if command.ports != NO_PORTS and not 1 <= first <= last <= PORT_MAX:
        return f"ports must be a range within 1 to {PORT_MAX}, or 0 to 0 for none"
    if last - first >= NODE_PORTS_MAX:
        return f"{last - first + 1} ports; a node hands out at most {NODE_PORTS_MAX}"
    if not _ADDRESS.fullmatch(command.address):
        return "an address must be a host name or an IP address, without a port"
    names = (command.machine.id, command.machine.host, command.machine.boot)
    if any(len(name) > MACHINE_NAME_MAX or not name.isprintable() for name in names) or command.overrun < 0:
        return f"a machine's names must be one line of at most {MACHINE_NAME_MAX} characters, and overrun at least 0"
    if list(command.capabilities) != sorted(set(command.capabilities)):
        return "capabilities must be sorted and distinct"
    if not _TENANT.fullmatch(command.tenant):
        return "a node's tenant must be a tenant name, or empty"
    if len(command.capacity.extended) > MARKS_MAX:
        return f"a node has at most {MARKS_MAX} extended resources, not {len(command.capacity.extended)}"
    return amount_problem(command.capacity)


def report_node(state: RegionState, command: ReportNode, ctx: CommandContext) -> Accepted | Refused:
    """Store an agent's report of its own node, in the session of its registration. A changed list of cached artifacts
    is accepted at any time, load alone at most every `LOAD_EVERY_MS`."""
    if ctx.actor != f"agent/{command.name}":
        return Refused(Code.NOT_OWNER, f"{ctx.actor} may report only its own node, not {command.name}", {})
    wrong = _report_problem(command)
    if wrong:
        return Refused(Code.MALFORMED, wrong, {"node": command.name})
    node = state.nodes.get(state.node_names.get(command.name) or 0)
    if node is None:
        return not_found("node", command.name)
    if node.session != ctx.envelope.session:
        facts = {"session": node.session}
        return Refused(Code.NOT_OWNER, f"{node.name} is registered in session {node.session}: register it first", facts)
    known = state.node_reports.get(node.uid) or NO_REPORT
    if (command.cpu, command.memory, command.present) == (known.cpu, known.memory, known.present):
        return Refused(Code.ALREADY, f"{node.name} has reported these values already", {})
    until = known.at + LOAD_EVERY_MS
    if command.present == known.present and ctx.at < until:
        return Refused(Code.TOO_EARLY, f"the load of {node.name} was reported at {known.at}", {"until": until})
    return Accepted((NodeReported(node.uid, command.cpu, command.memory, command.present),))


def _report_problem(command: ReportNode) -> str:
    if not {command.cpu, command.memory} <= set(range(0, 101, LOAD_STEP)):
        return f"load must be from 0 to 100 percent, in steps of {LOAD_STEP}"
    present = command.present
    if len(present) > PRESENT_MAX or any(not 0 < len(name) <= PRESENT_NAME_MAX for name in present):
        return f"`present` has at most {PRESENT_MAX} names of at most {PRESENT_NAME_MAX} characters"
    if list(present) != sorted(set(present)):
        return "`present` must be sorted and distinct"
    return ""


def administer_node(state: RegionState, command: AdministerNode, ctx: CommandContext) -> Accepted | Refused:
    """Replace all operator attributes of a node. A cordon or a drain requires a note."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if ctx.outside_node(known.name) or ctx.outside_nodes():
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not operate {known.name}", {"node": known.name})
    if (command.cordoned or command.draining) and not command.note.strip():
        return Refused(Code.MALFORMED, "a cordon or a drain requires a note that says why", {})
    node = replace(
        known, revision=ctx.revision, cordoned=command.cordoned, draining=command.draining, taints=command.taints,
        labels=command.labels, tenancy=command.tenancy, note=command.note,
    )  # fmt: skip
    if replace(node, revision=known.revision) == known:
        return Refused(Code.ALREADY, f"{node.name} has these values already", {})
    return Accepted((NodeStored(node), *breach_events(state, node_overshoots(state, node), ctx.at)))


def judge_node(state: RegionState, command: JudgeNode, ctx: CommandContext) -> Accepted | Refused:
    """Set a node's health: lost only without a session, ready only with one."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if known.health is command.health:
        return Refused(Code.ALREADY, f"{known.name} is {known.health}", {})
    alive = known.session != 0
    if (command.health is NodeHealth.LOST and alive) or (command.health is NodeHealth.READY and not alive):
        facts = {"session": known.session, "health": known.health.value}
        return Refused(Code.TOO_EARLY, f"{known.name} cannot be {command.health} with session {known.session}", facts)
    return Accepted((NodeStored(replace(known, revision=ctx.revision, health=command.health)),))


def remove_node(state: RegionState, command: RemoveNode, ctx: CommandContext) -> Accepted | Refused:
    """Remove a node that has no slots and no session. Its holds end with it."""
    known = state.nodes.get(command.node)
    if known is None:
        return not_found("node", command.node)
    if ctx.outside_node(known.name) or ctx.outside_nodes():
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may not operate {known.name}", {"node": known.name})
    usage = state.node_usage.get(known.uid) or EMPTY_USAGE
    if usage.slots or known.session:
        facts = {"slots": len(slot_keys(usage)), "session": known.session}
        return Refused(Code.IN_USE, f"{known.name} has slots, or its agent has a session", facts)
    holds = (hold_ended_event(state.holds[uid], "node-removed") for uid in usage.holds)
    return Accepted((*holds, NodeRemoved(known.uid)))
