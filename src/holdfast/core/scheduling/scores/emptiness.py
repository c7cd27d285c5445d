"""Emptier nodes first: whatever is lost with one node is little."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.scores.packing import PackingScore


class EmptinessScore:
    """How empty a node would be, over the resources that are needed."""

    name, version = "emptiness", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """The contrary of how full it would be."""
        full: Numbers = PackingScore().score(window)
        return BEST - full
