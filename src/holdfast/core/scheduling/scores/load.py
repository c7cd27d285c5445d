"""Score: nodes with less measured use rank first, whatever their slots request."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class LoadScore:
    """Ranks nodes by their used part of cpu or memory, whichever is larger."""

    name, version = "load", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """`BEST` where nothing is used, 0 where all is."""
        if not window.table.hints.any_load:
            return None
        used: Numbers = window.pick(window.table.hints.load)
        return BEST - used * BEST // 100 if used.any() else None
