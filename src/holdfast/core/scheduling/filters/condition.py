"""Whether a node takes anything at all: it lives in a session, nobody cordoned or drains it, and what is exclusive ends
there before its fence is past."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class ConditionFilter:
    """Only nodes that may be used."""

    name, version, code = "condition", "1", Code.NODE_UNAVAILABLE
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """Rows of nodes that take new work."""
        yield "usable", window.pick(window.table.usable)
        if window.ask.exclusive:
            yield "times not kept", window.pick(window.table.overrun) <= window.table.overrun_most
        if window.table.quarantined.any():
            yield "left alone", ~window.pick(window.table.quarantined)
