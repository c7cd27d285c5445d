"""Proposals in flight: deducted from the view until it shows their outcome.

    proposed ──▶ deducted from table, accounts, domains ──┬▶ answered, and the view is as new ──▶ released
                                                          ├▶ refused, and the view shows why ──▶ released
                                                          └▶ the view shows that a slot no longer waits ──▶ released

A slot that no longer waits was placed, by this proposal or another, or is no longer wanted: the view shows all of that,
perhaps long before the answer. An unanswered proposal counts while it can commit: until its deadline in ledger time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times, total
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.scheduling.nodes.claims import NodeClaim, RowClaim, device_claim
from holdfast.core.scheduling.nodes.domain_rules import DomainKey
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.proposed_parts import ProposedPart
from holdfast.core.scheduling.queue.request_groups import QueuedRequest

_Key = TypeVar("_Key")


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
        #: Victims and holds that are proposed, each once; and victims that serve, by assignment.
        self.victims: set[SlotKey] = set()
        self.holds: set[Revision] = set()
        self.stops: dict[Revision, int] = {}
        #: Victims that count for the limit of preemptions.
        self.preempted = 0
        #: By node: what proposed victims free beyond their successors, for all and for firm work.
        self.later: dict[Revision, tuple[Resources, Resources]] = {}
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
        """Deduct a part. Devices and ports were deducted as they were picked."""
        ask, nodes = part.ask, [placement.node for placement in part.placements()]
        if part.claims:
            self._take_over(part, 1)
        elif len(nodes) == 1:
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

    def uncount(self, part: ProposedPart) -> None:
        """Undo `count` except for rows, which their images restore."""
        self._count_sums(part, part.count, -1)

    def _take_over(self, part: ProposedPart, sign: int) -> None:
        for placement, claim in zip(part.placements(), part.claims, strict=True):
            row = self._table.rows.get(placement.node)
            if row is not None:
                self._table.take_over(row, claim, part.ask.tenant, sign)

    def _count_no_more(self, parts: tuple[ProposedPart, ...]) -> None:
        """Release parts. Nodes are updated together: there may be hundreds of parts of one slot."""
        given: list[RowClaim] = []
        for part in parts:
            ask, nodes = part.ask, [placement.node for placement in part.placements()]
            if part.claims:
                self._take_over(part, -1)
                self._count_sums(part, len(nodes), -1)
                continue
            for uid, count in Counter(nodes).items() if len(nodes) > 1 else [(nodes[0], 1)] if nodes else ():
                row = self._table.rows.get(uid)
                if row is not None:
                    given.append(RowClaim(row, times(ask.template.need, count), count, ask.firm, ask.tenant))
            self._count_sums(part, len(nodes), -1)
        self._table.give(given)
        equipped = [part for part in parts if part.ask.template.gpus or part.ask.template.ports or part.claims]
        if equipped:
            self._give_devices(equipped)

    def _count_sums(self, part: ProposedPart, slots: int, change: int) -> None:
        """Add or subtract what is not per node: payers, firm work, domains."""
        need, change_ = part.ask.template.need, add if change > 0 else subtract
        if part.ask.firm:
            firm = total([claim.firm for claim in part.claims]) if part.claims else times(need, slots)
            standing = change_(self.firm, firm)
            self.firm = ZERO if standing == ZERO else standing
        paid = sum([count for _, count in part.paid])
        charged = ((part.ask.tenant, paid),) if paid else ()
        for kept, counts in ((self.spent, part.paid), (self.taken, charged), (self.owed, part.owed)):
            for account, count in counts:
                _put(kept, account, change_(kept.get(account, ZERO), times(need, count)))
        for where in part.stands:
            _count_in(self.members, where, change)
        for placement, claim in zip(part.placements() if part.claims else (), part.claims, strict=True):
            self._count_takeover(placement.node, claim, change)

    def _count_takeover(self, node: Revision, claim: NodeClaim, change: int) -> None:
        """Count victims and hold of a placement. The charge of a hold is returned to its account."""
        taken, (account, held) = claim.takeover, claim.refund
        if change > 0:
            self.victims.update(taken.victims)
        else:
            self.victims.difference_update(taken.victims)
        self.preempted += change * taken.limited
        any_, firm = self.later.pop(node, (ZERO, ZERO))
        change_ = add if change > 0 else subtract
        left = change_(any_, claim.later[0]), change_(firm, claim.later[1])
        if left != (ZERO, ZERO):
            self.later[node] = left
        for assignment in claim.stops:
            _count_in(self.stops, assignment, change)
        if taken.hold:
            refund = subtract if change > 0 else add
            _put(self.spent, account, refund(self.spent.get(account, ZERO), held))
            (self.holds.add if change > 0 else self.holds.discard)(taken.hold)

    def _give_devices(self, parts: list[ProposedPart]) -> None:
        """Release devices one by one, as they were picked."""
        table, rows = self._table, dict[int | None, None]()
        for part in parts:
            milli, firm = part.ask.template.gpu_milli, part.ask.firm
            for place, placement in enumerate(part.placements()):
                own = device_claim(placement.devices, milli, placement.ports, firm=firm)
                table.devices.give(placement.node, part.claims[place].devices if part.claims else own)
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


def _put(kept: dict[str, Resources], account: str, amounts: Resources) -> None:
    """Put an amount, and no zero."""
    if amounts == ZERO:
        kept.pop(account, None)
    else:
        kept[account] = amounts


def _count_in(counts: dict[_Key, int], key: _Key, change: int) -> None:
    """Change a count, and keep no zero."""
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
