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
from holdfast.core.scheduling.table import NodeTable


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

    def count(self, part: Part, change: int = 1) -> None:
        """Count what a part takes, or no more."""
        need, ask = part.ask.template.need, part.ask
        change_ = add if change > 0 else subtract
        nodes = [placement.node for placement in part.placements()]
        if len(nodes) == 1:
            row = self._table.rows.get(nodes[0])
            if row is not None:
                self._table.take_one(row, change, need, firm=ask.firm, tenant=ask.tenant)
        else:
            self._count_many(nodes, part, change)
        if ask.firm:
            standing = change_(self.firm, times(need, len(nodes)))
            self.firm = NOTHING if standing == NOTHING else standing
        for kept, counts in ((self.spent, part.paid), (self.owed, part.owed)):
            for account, count in counts:
                left = change_(kept.get(account, NOTHING), times(need, count))
                kept[account] = left
                if left == NOTHING:
                    del kept[account]
        if change < 0 and (ask.template.gpus or ask.template.ports):
            self._give_devices(part)  # they were taken one by one, as they were picked
        for where in part.stands:
            standing_there = self.members.get(where, 0) + change
            self.members[where] = standing_there
            if not standing_there:
                del self.members[where]

    def _count_many(self, nodes: list[Revision], part: Part, change: int) -> None:
        rows = [(self._table.rows.get(uid), count) for uid, count in Counter(nodes).items()]
        known = [(row, count) for row, count in rows if row is not None]
        if known:
            at, counts = np.array(known, np.int64).T
            ask = part.ask
            self._table.take(at, counts * change, ask.template.need, firm=ask.firm, tenant=ask.tenant)

    def _give_devices(self, part: Part) -> None:
        milli, firm, table = part.ask.template.gpu_milli, part.ask.firm, self._table
        for placement in part.placements():
            table.devices.give(placement.node, Taken(placement.devices, milli, placement.ports, firm))
        rows = dict.fromkeys(table.rows.get(placement.node) for placement in part.placements())
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
        for part in parts:
            self.count(part, -1)
            for entry, placements in part.placed:
                entry.give_back([placement.ordinal for placement in placements])
                self._returned[entry.key[0]] = None
        return parts
