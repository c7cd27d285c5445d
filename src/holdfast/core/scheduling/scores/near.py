"""Score: nodes close to members of the groups that the template names in near rules rank first."""

from __future__ import annotations

from functools import partial

import numpy as np

from holdfast.core.model.objects.workloads import Template
from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class NearScore:
    """Ranks nodes by the number of near rules that hold there."""

    name, version = "near", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """An equal part of `BEST` per rule whose domain has a member."""
        domains, template = window.domains, window.ask.template
        if domains is None or not template.near:
            return None
        total: Numbers = np.zeros(len(window), np.int64)
        for rule in template.near:
            there = window.by_domain(rule.key, partial(domains.members, rule))
            total += (there > 0) * part_of(template)
        return total


def part_of(template: Template) -> int:
    """The score of one near rule of a template."""
    return BEST // len(template.near)
