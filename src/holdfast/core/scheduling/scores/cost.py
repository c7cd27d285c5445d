"""Nodes of cheaper pools first: what can run for less does."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class CostScore:
    """How cheap the pool of a node is, over the pools that the platform has told of."""

    name, version = "cost", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """`BEST` for the cheapest pool, 0 for the dearest, and for one of which nothing is known."""
        costs = window.table.costs
        least, most = min(costs.values(), default=0), max(costs.values(), default=0)
        if least == most:
            return None
        return window.by_domain("pool", lambda pool: (most - costs.get(pool, most)) * BEST // (most - least))
