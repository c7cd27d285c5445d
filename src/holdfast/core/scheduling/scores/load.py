"""Nodes of which less is used now first: what is asked for and what is used are two things."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class LoadScore:
    """How little of a node is used, of processor or memory, whichever is used more."""

    name, version = "load", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """`BEST` where nothing is used, 0 where all is."""
        if not window.table.hints.any_load:
            return None
        used: Numbers = window.pick(window.table.hints.load)
        return BEST - used * BEST // 100 if used.any() else None
