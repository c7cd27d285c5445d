"""What stands on a node, as its agent is told: everything it must know of a slot but the template.

A slot *waits* while whoever it follows has not ended (RULES 15), or while its region may not begin it: a leased right
that has lapsed, or was not told in this term.

What an agent does not take, though it is bound to its node: the ledger's picture of the node is not the node.

It is refused at once, and waits to be placed anew. Where that leads here again it is refused later each time, so that
nobody refuses in a tight loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.objects.workloads import DriverKind, Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision, Row, SlotKey
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.queries.assignments import may_start
from holdfast.core.region.queries.feasibility import keeps_apart
from holdfast.core.region.state.node_usage import remaining_victims
from holdfast.core.region.state.tables import RegionState


class BoundSlot(Row, frozen=True):
    """One slot on the node.

    `reported` is the revision of the binding, or of the agent's last word of it: what is older than the agent's
    session was another life's, and is unknown until the ledger says so. `leased` work ends when the agent cannot renew
    its session: it is exclusive, or its workload wants it to stop where it is cut off. What is exclusive and has
    `moved` was bound to another machine of this node's name, or to another life of it: it is placed anew, under a
    higher token.
    """

    slot: SlotKey
    epoch: Revision
    phase: Phase
    cause: str
    template: str
    name: str
    tenant: str
    revision: Revision
    reported: Revision
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    restarts: int = 0
    attempts: int = 0
    leased: bool = False
    batch: bool = False
    waits: bool = False
    moved: bool = False


def bindings_of_node(state: RegionState, node: Revision, now: Instant) -> list[BoundSlot]:
    """All that stands on a node and concerns its agent, in the order in which it came."""
    room = state.node_usage.get(node) or EMPTY_USAGE
    slots = [state.slots[key] for key in slot_keys(room)]
    return [_bound(state, slot, now) for slot in slots if slot.phase is not Phase.RESERVED]


def _bound(state: RegionState, slot: Slot, now: Instant) -> BoundSlot:
    assignment = state.assignments[slot.assignment]
    return BoundSlot(
        slot=(slot.workload, slot.ordinal),
        epoch=slot.epoch,
        phase=slot.phase,
        cause=slot.cause,
        template=slot.template,
        name=f"{assignment.tenant}/{assignment.workload_name}/{assignment.region}/{slot.ordinal}",
        tenant=assignment.tenant,
        revision=slot.revision,
        reported=slot.reported,
        devices=slot.devices,
        ports=slot.ports,
        restarts=slot.restarts,
        attempts=slot.attempts,
        leased=is_leased(assignment),
        batch=assignment.batch,
        waits=_waits(state, slot, assignment, now),
        moved=assignment.exclusive and slot.epoch < state.nodes[slot.node].machine_since,
    )


def is_leased(assignment: Assignment) -> bool:
    """Whether its replicas end when their agent cannot renew its session."""
    return assignment.exclusive or assignment.stops_cut


def _waits(state: RegionState, slot: Slot, assignment: Assignment, now: Instant) -> bool:
    return bool(slot.waits_for and remaining_victims(state, slot)) or not may_start(state, assignment, now)


def rejection_reason(
    one: BoundSlot, template: Template, node: RegisterNode, drivers: Collection[DriverKind], there: tuple[str, ...] = ()
) -> str:
    """Why this node cannot run it; empty: it can, as far as that can be told before it is tried. `there` is whose work
    is on a node that takes one tenant at a time."""
    if template.driver not in drivers:
        return f"this node has no driver {template.driver}"
    first, last = node.ports
    beyond = [port for port in one.ports if not first <= port <= last]
    if beyond:
        return f"port {beyond[0]} is none of this node's, which are {first} to {last}"
    missing = [index for index in one.devices if index >= len(node.devices)]
    if missing:
        return f"this node has no device {missing[0]}"
    misfit = keeps_apart(node, template, one.tenant, there)
    return f"{misfit.code}: {misfit.detail}" if misfit is not None else ""


def tenants_begun(bound: Iterable[BoundSlot], node: RegisterNode) -> dict[str, None]:
    """Whose work has begun on a node that takes one tenant at a time, in order; of another it makes no difference."""
    if not takes_one_tenant(node):
        return {}
    return {one.tenant: None for one in bound if one.phase is not Phase.BOUND}
