"""Proposals in flight: deducted from the view until it shows their outcome.

    proposed ──▶ deducted from table, accounts, domains ──┬▶ answered, and the view is as new ──▶ released
                                                          ├▶ refused, and the view shows why ──▶ released
                                                          └▶ the view shows that a slot no longer waits ──▶ released

A slot that no longer waits was placed, by this proposal or another, or is no longer wanted: the view shows all of that,
perhaps long before the answer. An unanswered proposal counts while it can commit: until its deadline in ledger time.
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
    """The placements of one pass by request, with expected payers."""

    ask: SlotAsk
    placed: tuple[tuple[QueuedRequest, tuple[SlotPlacement, ...]], ...]
    paid: tuple[tuple[str, int], ...] = ()
    #: Domains under which its slots are counted. Stored, since nodes may leave or move.
    stands: tuple[DomainKey, ...] = ()
    #: By account that is owed protected capacity: slots that use it.
    owed: tuple[tuple[str, int], ...] = ()
    #: Its slots that are already charged, with their account.
    charged: Mapping[tuple[QueuedRequest, int], str] = {}

    def placements(self) -> Iterator[SlotPlacement]:
        """All placements of its requests."""
        return (placement for _, placements in self.placed for placement in placements)

    def split(self, shown: Mapping[QueuedRequest, set[int]]) -> tuple[ProposedPart | None, ProposedPart | None]:
        """Split into slots that no longer wait by the view, and the rest. Either is None if empty."""
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
        """Return a part with the wanted ones of `slots`, which are all of this part."""
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
    """All proposals without an outcome."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.parts: dict[int, tuple[ProposedPart, ...]] = {}
        #: By account: proposed charges.
        self.spent: dict[str, Resources] = {}
        #: By tenant: proposed charges.
        self.taken: dict[str, Resources] = {}
        #: Proposed firm work, charged already or not.
        self.firm: Resources = ZERO
        #: By account that is owed protected capacity: proposed use of it.
        self.owed: dict[str, Resources] = {}
        self.members: dict[DomainKey, int] = {}
        #: Assignments with slots released since `take_returned`.
        self._returned: dict[Revision, None] = {}
        #: By number: the revision whose view shows the outcome; and the deadline for commits.
        self._landed: dict[int, Revision] = {}
        #: By number of a refused proposal: the revision whose view shows why.
        self._overtaken: dict[int, Revision] = {}
        self._valid: dict[int, Instant] = {}

    def take(self, number: int, parts: Iterable[ProposedPart], valid_until: Instant) -> None:
        """Record a proposal whose parts were counted before."""
        self.parts[number] = tuple(parts)
        self._valid[number] = valid_until

    def count(self, part: ProposedPart) -> None:
        """Deduct a part."""
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
        """Release parts. Nodes are updated together: there may be hundreds of parts of one slot."""
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
        """Add or subtract what is not per node: payers, firm work, domains."""
        need, change_ = part.ask.template.need, add if change > 0 else subtract
        if part.ask.firm:
            standing = change_(self.firm, times(need, slots))
            self.firm = ZERO if standing == ZERO else standing
        paid = sum([count for _, count in part.paid])
        taken = ((part.ask.tenant, paid),) if paid else ()
        for kept, counts in ((self.spent, part.paid), (self.taken, taken), (self.owed, part.owed)):
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
        """Release devices one by one, as they were picked."""
        table, rows = self._table, dict[int | None, None]()
        for part in parts:
            milli, firm = part.ask.template.gpu_milli, part.ask.firm
            for placement in part.placements():
                table.devices.give(placement.node, DeviceClaim(placement.devices, milli, placement.ports, firm))
                rows[table.rows.get(placement.node)] = None
        table.devices.recount([row for row in rows if row is not None], table.nodes, table.usages)

    def land(self, number: int, at: Revision) -> None:
        """A proposal was accepted: views from this revision on show it."""
        if number in self.parts:
            self._landed[number] = at

    def overtake(self, number: int, at: Revision) -> None:
        """A proposal was refused for what views from this revision on show. Until then, at most until its deadline, it
        stays deducted: others have taken its slots, or its nodes."""
        if number in self.parts:
            self._overtaken[number] = at

    def go_back(self) -> None:
        """Release overtaken proposals after ledger time went back: their deadlines are far away."""
        for number in list(self._overtaken):
            self._give(number)

    def refuse(self, number: int) -> tuple[ProposedPart, ...]:
        """Release a proposal that was refused or can no longer commit."""
        return self._give(number)

    def waiting(self) -> int:
        """Return the number of slots in flight that still wait by the view."""
        parts = [part for parts in self.parts.values() for part in parts]
        return sum([entry.under_way for entry in dict.fromkeys(entry for part in parts for entry, _ in part.placed)])

    @property
    def has_returned(self) -> bool:
        """Whether slots were released since `take_returned`."""
        return bool(self._returned)

    def take_returned(self) -> list[Revision]:
        """Return the assignments with slots released since the last call."""
        returned, self._returned = self._returned, {}
        return list(returned)

    def settle(self, view: Revision, at: Instant) -> list[ProposedPart]:
        """Release proposals that the view shows, and those that can no longer commit."""
        answered = (*self._landed.items(), *self._overtaken.items())
        seen = [number for number, revision in answered if revision <= view]
        late = [number for number, valid in self._valid.items() if number not in self._landed and valid < at]
        return [part for number in dict.fromkeys((*seen, *late)) for part in self._give(number)]

    def show(self, entries: Iterable[QueuedRequest]) -> list[Revision]:
        """Release slots that no longer wait. Return their nodes, to be refreshed from the same state."""
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
        self._overtaken.pop(number, None)
        self._valid.pop(number, None)
        self._let_go(parts)
        return parts

    def _let_go(self, parts: tuple[ProposedPart, ...]) -> None:
        self._count_no_more(parts)
        for part in parts:
            for entry, placements in part.placed:
                entry.give_back([placement.ordinal for placement in placements])
                self._returned[entry.key[0]] = None
