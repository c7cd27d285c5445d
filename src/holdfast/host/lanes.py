"""What waits for a leader, in lanes with guaranteed shares of each batch (RULES 11).

    proofs > reports > operators > reconcilers > proposals > reads

Within a batch each lane first gets its share, in the order of importance; what lanes leave over goes to the others in
the same order. A command may be larger than a share, or than a whole batch: its lane then owes that to the others, and
comes after them until it is paid. So a flood of proposals cannot hold up the end of a session, and a flood of reports
cannot stop placement.

When too much waits, what is least important and came last is turned away. Each lane has a little room that no other can
take: a share of each batch is worth nothing to whoever is not let in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.registry import Lane
from holdfast.host.errors import Overloaded

#: Parts of a batch, in percent, that each lane has for itself.
SHARES = {Lane.PROOFS: 20, Lane.REPORTS: 30, Lane.OPERATORS: 10, Lane.RECONCILERS: 20, Lane.PROPOSALS: 20}
#: How many commands may wait in all, and how many of each lane may wait whatever the others do.
WAITING_MAX = 10_000
RESERVED = 100


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
        #: By how much each lane has passed its share of the batches so far, in bytes.
        self.owed = dict.fromkeys(SHARES, 0)

    def __len__(self) -> int:
        return self._waiting

    def depth(self, lane: Lane) -> int:
        """How many wait in a lane."""
        return len(self._lanes[lane])

    def add(self, waiting: Waiting) -> None:
        """Let a command wait. When too many do, the last of the least important lane is turned away."""
        if self._waiting >= self._most and len(self._lanes[waiting.lane]) >= RESERVED:
            lowest = max((lane for lane, queue in self._lanes.items() if len(queue) > RESERVED), default=waiting.lane)
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

    def queue(self, lane: Lane) -> deque[Waiting]:
        """What waits in a lane, the longest first."""
        return self._lanes[lane]

    def pop(self, queue: deque[Waiting]) -> Waiting:
        """Take the first out of one of the queues."""
        self._waiting -= 1
        return queue.popleft()

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


def turn(lanes: Lanes, size_bytes: int) -> Generator[Waiting | None, int, None]:
    """One batch's worth of commands, then None. Send after each how many bytes of the batch it took.

    First each lane has its share, then what is left over goes to all in the same order. A refused command costs a
    little too: deciding that takes time.
    """
    left, owed = size_bytes, lanes.owed
    for lane, share in SHARES.items():
        queue, most = lanes.queue(lane), size_bytes * share // 100 - owed[lane]
        try:
            while queue and most > 0 and left > 0:
                took = yield lanes.pop(queue)
                cost = took if took > COST_LEAST else COST_LEAST
                most -= cost
                left -= cost
        finally:
            owed[lane] = -most if most < 0 else 0
    for lane in SHARES:
        queue = lanes.queue(lane)
        while queue and left > 0:
            took = yield lanes.pop(queue)
            left -= took if took > COST_LEAST else COST_LEAST
    yield None
    yield None


#: What a command counts for at least, in bytes.
COST_LEAST = 64


def refuse(waiting: Waiting, error: Exception) -> None:
    """Tell whoever still waits."""
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
