"""Score: emptier nodes rank first, so that the loss of one node costs little."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.scores.packing import PackingScore


class EmptinessScore:
    """Ranks nodes by how empty they would be, over the required resources."""

    name, version = "emptiness", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """`BEST` less the packing score."""
        full: Numbers = PackingScore().score(window)
        return BEST - full
