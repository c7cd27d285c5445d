"""Several schedulers of one region: which slots and nodes each of them takes first.

    live schedulers ──▶ index of count ──▶ own slots: proposed at once
                                      └──▶ others' slots: left to them, and helped with once nothing has moved for long

Two schedulers with equal views would propose the same slots on the same nodes, and the ledger would refuse one of them.
So every open slot has one scheduler that takes it first, by a number that all of them compute alike. It is a preference
and no right: wrong or old lists of schedulers cost refusals, and the ledger decides in any case. A scheduler that is
alone owns everything.

Priorities hold over all parts: while another one's slot of a higher priority can be placed, nothing lower is. Since
others may hang, and new slots of theirs may open all the time, lower ones go on after some time.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from holdfast.core.model.values.bitsets import BLOCK, Bitset, minus, shared, union
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.scheduling.nodes.table import Numbers, Truths

#: Consecutive ordinals with one owner, so that proposals have few, large groups. Smaller workloads have one owner.
RUN = 64
#: A slot of another scheduler is taken when nothing has moved for this long, by its next neighbour first: each further
#: one waits as long again.
HELP_MS = 2_000
_EMBEDDED = "controller/"
_NONE: Bitset = {}
_ODD, _MASK, _SHIFT = 0x9E3779B97F4A7C15, (1 << 64) - 1, 33


class SchedulerPeers(Struct, frozen=True):
    """A scheduler's place among the live schedulers of its region, and how many others are embedded where it is."""

    name: str = ""
    index: int = 0
    count: int = 1
    here: int = 0

    def owner(self, uid: Revision) -> int:
        """Return the index of the scheduler that takes this object first."""
        return ((uid * _ODD & _MASK) >> _SHIFT) % self.count

    def own_nodes(self, uids: Numbers) -> Truths:
        """Return which of these nodes are its own."""
        mixed = uids.astype(np.uint64) * np.uint64(_ODD)
        owners: Truths = (mixed >> np.uint64(_SHIFT)) % np.uint64(self.count) == np.uint64(self.index)
        return owners

    def part(self, uid: Revision, open_: Bitset, after: int = 0) -> Bitset:
        """Return the ordinals of an assignment that belong to the scheduler `after` places before this one."""
        wanted = (self.index - after - self.owner(uid)) % self.count
        found = {block: bits & self._stripes(wanted, block) for block, bits in open_.items()}
        return {block: bits for block, bits in found.items() if bits}

    def _stripes(self, wanted: int, block: int) -> int:
        """Return the runs of a block that belong to one scheduler."""
        return _stripes(self.count, (wanted - block * (BLOCK // RUN)) % self.count)


ALONE = SchedulerPeers()


def peers_of(name: str, live: Iterable[str]) -> SchedulerPeers:
    """Return the place of a scheduler among the live ones, itself included."""
    names = sorted({name, *live})
    if len(names) == 1:
        return ALONE
    embedded = [one for one in names if one.startswith(_EMBEDDED)]
    here = len(embedded) - 1 if name in embedded else 0
    return SchedulerPeers(name, names.index(name), len(names), here)


@lru_cache(maxsize=1_024)
def _stripes(count: int, first: int) -> int:
    bits = 0
    for run in range(first, BLOCK // RUN, count):
        bits |= ((1 << RUN) - 1) << run * RUN
    return bits


class PeerShare:
    """The part of the queue that is a scheduler's own, and since when it leaves the rest to others.

    It remembers requests in the queue only: `forget` drops one that has left.
    """

    def __init__(self) -> None:
        self.peers = ALONE
        self._now: Instant = 0
        #: The most urgent level that waits for others' slots, since when without a break, and when last; None: none.
        self._held: tuple[int, Instant, Instant] | None = None
        #: By request and distance of the owner: its open slots, and since when they are these.
        self._left: dict[tuple[Revision, str], dict[int, tuple[Instant, Bitset]]] = {}
        #: By request with one owner: its row, and since when it is this one.
        self._rows: dict[tuple[Revision, str], tuple[Instant, Any]] = {}
        #: Groups with more open slots than before, since `take_grown`.
        self._grown: dict[Any, None] = {}

    @property
    def is_alone(self) -> bool:
        """Whether no other scheduler is live."""
        return self.peers.count == 1

    def begin(self, peers: SchedulerPeers, now: Instant) -> bool:
        """Use these peers from now on. Return whether they have changed."""
        is_new, back = peers != self.peers, now < self._now
        self.peers, self._now = peers, now
        if is_new or back:
            self._left, self._rows, self._held = {}, {}, None
        return is_new

    def holds(self, urgency: int) -> bool:
        """Return whether a group waits for others' slots of a higher priority, which can be placed now.

        One cycle goes on after a time without a break in which all others could have helped.
        """
        hold_ms = HELP_MS * (self.peers.count + 1)
        now, since, before = self._now, self._now, self._held
        if before is not None and now - before[2] <= HELP_MS and (now == before[2] or before[2] - before[1] < hold_ms):
            since, urgency = before[1], min(urgency, before[0])
        self._held = urgency, since, now
        return now - since < hold_ms

    def passes(self, urgency: int) -> None:
        """Note that a group does not wait for others."""
        if self._held is not None and urgency >= self._held[0]:
            self._held = None

    def forget(self, key: tuple[Revision, str]) -> None:
        """A request has left the queue: if it returns, its slots are new ones."""
        self._left.pop(key, None)
        self._rows.pop(key, None)

    def grew(self, group: Any) -> None:
        """Note that a group has more open slots, so that some may be its own."""
        if not self.is_alone:
            self._grown[group] = None

    def take_grown(self) -> list[Any]:
        """Return the groups with more open slots since the last call."""
        grown, self._grown = self._grown, {}
        return list(grown)

    def leaves(self, key: tuple[Revision, str], row: Any) -> bool:
        """Return whether a request with one owner is left to another scheduler: its row has changed lately."""
        after = (self.peers.index - self.peers.owner(key[0])) % self.peers.count
        if not after:
            return False
        since, before = self._rows.get(key, (self._now, row))
        if row is not before:
            since = self._now
        self._rows[key] = since, row
        return self._now - since < after * HELP_MS

    def mine(self, key: tuple[Revision, str], open_: Bitset, charged: Bitset = _NONE, *, whole: bool) -> Bitset:
        """Return the slots of a request to propose now: its own; with none, those of others that did not move.

        Charged ones of others that did not move are always among them: nobody may be able to pay for own ones. With
        `whole`, the request has one owner, and `leaves` was asked before.
        """
        uid = key[0]
        if whole:
            return open_
        own = self.peers.part(uid, open_)
        if not open_:
            self._left.pop(key, None)
        if not open_ or (own and key not in self._left and not minus(charged, own)):
            return own
        known, seen, stuck = self._left.get(key, {}), dict[int, tuple[Instant, Bitset]](), list[Bitset]()
        for after in range(1, self.peers.count):
            left = self.peers.part(uid, open_, after=after)
            if left:
                since, before = known.get(after, (self._now, left))
                seen[after] = (since, left) if left == before else (self._now, left)
                if self._now - seen[after][0] >= after * HELP_MS:
                    stuck.append(left)
        self._left[key] = seen
        return union((own, shared(union(stuck), charged))) if own else union(stuck)
