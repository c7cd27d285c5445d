"""Ranked lists for similar slots of one cycle, so that not every slot needs a pass.

    first slot ──▶ a pass     second ──▶ a pass whose best rows are listed ──▶ each later one: a row of the list

If no two requests are equal, each is a pass, mostly spent on filtering the same rows again. Slots are similar if their
amounts are small beside any node and all else that filters and scores read is equal: rows then rank nearly alike. With
packing, the first listed row with enough free capacity is filled before the next. With spreading, each slot makes
another row the best, so there are no lists.

Small regions, whose passes examine all rows, have none either. A list lasts one cycle, so that a decision follows from
what its cycle saw. Plugins that are not `is_plain` run for each slot.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from msgspec import Struct

from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.framework import SchedulingProfile
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.nodes.window import ALL
from holdfast.core.scheduling.selection import NodeSelection, PassContext, RankedList, ranked_list, select_nodes

#: Rows in a list, and slots that it serves at most.
ROWS = SLOTS = 64
#: An amount is small up to 1/64 of the smallest node's capacity: it changes no score by more than 2 %.
LITTLE = 64
#: Candidates listed in the evidence of a decision.
_TOP = 3


class _List(Struct):
    """A ranked list, the index of its next row, and how many more slots it serves."""

    listed: RankedList
    place: int = 0
    left: int = SLOTS


class Shortlists:
    """The ranked lists of one scheduling cycle."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._lists: dict[Hashable, _List | None] = {}
        self._least: dict[str, int] | None = None
        #: The last profile, and whether its slots can use lists.
        self._rules: tuple[SchedulingProfile | None, bool] = None, False

    def choose(self, passing: PassContext) -> NodeSelection:
        """Select a row for one slot without domain rules."""
        key = self._alike(passing) if self._table.count > ALL else None
        if key is None or key not in self._lists:
            self._lists[key] = None  # it may be the only one
            return select_nodes(passing, 1)
        known = self._lists[key]
        if known is None or not known.left:
            known = self._lists[key] = _List(ranked_list(passing, ROWS))
        known.left -= 1
        return self._next(known, passing.ask) or select_nodes(passing, 1)

    def _next(self, known: _List, ask: SlotAsk) -> NodeSelection | None:
        """Return the first listed row with enough free capacity."""
        found = known.listed
        while known.place < len(found.rows):
            row = found.rows[known.place]
            if self._has_room(row, ask):
                candidates = found.candidates[known.place : known.place + _TOP]
                return NodeSelection([row], found.examined, found.rejected, candidates)
            known.place += 1
        return None

    def _has_room(self, row: int, ask: SlotAsk) -> bool:
        table = self._table
        for name, amount in table.amounts(ask.template.need):
            at = table.resources[name], row
            if table.free_any.item(at) < amount or (ask.firm and table.free_firm.item(at) < amount):
                return False
        return True

    def _alike(self, passing: PassContext) -> Hashable | None:
        """Return all that nodes are checked for except small amounts; None if no list is possible."""
        ask, template, table = passing.ask, passing.ask.template, self._table
        # With one-tenant nodes, placements of other tenants in this cycle change what is feasible.
        if template.gpus or template.ports or not table.occupants.is_empty or not self._are_fit(passing.rules):
            return None
        amounts, least = table.amounts(template.need), self._smallest()
        if any(amount * LITTLE > least.get(name, 0) for name, amount in amounts):
            return None
        names = tuple([name for name, _ in amounts])
        what = template.require, template.tolerate, template.isolation, template.uses
        return names, what, ask.tenant, ask.firm, ask.exclusive

    def _are_fit(self, rules: SchedulingProfile) -> bool:
        if rules is not self._rules[0]:
            self._rules = rules, rules.pack and rules.is_plain
        return self._rules[1]

    def _smallest(self) -> dict[str, int]:
        """The smallest capacity of each resource, over nodes that have some."""
        if self._least is None:
            columns = ((name, self._table.capacity[number]) for name, number in self._table.resources.items())
            self._least = {name: int(has[has > 0].min()) for name, has in columns if np.any(has > 0)}
        return self._least
