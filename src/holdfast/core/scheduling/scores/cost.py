"""Score: nodes of cheaper pools rank first."""

from __future__ import annotations

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class CostScore:
    """Ranks nodes by the cost of their pool, among the pools with a cost."""

    name, version = "cost", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """`BEST` for the cheapest pool, 0 for the most expensive and for a pool without a cost."""
        costs = window.table.costs
        least, most = min(costs.values(), default=0), max(costs.values(), default=0)
        if least == most:
            return None
        return window.by_domain("pool", lambda pool: (most - costs.get(pool, most)) * BEST // (most - least))
