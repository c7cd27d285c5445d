"""What waits for a leader, in lanes with guaranteed shares of each batch (RULES 11).

    proofs > reports > operators > reconcilers > proposals > reads

Within a batch each lane first gets its share, in the order of importance; what lanes leave over goes to the others in
the same order. A command may be larger than a share, or than a whole batch: its lane then owes that to the others, and
comes after them until it is paid. So a flood of proposals cannot hold up the end of a session, and a flood of reports
cannot stop placement.

When too much waits, in number or in bytes, what is least important and came last is turned away. Each lane has a little
room that no other can take: a share of each batch is worth nothing to whoever is not let in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any

from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.errors import Overloaded

#: Parts of a batch, in percent, that each lane has for itself.
SHARES = {
    CommandLane.PROOFS: 20,
    CommandLane.REPORTS: 30,
    CommandLane.OPERATORS: 10,
    CommandLane.RECONCILERS: 20,
    CommandLane.PROPOSALS: 20,
}
#: How many commands may wait in all, and how many of each lane may wait whatever the others do; and how large they may
#: be together. A command is a mebibyte at most: of the largest two may wait in each lane.
QUEUED_MAX, QUEUED_BYTES = 10_000, 64 << 20
RESERVED, RESERVED_BYTES = 100, 2 << 20


#: What a command counts for at least, in bytes.
COST_MIN = 64


class QueuedCommand:
    """A command, how large it is, and whoever waits for its answer."""

    __slots__ = ("answer", "envelope", "lane", "size_bytes")

    def __init__(
        self, envelope: Envelope[Any], lane: CommandLane, answer: asyncio.Future[Any], size_bytes: int = COST_MIN
    ) -> None:
        self.envelope = envelope
        self.lane = lane
        self.answer = answer
        self.size_bytes = size_bytes


class CommandLanes:
    """The commands that wait for a leader."""

    def __init__(self, most: int = QUEUED_MAX, most_bytes: int = QUEUED_BYTES) -> None:
        self._lanes: dict[CommandLane, deque[QueuedCommand]] = {lane: deque() for lane in SHARES}
        self._most = most
        self._most_bytes = most_bytes
        self._waiting = 0
        self._bytes = dict.fromkeys(SHARES, 0)
        self._some = asyncio.Event()
        #: By how much each lane has passed its share of the batches so far, in bytes.
        self.owed = dict.fromkeys(SHARES, 0)

    def __len__(self) -> int:
        return self._waiting

    def depth(self, lane: CommandLane) -> int:
        """How many wait in a lane."""
        return len(self._lanes[lane])

    def size_bytes(self) -> int:
        """How large all commands are that wait."""
        return sum(self._bytes.values())

    def add(self, waiting: QueuedCommand) -> None:
        """Let a command wait. When too much does, the last of the least important lane is turned away."""
        while (passed := self._passed(waiting)) is not None:
            lowest = max((lane for lane in SHARES if self._has_more_than_its_own(lane)), default=waiting.lane)
            if lowest <= waiting.lane:
                raise Overloaded(passed)
            turned_away = self._lanes[lowest].pop()
            self._count(turned_away, -1)
            reject(turned_away, Overloaded("more important commands took its place"))
        self._lanes[waiting.lane].append(waiting)
        self._count(waiting, 1)
        self._some.set()

    def _passed(self, waiting: QueuedCommand) -> str | None:
        """The limit that one more command would pass, in words; None: there is room for it."""
        lane, size = waiting.lane, waiting.size_bytes
        if self._waiting >= self._most and len(self._lanes[lane]) >= RESERVED:
            return f"{self._waiting} commands wait already, and no more than {self._most} may"
        total = self.size_bytes()
        if total + size > self._most_bytes and self._bytes[lane] + size > RESERVED_BYTES:
            return f"commands of {total} bytes wait already: with {size} more they pass {self._most_bytes}"
        return None

    def _has_more_than_its_own(self, lane: CommandLane) -> bool:
        return len(self._lanes[lane]) > RESERVED or self._bytes[lane] > RESERVED_BYTES

    def _count(self, waiting: QueuedCommand, sign: int) -> None:
        self._waiting += sign
        self._bytes[waiting.lane] += sign * waiting.size_bytes

    async def wait(self) -> None:
        """Return when something waits."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()

    def queue(self, lane: CommandLane) -> deque[QueuedCommand]:
        """What waits in a lane, the longest first."""
        return self._lanes[lane]

    def pop(self, queue: deque[QueuedCommand]) -> QueuedCommand:
        """Take the first out of one of the queues."""
        first = queue.popleft()
        self._count(first, -1)
        return first

    def put_back(self, waiting: list[QueuedCommand]) -> None:
        """Put commands back to the front, in their order."""
        for one in reversed(waiting):
            self._lanes[one.lane].appendleft(one)
            self._count(one, 1)

    def drain(self) -> list[QueuedCommand]:
        """Everything that waits, and nothing waits any more."""
        everything = [one for queue in self._lanes.values() for one in queue]
        for queue in self._lanes.values():
            queue.clear()
        self._waiting, self._bytes = 0, dict.fromkeys(SHARES, 0)
        return everything


def take_batch(lanes: CommandLanes, size_bytes: int) -> Generator[QueuedCommand | None, int, None]:
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
    """Tell whoever still waits."""
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
