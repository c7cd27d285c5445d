"""Filter: the node has a session, no cordon and no drain. For exclusive work it also ends runs before its fence."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class ConditionFilter:
    """Accepts nodes that take new work."""

    name, version, code = "condition", "1", Code.NODE_UNAVAILABLE
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement each for usable nodes, overruns of exclusive work and quarantine."""
        yield "usable", window.pick(window.table.usable)
        if window.ask.exclusive:
            yield "ends runs too late", window.pick(window.table.overrun) <= window.table.overrun_most
        if window.table.quarantined.any():
            yield "quarantined", ~window.pick(window.table.quarantined)
