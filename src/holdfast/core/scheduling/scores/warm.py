"""Nodes where what a template uses lies ready first: what need not be fetched starts sooner."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class WarmScore:
    """How much of what the template uses lies ready on a node."""

    name, version = "warm", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """An equal part of `BEST` for each thing that is there."""
        uses = window.ask.template.uses
        if not uses:
            return None
        there: Numbers = np.zeros(len(window), np.int64)
        for name in uses:
            there += window.pick(window.table.hints.there(name))
        return there * BEST // len(uses)
