"""The object of a region that a command changes or follows from, and its revision.

The ledger checks a sender's preconditions against it (see `ledger.commit.authorization`). The revision is the one that
a read of the object shows.
"""

from __future__ import annotations

from holdfast.core.ledger.commit.rules import Subject
from holdfast.core.model.records.slots import changed_at
from holdfast.core.model.values.structs import Revision
from holdfast.core.region import commands as c
from holdfast.core.region.state.tables import RegionState


def of_node(state: RegionState, command: c.AdministerNode | c.RemoveNode) -> Subject:
    """The node with this uid."""
    node = state.nodes.get(command.node)
    return Subject(f"Node/{node.name}", node.revision) if node is not None else Subject(f"Node/{command.node}", 0)


def of_slots(state: RegionState, command: c.OpenSlots | c.WithdrawSlots) -> Subject:
    """The assignment of these slots, at the platform's revision."""
    return _assignment(state, command.assignment)


def of_stop(state: RegionState, command: c.Stop) -> Subject:
    """The assignment of the first slot that exists: a stop that follows a spec names slots of one assignment."""
    there = (slot for key in command.slots if (slot := state.slots.get(key)) is not None)
    return _assignment(state, next((slot.assignment for slot in there), 0))


def _assignment(state: RegionState, uid: Revision) -> Subject:
    found = state.assignments.get(uid)
    return Subject(f"Assignment/{uid}", found.revision if found is not None else 0, own=False)


def of_hold(state: RegionState, command: c.ExtendHold | c.DropHold) -> Subject | None:
    """The hold with this uid. None below level 2: there its last extension is not stored."""
    hold = state.holds.get(command.hold)
    if state.info.level < 2:
        return None
    return Subject(f"Reservation/{command.hold}", changed_at(hold) if hold is not None else 0)
