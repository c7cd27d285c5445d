"""Slots that differ in little, one after another in one look, are chosen from one list of rows.

    the first ──▶ a stretch     the second ──▶ a stretch, whose best rows are listed ──▶ those that follow: a row of it

Where no two requests are alike each is a pass of its own, and nearly all of its cost is asking the same of the same
rows again. Slots are alike whose amounts are little beside any node and who ask for the same in all else that a filter
or a score looks at: for them the rows have about the same order. Nodes are packed: the first row that has room for a
slot, as there is then, is filled before the next. Where work is spread, each slot makes another row the best, and there
are no lists.

A region that is looked at whole has none: so few rows cost little. A list is of one look, so that a decision follows
from what its look saw. A plugin that does not say that it looks at nothing else is asked for each slot.
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

#: So many rows are in a list, and so many slots are chosen from it.
ROWS = SLOTS = 64
#: An amount is little that is at most this part of what the smallest node has: it moves no score by two hundredths.
LITTLE = 64
#: So many of the rows that come next are kept of a decision.
_TOP = 3


class _List(Struct):
    """What is listed, the place of the next row in it, and how many slots it is still good for."""

    listed: RankedList
    place: int = 0
    left: int = SLOTS


class Shortlists:
    """Those of one look."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._lists: dict[Hashable, _List | None] = {}
        self._least: dict[str, int] | None = None
        #: Of which rules it was asked last whether there are lists by them, and whether there are.
        self._rules: tuple[SchedulingProfile | None, bool] = None, False

    def choose(self, passing: PassContext) -> NodeSelection:
        """A row for one slot, which is not counted over domains."""
        key = self._alike(passing) if self._table.count > ALL else None
        if key is None or key not in self._lists:
            self._lists[key] = None  # perhaps it is the only one
            return select_nodes(passing, 1)
        known = self._lists[key]
        if known is None or not known.left:
            known = self._lists[key] = _List(ranked_list(passing, ROWS))
        known.left -= 1
        return self._next(known, passing.ask) or select_nodes(passing, 1)

    def _next(self, known: _List, ask: SlotAsk) -> NodeSelection | None:
        """The first row that has room."""
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
        """All that nodes are asked for but amounts that are little; None where that is not all of it."""
        ask, template, table = passing.ask, passing.ask.template, self._table
        # On nodes that take one tenant at a time, what another was given meanwhile counts.
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
        """The least that any node has of each resource, of those that have some."""
        if self._least is None:
            columns = ((name, self._table.capacity[number]) for name, number in self._table.resources.items())
            self._least = {name: int(has[has > 0].min()) for name, has in columns if np.any(has > 0)}
        return self._least
