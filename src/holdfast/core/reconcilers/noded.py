"""What the controllers of a region's nodes have in common: one node at a time, by uid; and when one counts as gone.

    sessions end ──▶ the first fifth of the region's nodes     counts as gone at once
                 ──▶ the next fifth                            a minute later, and so on

That a session has ended was doubted before it was logged (RULES 5). Still, when very many are silent they may all be
well, and it is we who do not hear them: so what follows from a node's silence happens to a fifth of all nodes in a
minute, and to two in any case. Nothing is counted between two looks: the order in which sessions ended is in the nodes.
Work of a class that may preempt, and that is merely replaced, does not wait for that (RULES 21).
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import Key, WatchKey
from holdfast.core.model.placement import EMPTY_ROOM, Slot, standing
from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Node
from holdfast.core.region.state import RegionState

#: Of so many percent of all nodes, and of so many at least, the work counts as gone in one window.
GONE_PERCENT = 20
GONE_LEAST = 2
WINDOW_MS = 60_000


class OfNodes:
    """Looks at one node at a time; what stands there is told under it."""

    watches: tuple[str, ...] = ("node",)

    def keys(self, state: RegionState) -> Iterable[Key]:
        return state.nodes.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[Key]:
        return [touched[1]]


def slots_on(state: RegionState, node: Node) -> list[Slot]:
    """What stands on a node."""
    return [state.slots[key] for key in standing(state.rooms.get(node.uid) or EMPTY_ROOM)]


def gone_at(state: RegionState, node: Node) -> Instant:
    """When a node without a session counts as gone: when that ended, or later where many have.

    In each window so many have their turn, so one waits a window longer than the one so many places before it. Of all
    nodes these are a fifth: there are five at most to look at.
    """
    most, silent = max(GONE_LEAST, len(state.nodes) * GONE_PERCENT // 100), state.silent
    assert (node.session_ended, node.uid) in silent, f"node {node.name} has a session"
    before = silent.each(range(silent.place_of((node.session_ended, node.uid)), -1, -most))
    return max(ended + windows * WINDOW_MS for windows, (ended, _) in enumerate(before))


def is_pressing(state: RegionState, slot: Slot) -> bool:
    """Whether a slot is replaced without waiting for its node's turn: it is critical, and another one may run beside
    it."""
    assignment = state.assignments[slot.assignment]
    cls = state.classes.get(assignment.priority_class)
    return cls is not None and cls.spec.may_preempt and not assignment.exclusive
