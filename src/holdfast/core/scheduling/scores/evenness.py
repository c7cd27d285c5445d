"""Domains with fewer replicas of the same workload first, within what its spread rules allow.

Only replicas with spread rules are counted over domains, so only for these it makes a difference: a rule with a larger
skew says how uneven they may become, this score keeps them from becoming so without need.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class EvennessScore:
    """How few replicas stand in the domains of a node."""

    name, version = "evenness", "2"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """The mean over the spread rules: `BEST` in the emptiest domain that counts, 0 in the fullest.

        A pass that chooses several slots goes on from here: what it adds to a domain makes that less even (`fill`).
        """
        domains, rules = window.domains, window.ask.template.spread
        if domains is None or not rules:
            return None
        total: Numbers = np.zeros(len(window), np.int64)
        for number, rule in enumerate(rules):
            total += window.by_domain(rule.key, partial(domains.evenness, number))
        return total // len(rules)
