"""One question, or one stream, between two lives of a simulated network: what each end knows of it.

The asker's end is an inbox with a deadline; the peer's end is a task and a number for each message it sends back. They
share this object and nothing else, so a message can reach only the life that asked, never the next one of its name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.host.ports.transport import NoAnswer, Reply, Request, TransportError
from holdfast.sim.world.links import LinkLayer, OrderedChannel, Packet

#: What comes back: an answer, an item of a stream, its end, or why there is no more.
Message = Reply | bytes | TransportError | None

#: How long a reader that left a stream waits before it says so again, if that was lost.
HANG_UP_AGAIN_MS = 1_000


class CallOwner(Protocol):
    """The life that waits."""

    name: str
    is_dead: bool
    certificate: str


class InFlightCall:
    """From the asker's end to the peer's, and back."""

    def __init__(self, links: LinkLayer, asker: CallOwner, peer: str, request: Request, room: int | None) -> None:
        self.asker = asker
        self.peer = peer
        self.request = request
        #: For people, and for the trace.
        self.what = f"{request.verb} {request.path}"
        #: Streams only: how many more messages the reader has room for.
        self.room = asyncio.Semaphore(room or 0)
        self.is_stream = room is not None
        #: What the peer does about it, as far as the last copy goes.
        self.task: asyncio.Task[None] | None = None
        self.is_hung_up = False
        self._is_hanging_up = False
        self._links = links
        self._lane = OrderedChannel() if self.is_stream else None
        self._sent = 0
        self._copies = 0
        self._was_accepted = False
        self._inbox: deque[Message] = deque()
        self._taken = 0
        self._is_over = False
        self._gave_up = False
        self._woken: asyncio.Future[None] | None = None

    # The asker's end.

    def knock(self, landed: Callable[[], None]) -> None:
        """Send it off: questions sometimes twice. `landed` is called for each copy that arrives."""

        def lost() -> None:
            self._copies -= 1

        def arrived() -> None:
            self._copies -= 1
            landed()

        links, asker = self._links, self.asker.name
        self._copies = 1
        if not self.is_stream and asker != self.peer and links.chance.random() < links.weather.duplication:
            self._copies = 2
            links.tally["duplicated"] += 1
        verb = "stream" if self.is_stream else "ask"
        for _ in range(self._copies):
            links.send(Packet(asker, self.peer, f"{verb} {self.what}", arrived, lost))

    async def next(self, limit_ms: int) -> Reply | bytes | None:
        """The next message, or None after the last. Raises why there is none. Never returns to a dead life."""
        if not self._inbox and not self.asker.is_dead:
            self._woken = self._links.loop.create_future()
            alarm = self._links.loop.call_later(limit_ms / 1000, self._ring, limit_ms)
            try:
                await self._woken
            finally:
                alarm.cancel()
        if self.asker.is_dead:
            await self._links.loop.create_future()
        message = self._inbox.popleft()
        self.room.release()
        if isinstance(message, TransportError):
            raise message
        return message

    def fail(self, why: TransportError) -> None:
        """There will be no more than what came so far."""
        if not self._is_over:
            self._is_over = True
            self._inbox.append(why)
            self._wake()

    def stop(self) -> None:
        """The asker takes nothing more."""
        self._gave_up |= not self._is_over
        self._is_over = True

    def hang_up(self) -> None:
        """Tell the peer that nobody reads its stream, again and again until it knows. Questions go on unheard."""
        if self.is_stream and not self._is_hanging_up:
            self._is_hanging_up = True
            self._say_so()

    def _say_so(self) -> None:
        is_served_out = self.task.done() if self.task is not None else not self._copies
        if is_served_out:
            return

        def again() -> None:
            self._links.loop.call_later(HANG_UP_AGAIN_MS / 1000, self._say_so)

        def arrived() -> None:
            self.is_hung_up = True
            if self.task is not None:
                self.task.cancel()

        self._links.send(Packet(self.asker.name, self.peer, f"hang up {self.what}", arrived, again))

    # The peer's end.

    def accept(self, task: asyncio.Task[None]) -> None:
        """A copy of it has found somebody who acts on it."""
        self._was_accepted = True
        self.task = task

    def refuse(self, why: TransportError) -> None:
        """Nobody acted on this copy. The asker is told so only if it is true of all copies."""
        if not self._was_accepted and not self._copies:
            self._links.tally["refused"] += 1
            self.send_back(why)

    def reset(self) -> None:
        """The life that was to answer is over."""
        self._links.tally["reset"] += 1
        self.send_back(NoAnswer(f"{self.peer} was gone before it answered {self.what}"))

    def send_back(self, message: Message) -> None:
        """Send the next message of a stream, or the answer of one copy."""
        number = self._sent if self.is_stream else 0
        self._sent += 1
        kind = "item" if isinstance(message, bytes) else "answer" if isinstance(message, Reply) else "end"
        what = f"{kind} {self.what} {number}"
        packet = Packet(self.peer, self.asker.name, what, lambda: self._take(number, message), lane=self._lane)
        packet.is_answer = isinstance(message, Reply)
        self._links.send(packet)

    # What arrives at the asker's end.

    def _take(self, number: int, message: Message) -> None:
        if self._is_over:
            self._links.tally["late"] += self._gave_up and isinstance(message, (Reply, bytes))
            return
        if number != self._taken:
            self._links.tally["broken"] += 1
            message = NoAnswer(f"message {self._taken} of {self.what} from {self.peer} was lost")
        self._taken += 1
        self._is_over = not isinstance(message, bytes)
        self._inbox.append(message)
        self._wake()

    def _ring(self, limit_ms: int) -> None:
        self._links.when_awake(self.asker.name, lambda: self._time_out(limit_ms))

    def _time_out(self, limit_ms: int) -> None:
        if not self._inbox and not self._is_over:
            self._gave_up = True
            self.fail(NoAnswer(f"nothing came from {self.peer} to {self.what} within {limit_ms} ms"))

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
