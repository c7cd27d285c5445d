"""Nodes whose processor and memory would be used alike first: a node full of one has the other to no use."""

from __future__ import annotations

import numpy as np

from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class BalanceScore:
    """How close together the used parts of processor and memory would be."""

    name, version = "balance", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers:
        """`BEST` less the distance."""
        need = window.ask.template.need
        apart: Numbers = np.abs(window.used("cpu", need.cpu) - window.used("memory", need.memory))
        return BEST - apart
