"""What waits for a leader, in lanes with guaranteed shares of each batch (RULES 11).

    proofs > reports > operators > reconcilers > proposals > reads

Within a batch each lane first gets its share, in the order of importance; what lanes leave over goes to the others in
the same order. So a flood of proposals cannot hold up the end of a session, and a flood of reports cannot stop
placement. When too much waits, what is least important and came last is turned away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.registry import Lane
from holdfast.host.errors import Overloaded

#: Parts of a batch, in percent, that each lane has for itself.
SHARES = {Lane.PROOFS: 20, Lane.REPORTS: 30, Lane.OPERATORS: 10, Lane.RECONCILERS: 20, Lane.PROPOSALS: 20}
#: How many commands may wait in all.
WAITING_MAX = 10_000


class Waiting:
    """A command and whoever waits for its answer."""

    __slots__ = ("answer", "envelope", "lane")

    def __init__(self, envelope: Envelope[Any], lane: Lane, answer: asyncio.Future[Any]) -> None:
        self.envelope = envelope
        self.lane = lane
        self.answer = answer


class Lanes:
    """The commands that wait for a leader."""

    def __init__(self, most: int = WAITING_MAX) -> None:
        self._lanes: dict[Lane, deque[Waiting]] = {lane: deque() for lane in SHARES}
        self._most = most
        self._waiting = 0
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return self._waiting

    def depth(self, lane: Lane) -> int:
        """How many wait in a lane."""
        return len(self._lanes[lane])

    def add(self, waiting: Waiting) -> None:
        """Let a command wait. When too many do, the last of the least important lane is turned away."""
        if self._waiting >= self._most:
            lowest = max(lane for lane, queue in self._lanes.items() if queue)
            if lowest <= waiting.lane:
                raise Overloaded(f"{self._waiting} commands wait already")
            turned_away = self._lanes[lowest].pop()
            self._waiting -= 1
            refuse(turned_away, Overloaded("more important commands took its place"))
        self._lanes[waiting.lane].append(waiting)
        self._waiting += 1
        self._some.set()

    async def wait(self) -> None:
        """Return when something waits."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()

    def put_back(self, waiting: list[Waiting]) -> None:
        """Put commands back to the front, in their order."""
        for one in reversed(waiting):
            self._lanes[one.lane].appendleft(one)
        self._waiting += len(waiting)

    def drain(self) -> list[Waiting]:
        """Everything that waits, and nothing waits any more."""
        everything = [one for queue in self._lanes.values() for one in queue]
        for queue in self._lanes.values():
            queue.clear()
        self._waiting = 0
        return everything


class Turn:
    """One batch's worth of commands. Say after each what it took, so that shares can be kept."""

    def __init__(self, lanes: Lanes, size_bytes: int) -> None:
        self._lanes = lanes
        self._left = size_bytes
        self._own = {lane: size_bytes * share // 100 for lane, share in SHARES.items()}
        self._order = iter([*SHARES, *SHARES])
        self._round = 0
        self._lane = next(self._order)

    def next(self) -> Waiting | None:
        """The next command of this batch, or None when the batch is full or nothing waits."""
        while self._left > 0:
            queue = self._lanes._lanes[self._lane]
            if queue and (self._round >= len(SHARES) or self._own[self._lane] > 0):
                self._lanes._waiting -= 1
                return queue.popleft()
            lane = next(self._order, None)
            if lane is None:
                return None
            self._round += 1
            self._lane = lane
        return None

    def took(self, lane: Lane, size_bytes: int) -> None:
        """A command of this lane took so many bytes of the batch; a refused one costs a little too."""
        cost = max(size_bytes, REFUSAL_COST)
        self._own[lane] -= cost
        self._left -= cost


#: What a command counts for at least, in bytes: deciding a refusal takes time too.
REFUSAL_COST = 64


def refuse(waiting: Waiting, error: Exception) -> None:
    """Tell whoever still waits."""
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
