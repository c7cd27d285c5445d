"""Which object each command of people changes in a region, and at which revision that object is.

What a sender expects is judged against it (see `ledger.expectations`). The revision is the one that reading the object
shows.
"""

from __future__ import annotations

from holdfast.core.ledger.registry import Subject
from holdfast.core.model.placement import changed_at
from holdfast.core.region import commands as c
from holdfast.core.region.state import RegionState


def of_node(state: RegionState, command: c.AdministerNode | c.RemoveNode) -> Subject:
    """The node of this uid."""
    node = state.nodes.get(command.node)
    return Subject(f"Node/{node.name}", node.revision) if node is not None else Subject(f"Node/{command.node}", 0)


def of_hold(state: RegionState, command: c.ExtendHold | c.DropHold) -> Subject | None:
    """The reservation of this uid; below level 2 it is not kept when it was extended."""
    hold = state.holds.get(command.hold)
    if state.facts.level < 2:
        return None
    return Subject(f"Reservation/{command.hold}", changed_at(hold) if hold is not None else 0)
