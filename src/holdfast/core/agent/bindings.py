"""The slots bound to a node, as its agent receives them, and why the node cannot run one.

A slot *waits* while a slot that it follows has not ended (RULES 15), or while its region may not start it: its leased
right has expired, or was not recorded in this term.

The ledger's record of a node may differ from the node. The agent then declines a binding at once, and the slot is
placed again. If that leads to the same node, each refusal is delayed longer, so that no tight loop arises.
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
    """One slot on the node, with everything that its agent needs except the template.

    The field `reported` is the revision of the binding, or of the agent's last report on it: one older than the agent's
    session belongs to an earlier session, and the agent leaves the slot alone until the ledger marks it unknown.
    `leased` work ends when the agent cannot renew its session: it is exclusive, or its workload stops when cut off.
    Exclusive work with `moved` was bound to another machine with this node's name, or to an earlier boot: it is placed
    again, under a higher fencing token.
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
    """Return the slots on a node that concern its agent, in the order in which they were placed."""
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
    """Whether replicas end when their agent cannot renew its session."""
    return assignment.exclusive or assignment.stops_cut


def _waits(state: RegionState, slot: Slot, assignment: Assignment, now: Instant) -> bool:
    return bool(slot.waits_for and remaining_victims(state, slot)) or not may_start(state, assignment, now)


def rejection_reason(
    one: BoundSlot, template: Template, node: RegisterNode, drivers: Collection[DriverKind], there: tuple[str, ...] = ()
) -> str:
    """Return why this node cannot run the slot; empty if no reason is known before the start. `there` are the tenants
    with work on a node that accepts one tenant at a time."""
    if template.driver not in drivers:
        return f"this node has no driver {template.driver}"
    first, last = node.ports
    beyond = [port for port in one.ports if not first <= port <= last]
    if beyond:
        return f"port {beyond[0]} is outside this node's range, {first} to {last}"
    missing = [index for index in one.devices if index >= len(node.devices)]
    if missing:
        return f"this node has no device {missing[0]}"
    misfit = keeps_apart(node, template, one.tenant, there)
    return f"{misfit.code}: {misfit.detail}" if misfit is not None else ""


def tenants_begun(bound: Iterable[BoundSlot], node: RegisterNode) -> dict[str, None]:
    """Return the tenants with started work, in order, on a node that accepts one tenant at a time; otherwise none."""
    if not takes_one_tenant(node):
        return {}
    return {one.tenant: None for one in bound if one.phase is not Phase.BOUND}
