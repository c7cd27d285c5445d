"""What this scheduler has proposed and not heard of: deducted from its view until that shows what became of it.

    proposed ──▶ taken from the table, the payers, the domains ──┬▶ answered, and the view is as new ──▶ given back
                                                                 └▶ the view shows that a slot waits no more ──▶ it is

A slot that waits no more was placed by this proposal or by another, or is not wanted: the view has all there is of it,
and the answer may come much later. A proposal that nobody answered can still land until its time has passed in the
ledger's own time; so long it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress

import numpy as np
from msgspec import Struct

from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.devices import DeviceClaim
from holdfast.core.scheduling.nodes.domain_rules import DomainKey
from holdfast.core.scheduling.nodes.table import NodeTable, RowClaim
from holdfast.core.scheduling.queue.request_groups import QueuedRequest

_NOTHING: set[int] = set()


class ProposedPart(Struct, frozen=True):
    """The placements of one pass: by request, and who is expected to pay for how many."""

    ask: SlotAsk
    placed: tuple[tuple[QueuedRequest, tuple[SlotPlacement, ...]], ...]
    paid: tuple[tuple[str, int], ...] = ()
    #: Where its slots are counted over domains. Kept: their nodes may leave or move before it is answered.
    stands: tuple[DomainKey, ...] = ()
    #: By account that is owed protected room: how many of its slots take of that.
    owed: tuple[tuple[str, int], ...] = ()
    #: Its slots that are paid for already, and by whom.
    charged: Mapping[tuple[QueuedRequest, int], str] = {}

    def placements(self) -> Iterator[SlotPlacement]:
        """Of all its requests."""
        return (placement for _, placements in self.placed for placement in placements)

    def split(self, shown: Mapping[QueuedRequest, set[int]]) -> tuple[ProposedPart | None, ProposedPart | None]:
        """What the view shows to wait no more, by request, and the rest; None: nothing."""
        known = [(shown.get(entry, _NOTHING), placements) for entry, placements in self.placed]
        if not any(ordinals for ordinals, _ in known):
            return None, self
        mine = [(ordinals, [one.ordinal for one in placements]) for ordinals, placements in known]
        if all(ordinals.issuperset(named) for ordinals, named in mine):
            return self, None
        if all(ordinals.isdisjoint(named) for ordinals, named in mine):
            return None, self
        slots = [(entry, placement) for entry, placements in self.placed for placement in placements]
        gone = [placement.ordinal in shown.get(entry, _NOTHING) for entry, placement in slots]
        return self._only(slots, gone), self._only(slots, [not one for one in gone])

    def _only(self, slots: list[tuple[QueuedRequest, SlotPlacement]], wanted: list[bool]) -> ProposedPart:
        """Of these slots, which are all of them, the wanted ones, with what each of them takes."""
        payers = iter([account for account, count in self.paid for _ in range(count)])
        each = [self.charged.get((entry, placement.ordinal)) for entry, placement in slots]
        pays = [next(payers, "") if account is None else account for account in each]
        owing = {account for account, _ in self.owed}
        placed: dict[QueuedRequest, list[SlotPlacement]] = {}
        for entry, placement in compress(slots, wanted):
            placed.setdefault(entry, []).append(placement)
        width = len(self.stands) // len(slots)
        return ProposedPart(
            self.ask,
            tuple((entry, tuple(placements)) for entry, placements in placed.items()),
            _counted(account for account, known in compress(zip(pays, each, strict=True), wanted) if known is None),
            tuple(compress(self.stands, [one for one in wanted for _ in range(width)])),
            _counted(account for account in compress(pays, wanted) if account in owing),
            self.charged,
        )


def _counted(accounts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple((account, count) for account, count in Counter(accounts).items() if account)


class InFlight:
    """All proposals under way."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.parts: dict[int, tuple[ProposedPart, ...]] = {}
        #: By account: what was proposed on it.
        self.spent: dict[str, Resources] = {}
        #: What firm work was proposed, whether somebody has yet to pay for it or not.
        self.firm: Resources = ZERO
        #: By account that is owed protected room: what was proposed that takes of it.
        self.owed: dict[str, Resources] = {}
        self.members: dict[DomainKey, int] = {}
        #: Of which assignments something was given back since somebody asked.
        self._returned: dict[Revision, None] = {}
        #: By number: from which revision on a view shows what became of it, and until when it can land at all.
        self._landed: dict[int, Revision] = {}
        self._valid: dict[int, Instant] = {}

    def take(self, number: int, parts: Iterable[ProposedPart], valid_until: Instant) -> None:
        """A proposal is made of parts that were counted when they were chosen."""
        self.parts[number] = tuple(parts)
        self._valid[number] = valid_until

    def count(self, part: ProposedPart) -> None:
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

    def _count_no_more(self, parts: tuple[ProposedPart, ...]) -> None:
        """Give back what parts took: of rooms together, for there may be hundreds of parts of one slot each."""
        given: list[RowClaim] = []
        for part in parts:
            ask, nodes = part.ask, [placement.node for placement in part.placements()]
            for uid, count in Counter(nodes).items() if len(nodes) > 1 else [(nodes[0], 1)] if nodes else ():
                row = self._table.rows.get(uid)
                if row is not None:
                    given.append(RowClaim(row, times(ask.template.need, count), count, ask.firm, ask.tenant))
            self._count_sums(part, len(nodes), -1)
        self._table.give(given)
        equipped = [part for part in parts if part.ask.template.gpus or part.ask.template.ports]
        if equipped:
            self._give_devices(equipped)

    def _count_sums(self, part: ProposedPart, slots: int, change: int) -> None:
        """Count what is not of one node: who pays, what is firm, where slots stand in domains."""
        need, change_ = part.ask.template.need, add if change > 0 else subtract
        if part.ask.firm:
            standing = change_(self.firm, times(need, slots))
            self.firm = ZERO if standing == ZERO else standing
        for kept, counts in ((self.spent, part.paid), (self.owed, part.owed)):
            for account, count in counts:
                left = change_(kept.get(account, ZERO), times(need, count))
                kept[account] = left
                if left == ZERO:
                    del kept[account]
        for where in part.stands:
            standing_there = self.members.get(where, 0) + change
            self.members[where] = standing_there
            if not standing_there:
                del self.members[where]

    def _give_devices(self, parts: list[ProposedPart]) -> None:
        """They were taken one by one, as they were picked."""
        table, rows = self._table, dict[int | None, None]()
        for part in parts:
            milli, firm = part.ask.template.gpu_milli, part.ask.firm
            for placement in part.placements():
                table.devices.give(placement.node, DeviceClaim(placement.devices, milli, placement.ports, firm))
                rows[table.rows.get(placement.node)] = None
        table.devices.recount([row for row in rows if row is not None], table.nodes, table.usages)

    def land(self, number: int, at: Revision) -> None:
        """It was accepted: a view that has this revision shows it."""
        if number in self.parts:
            self._landed[number] = at

    def refuse(self, number: int) -> tuple[ProposedPart, ...]:
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

    def settle(self, view: Revision, at: Instant) -> list[ProposedPart]:
        """Let go of what a view shows by now, and of what can land no more."""
        seen = [number for number, revision in self._landed.items() if revision <= view]
        late = [number for number, valid in self._valid.items() if number not in self._landed and valid < at]
        return [part for number in (*seen, *late) for part in self._give(number)]

    def show(self, entries: Iterable[QueuedRequest]) -> list[Revision]:
        """Let go of slots of these requests that wait no more; on which nodes they were proposed: these are to be taken
        from the same state."""
        shown = {entry: entry.shown() for entry in entries if entry.has_shown}
        nodes: dict[Revision, None] = {}
        for number, parts in list(self.parts.items()) if shown else ():
            split = [part.split(shown) for part in parts]
            gone = tuple([part for part, _ in split if part is not None])
            if not gone:
                continue
            nodes.update({placement.node: None for part in gone for placement in part.placements()})
            left = tuple([part for _, part in split if part is not None])
            if left:
                self.parts[number] = left
                self._let_go(gone)
            else:
                self._give(number)
        return list(nodes)

    def _give(self, number: int) -> tuple[ProposedPart, ...]:
        parts = self.parts.pop(number, ())
        self._landed.pop(number, None)
        self._valid.pop(number, None)
        self._let_go(parts)
        return parts

    def _let_go(self, parts: tuple[ProposedPart, ...]) -> None:
        self._count_no_more(parts)
        for part in parts:
            for entry, placements in part.placed:
                entry.give_back([placement.ordinal for placement in placements])
                self._returned[entry.key[0]] = None
