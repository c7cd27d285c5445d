"""Fuller nodes first: what is left in one piece stays in one piece."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class PackingScore:
    """How full a node would be, over the resources that are needed."""

    name, version = "packing", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """The mean over the needed resources of what would be taken."""
        amounts = window.table.amounts(window.ask.template.need)
        total: Numbers = np.zeros(len(window), np.int64)
        for name, amount in amounts:
            total += window.used(name, amount)
        return total // max(1, len(amounts))
