"""Filter: the node has enough free of every required resource. Capacity held for others is not free for firm work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class CapacityFilter:
    """Accepts nodes with enough free capacity."""

    name, version, code = "capacity", "1", Code.CAPACITY
    is_plain = is_cured_by_victims = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement per resource."""
        table, at, firm = window.table, window.at, window.ask.firm
        for name, amount in table.amounts(window.ask.template.need):
            number = table.resources.get(name)
            if number is None:
                yield name, np.zeros(len(window), np.bool_)
                continue
            enough: Truths = table.free_any[number, at] >= amount
            if firm:
                enough &= table.free_firm[number, at] >= amount
            yield name, enough
