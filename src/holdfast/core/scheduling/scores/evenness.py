"""Score: domains with fewer replicas of the workload rank first, within its spread rules.

It affects only workloads with spread rules, since only their replicas are counted per domain. A rule with a larger skew
limits how uneven domains may become; this score avoids unneeded unevenness.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class EvennessScore:
    """Ranks nodes by how few replicas their domains have."""

    name, version = "evenness", "2"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """Mean over the spread rules: `BEST` in the emptiest domain that counts, 0 in the fullest.

        Within a pass of several slots, `fill` updates the value with each choice.
        """
        domains, rules = window.domains, window.ask.template.spread
        if domains is None or not rules:
            return None
        total: Numbers = np.zeros(len(window), np.int64)
        for number, rule in enumerate(rules):
            total += window.by_domain(rule.key, partial(domains.evenness, number))
        return total // len(rules)
