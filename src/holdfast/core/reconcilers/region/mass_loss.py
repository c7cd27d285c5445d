"""What the controllers of a region's nodes have in common: one node at a time, by uid; and when one counts as gone.

    sessions end ──▶ the first fifth of the region's nodes     counts as gone at once
                 ──▶ the next fifth                            a minute later, and so on

That a session has ended was doubted before it was logged (RULES 5). Still, when very many are silent they may all be
well, and it is we who do not hear them: so what follows from a node's silence happens to a fifth of all nodes in a
minute, and to two in any case. Nothing is counted between two looks: the order in which sessions ended is in the nodes.
Work of a class that may preempt, and that is merely replaced, does not wait for that (RULES 21).
"""

from __future__ import annotations

from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.tables import RegionState

#: Of so many percent of all nodes, and of so many at least, the work counts as gone in one window.
GONE_PERCENT = 20
GONE_LEAST = 2
WINDOW_MS = 60_000


def counts_as_gone_at(state: RegionState, node: Node) -> Instant:
    """When a node without a session counts as gone: when that ended, or later where many have.

    In each window so many have their turn, so one waits a window longer than the one so many places before it. Of all
    nodes these are a fifth: there are five at most to look at.
    """
    most, silent = max(GONE_LEAST, len(state.nodes) * GONE_PERCENT // 100), state.silent
    assert (node.session_ended, node.uid) in silent, f"node {node.name} has a session"
    before = silent.each(range(silent.place_of((node.session_ended, node.uid)), -1, -most))
    return max(ended + windows * WINDOW_MS for windows, (ended, _) in enumerate(before))


def skips_the_brake(state: RegionState, slot: Slot) -> bool:
    """Whether a slot is replaced without waiting for its node's turn: it is critical, and another one may run beside
    it."""
    assignment = state.assignments[slot.assignment]
    cls = state.priority_classes.get(assignment.priority_class)
    return cls is not None and cls.spec.may_preempt and not assignment.exclusive
