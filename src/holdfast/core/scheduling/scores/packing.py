"""Score: fuller nodes rank first, so that large free pieces stay whole."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class PackingScore:
    """Ranks nodes by how full they would be, over the required resources."""

    name, version = "packing", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """Mean of the used parts of the required resources."""
        amounts = window.table.amounts(window.ask.template.need)
        total: Numbers = np.zeros(len(window), np.int64)
        for name, amount in amounts:
            total += window.used(name, amount)
        return total // max(1, len(amounts))
