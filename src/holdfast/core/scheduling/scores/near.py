"""Nodes where members of the groups stand that a template wants to be near: what talks much has a short way."""

from __future__ import annotations

from functools import partial

import numpy as np

from holdfast.core.model.objects.workloads import Template
from holdfast.core.scheduling.nodes.table import BEST, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow


class NearScore:
    """How many of the near rules hold on a node."""

    name, version = "near", "1"
    is_plain = True

    def score(self, window: NodeWindow) -> Numbers | None:
        """An equal part of `BEST` for each rule in whose domain there is a member."""
        domains, template = window.domains, window.ask.template
        if domains is None or not template.near:
            return None
        total: Numbers = np.zeros(len(window), np.int64)
        for rule in template.near:
            there = window.by_domain(rule.key, partial(domains.members, rule))
            total += (there > 0) * part_of(template)
        return total


def part_of(template: Template) -> int:
    """What one near rule of a template counts."""
    return BEST // len(template.near)
