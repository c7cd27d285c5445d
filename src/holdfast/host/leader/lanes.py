"""Queued commands of a leader, in lanes with guaranteed shares of each batch (RULES 11).

    proofs > reports > operators > reconcilers > proposals > reads

In a batch each lane first gets its share, in the order of importance; unused shares go to the others in the same order.
If a command exceeds its lane's share, the lane owes the excess and comes after the others until it is paid. So a flood
of proposals cannot delay the end of a session, and a flood of reports cannot stop placement.

When the queue is full, in number or bytes, the last command of the least important lane is rejected. Each lane has a
small reserve in the queue, without which its share of a batch would be worthless.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any

from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.errors import Overloaded

#: Percentage of a batch that is guaranteed to each lane.
SHARES = {
    CommandLane.PROOFS: 20,
    CommandLane.REPORTS: 30,
    CommandLane.OPERATORS: 10,
    CommandLane.RECONCILERS: 20,
    CommandLane.PROPOSALS: 20,
}
#: Largest number and size of queued commands, and the reserve of each lane, which fits two commands of the largest
#: size.
QUEUED_MAX, QUEUED_BYTES = 10_000, 64 << 20
RESERVED, RESERVED_BYTES = 100, 2 << 20

#: The smallest cost of a command, in bytes.
COST_MIN = 64


class QueuedCommand:
    """A command, its size, and the future of its answer."""

    __slots__ = ("answer", "envelope", "lane", "size_bytes")

    def __init__(
        self, envelope: Envelope[Any], lane: CommandLane, answer: asyncio.Future[Any], size_bytes: int = COST_MIN
    ) -> None:
        self.envelope = envelope
        self.lane = lane
        self.answer = answer
        self.size_bytes = size_bytes


class CommandLanes:
    """The queued commands of a leader."""

    def __init__(self, most: int = QUEUED_MAX, most_bytes: int = QUEUED_BYTES) -> None:
        self._lanes: dict[CommandLane, deque[QueuedCommand]] = {lane: deque() for lane in SHARES}
        self._most = most
        self._most_bytes = most_bytes
        self._waiting = 0
        self._bytes = dict.fromkeys(SHARES, 0)
        self._some = asyncio.Event()
        #: The bytes by which each lane has exceeded its share so far.
        self.owed = dict.fromkeys(SHARES, 0)

    def __len__(self) -> int:
        return self._waiting

    def depth(self, lane: CommandLane) -> int:
        """Return the number of queued commands in a lane."""
        return len(self._lanes[lane])

    def size_bytes(self) -> int:
        return sum(self._bytes.values())

    def add(self, waiting: QueuedCommand) -> None:
        """Queue a command; reject the last one of the least important lane if the queue is full."""
        while (passed := self._passed(waiting)) is not None:
            lowest = max((lane for lane in SHARES if self._has_more_than_its_own(lane)), default=waiting.lane)
            if lowest <= waiting.lane:
                raise Overloaded(passed)
            turned_away = self._lanes[lowest].pop()
            self._count(turned_away, -1)
            reject(turned_away, Overloaded("commands of a more important lane took its place"))
        self._lanes[waiting.lane].append(waiting)
        self._count(waiting, 1)
        self._some.set()

    def _passed(self, waiting: QueuedCommand) -> str | None:
        """Return the limit that one more command would exceed; None: it fits."""
        lane, size = waiting.lane, waiting.size_bytes
        if self._waiting >= self._most and len(self._lanes[lane]) >= RESERVED:
            return f"{self._waiting} commands are queued, the limit is {self._most}"
        total = self.size_bytes()
        if total + size > self._most_bytes and self._bytes[lane] + size > RESERVED_BYTES:
            return f"{total} bytes of commands are queued, {size} more exceed the limit of {self._most_bytes}"
        return None

    def _has_more_than_its_own(self, lane: CommandLane) -> bool:
        return len(self._lanes[lane]) > RESERVED or self._bytes[lane] > RESERVED_BYTES

    def _count(self, waiting: QueuedCommand, sign: int) -> None:
        self._waiting += sign
        self._bytes[waiting.lane] += sign * waiting.size_bytes

    async def wait(self) -> None:
        """Return when a command is queued."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()

    def queue(self, lane: CommandLane) -> deque[QueuedCommand]:
        """Return the queue of a lane, the oldest first."""
        return self._lanes[lane]

    def pop(self, queue: deque[QueuedCommand]) -> QueuedCommand:
        """Remove the first command of a queue."""
        first = queue.popleft()
        self._count(first, -1)
        return first

    def put_back(self, waiting: list[QueuedCommand]) -> None:
        """Return commands to the front of their queues, in order."""
        for one in reversed(waiting):
            self._lanes[one.lane].appendleft(one)
            self._count(one, 1)

    def drain(self) -> list[QueuedCommand]:
        everything = [one for queue in self._lanes.values() for one in queue]
        for queue in self._lanes.values():
            queue.clear()
        self._waiting, self._bytes = 0, dict.fromkeys(SHARES, 0)
        return everything


def take_batch(lanes: CommandLanes, size_bytes: int) -> Generator[QueuedCommand | None, int, None]:
    """Yield the commands of one batch, then None. The caller sends after each how many bytes of the batch it took.

    Each lane first has its share, then all share the rest. A refused command has a cost too: its decision takes time.
    """
    left, owed = size_bytes, lanes.owed
    for lane, share in SHARES.items():
        queue, most = lanes.queue(lane), size_bytes * share // 100 - owed[lane]
        try:
            while queue and most > 0 and left > 0:
                took = yield lanes.pop(queue)
                cost = max(took, COST_MIN)
                most -= cost
                left -= cost
        finally:
            owed[lane] = max(-most, 0)
    for lane in SHARES:
        queue = lanes.queue(lane)
        while queue and left > 0:
            took = yield lanes.pop(queue)
            left -= max(took, COST_MIN)
    yield None
    yield None


def reject(waiting: QueuedCommand, error: Exception) -> None:
    """Reject a command, unless its caller has stopped waiting."""
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
