"""Score: nodes whose cpu and memory would be used equally rank first. A node full of one wastes the other."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class BalanceScore:
    """Ranks nodes by how close the used parts of cpu and memory would be."""

    name, version = "balance", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """`BEST` less the difference."""
        need = window.ask.template.need
        apart: Numbers = np.abs(window.used("cpu", need.cpu) - window.used("memory", need.memory))
        return BEST - apart
