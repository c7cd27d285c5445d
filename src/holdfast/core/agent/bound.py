"""What stands on a node, as its agent is told: everything it must know of a slot but the template.

A slot *waits* while whoever it follows has not ended (RULES 15), or while its region may not begin it: a leased right
that has lapsed, or was not told in this term.
"""

from __future__ import annotations

from holdfast.core.model.allotment import Assignment
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import EMPTY_ROOM, Slot, standing
from holdfast.core.model.shapes import Instant, Revision, Row, SlotKey
from holdfast.core.region.assigned import may_begin
from holdfast.core.region.rooms import victims_left
from holdfast.core.region.state import RegionState


class Bound(Row, frozen=True):
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


def bound_to(state: RegionState, node: Revision, now: Instant) -> list[Bound]:
    """All that stands on a node and concerns its agent, in the order in which it came."""
    room = state.rooms.get(node) or EMPTY_ROOM
    slots = [state.slots[key] for key in standing(room)]
    return [_bound(state, slot, now) for slot in slots if slot.phase is not Phase.RESERVED]


def _bound(state: RegionState, slot: Slot, now: Instant) -> Bound:
    assignment = state.assignments[slot.assignment]
    return Bound(
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
    return bool(slot.after and victims_left(state, slot)) or not may_begin(state, assignment, now)
