"""What this scheduler has proposed and not heard of: deducted from its view until it is answered.

    proposed ──▶ taken from the table, the payers, the domains ──▶ answered, and the view shows it ──▶ given back

A proposal that nobody answered can still land until its time has passed in the ledger's own time; so long it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from holdfast.core.model.resources import NOTHING, Resources, add, subtract, times
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.region.commands import Placement
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.devices import Taken
from holdfast.core.scheduling.domains import Where
from holdfast.core.scheduling.groups import Entry
from holdfast.core.scheduling.table import Given, NodeTable


class Part(Struct, frozen=True):
    """The placements of one pass: by request, and who is expected to pay for how many."""

    ask: Ask
    placed: tuple[tuple[Entry, tuple[Placement, ...]], ...]
    paid: tuple[tuple[str, int], ...] = ()
    #: Where its slots are counted over domains. Kept: their nodes may leave or move before it is answered.
    stands: tuple[Where, ...] = ()
    #: By account that is owed protected room: how many of its slots take of that.
    owed: tuple[tuple[str, int], ...] = ()

    def placements(self) -> Iterator[Placement]:
        """Of all its requests."""
        return (placement for _, placements in self.placed for placement in placements)


class Flight:
    """All proposals under way."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.parts: dict[int, tuple[Part, ...]] = {}
        #: By account: what was proposed on it.
        self.spent: dict[str, Resources] = {}
        #: What firm work was proposed, whether somebody has yet to pay for it or not.
        self.firm: Resources = NOTHING
        #: By account that is owed protected room: what was proposed that takes of it.
        self.owed: dict[str, Resources] = {}
        self.members: dict[Where, int] = {}
        #: Of which assignments something was given back since somebody asked.
        self._returned: dict[Revision, None] = {}
        #: By number: from which revision on a view shows what became of it, and until when it can land at all.
        self._landed: dict[int, Revision] = {}
        self._valid: dict[int, Instant] = {}

    def take(self, number: int, parts: Iterable[Part], valid_until: Instant) -> None:
        """A proposal is made of parts that were counted when they were chosen."""
        self.parts[number] = tuple(parts)
        self._valid[number] = valid_until

    def count(self, part: Part) -> None:
        """Count what a part takes."""
        ask, nodes = part.ask, [placement.node for placement in part.placements()]
        if len(nodes) == 1:
            row = self._table.rows.get(nodes[0])
            if row is not None:
                self._table.take_one(row, ask.template.need, firm=ask.firm, tenant=ask.tenant)
        else:
            rows = [(self._table.rows.get(uid), count) for uid, count in Counter(nodes).items()]
            known = [(row, count) for row, count in rows if row is not None]
            if known:
                at, counts = np.array(known, np.int64).T
                self._table.take(at, counts, ask.template.need, firm=ask.firm, tenant=ask.tenant)
        self._count_sums(part, len(nodes), 1)

    def _count_no_more(self, parts: tuple[Part, ...]) -> None:
        """Give back what parts took: of rooms together, for there may be hundreds of parts of one slot each."""
        given: list[Given] = []
        for part in parts:
            ask, nodes = part.ask, [placement.node for placement in part.placements()]
            for uid, count in Counter(nodes).items() if len(nodes) > 1 else [(nodes[0], 1)] if nodes else ():
                row = self._table.rows.get(uid)
                if row is not None:
                    given.append(Given(row, times(ask.template.need, count), count, ask.firm, ask.tenant))
            self._count_sums(part, len(nodes), -1)
        self._table.give(given)
        equipped = [part for part in parts if part.ask.template.gpus or part.ask.template.ports]
        if equipped:
            self._give_devices(equipped)

    def _count_sums(self, part: Part, slots: int, change: int) -> None:
        """Count what is not of one node: who pays, what is firm, where slots stand in domains."""
        need, change_ = part.ask.template.need, add if change > 0 else subtract
        if part.ask.firm:
            standing = change_(self.firm, times(need, slots))
            self.firm = NOTHING if standing == NOTHING else standing
        for kept, counts in ((self.spent, part.paid), (self.owed, part.owed)):
            for account, count in counts:
                left = change_(kept.get(account, NOTHING), times(need, count))
                kept[account] = left
                if left == NOTHING:
                    del kept[account]
        for where in part.stands:
            standing_there = self.members.get(where, 0) + change
            self.members[where] = standing_there
            if not standing_there:
                del self.members[where]

    def _give_devices(self, parts: list[Part]) -> None:
        """They were taken one by one, as they were picked."""
        table, rows = self._table, dict[int | None, None]()
        for part in parts:
            milli, firm = part.ask.template.gpu_milli, part.ask.firm
            for placement in part.placements():
                table.devices.give(placement.node, Taken(placement.devices, milli, placement.ports, firm))
                rows[table.rows.get(placement.node)] = None
        table.devices.recount([row for row in rows if row is not None], table.nodes, table.rooms)

    def land(self, number: int, at: Revision) -> None:
        """It was accepted: a view that has this revision shows it."""
        if number in self.parts:
            self._landed[number] = at

    def refuse(self, number: int) -> tuple[Part, ...]:
        """It was refused, or can land no more: nothing of it counts."""
        return self._give(number)

    @property
    def has_returned(self) -> bool:
        """Whether something was given back since somebody asked."""
        return bool(self._returned)

    def take_returned(self) -> list[Revision]:
        """Of which assignments something was given back since this was asked last."""
        returned, self._returned = self._returned, {}
        return list(returned)

    def settle(self, view: Revision, at: Instant) -> list[Part]:
        """Let go of what a view shows by now, and of what can land no more."""
        seen = [number for number, revision in self._landed.items() if revision <= view]
        late = [number for number, valid in self._valid.items() if number not in self._landed and valid < at]
        return [part for number in (*seen, *late) for part in self._give(number)]

    def _give(self, number: int) -> tuple[Part, ...]:
        parts = self.parts.pop(number, ())
        self._landed.pop(number, None)
        self._valid.pop(number, None)
        self._count_no_more(parts)
        for part in parts:
            for entry, placements in part.placed:
                entry.give_back([placement.ordinal for placement in placements])
                self._returned[entry.key[0]] = None
        return parts
