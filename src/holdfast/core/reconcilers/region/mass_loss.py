"""The mass-loss brake: when a silent node counts as lost.

    sessions end ──▶ the first fifth of the region's nodes     counts as lost at once
                 ──▶ the next fifth                            a minute later, and so on

If very many nodes are silent, they may be healthy, and the leader is cut off, although it has doubted each end of a
session (RULES 5). So at most a fifth of all nodes, and at least two, count as lost per minute. The order follows from
the nodes; nothing is stored between cycles. Work that may preempt and is merely replaced does not wait (RULES 21).
"""

from __future__ import annotations

from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.tables import RegionState

#: Percentage of all nodes, and smallest number of nodes, that count as lost in one window.
GONE_PERCENT = 20
GONE_LEAST = 2
WINDOW_MS = 60_000


def counts_as_gone_at(state: RegionState, node: Node) -> Instant:
    """Return when a node without a session counts as lost: at the session's end, or later if many have ended.

    A window has a fixed number of nodes, a fifth of all; a node counts one window later than the node that many places
    before. So there are at most five steps.
    """
    most, silent = max(GONE_LEAST, len(state.nodes) * GONE_PERCENT // 100), state.silent
    assert (node.session_ended, node.uid) in silent, f"node {node.name} has a session"
    before = silent.each(range(silent.place_of((node.session_ended, node.uid)), -1, -most))
    return max(ended + windows * WINDOW_MS for windows, (ended, _) in enumerate(before))


def skips_the_brake(state: RegionState, slot: Slot) -> bool:
    """Check whether a slot is replaced without the brake: it is critical, and another one may run at the same time."""
    assignment = state.assignments[slot.assignment]
    cls = state.priority_classes.get(assignment.priority_class)
    return cls is not None and cls.spec.may_preempt and not assignment.exclusive
