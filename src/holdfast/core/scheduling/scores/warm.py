"""Score: nodes that have artifacts of the template cached rank first, since starts there are faster."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class WarmScore:
    """Ranks nodes by how many of the template's artifacts are cached there."""

    name, version = "warm", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """An equal part of `BEST` per cached artifact."""
        uses = window.ask.template.uses
        if not uses:
            return None
        there: Numbers = np.zeros(len(window), np.int64)
        for name in uses:
            there += window.pick(window.table.hints.there(name))
        return there * BEST // len(uses)
