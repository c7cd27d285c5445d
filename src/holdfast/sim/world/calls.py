"""One request or stream between two incarnations of a simulated network: the state of each end.

The caller's end is an inbox with a deadline. The peer's end is a task and a number for each message it sends back. The
ends share only this object, so a message reaches the incarnation that sent the request, never a later one of its name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.host.ports.transport import NoAnswer, Reply, Request, TransportError
from holdfast.sim.world.links import LinkLayer, OrderedChannel, Packet

#: A message to the caller: a reply, a stream item, the end of a stream, or an error.
Message = Reply | bytes | TransportError | None

#: Retry interval of a hang-up message that was lost.
HANG_UP_AGAIN_MS = 1_000


class CallOwner(Protocol):
    """The incarnation that sent the request."""

    name: str
    is_dead: bool
    certificate: str


class InFlightCall:
    """One request from the caller's end to the peer's, and its replies."""

    def __init__(self, links: LinkLayer, asker: CallOwner, peer: str, request: Request, room: int | None) -> None:
        self.asker = asker
        self.peer = peer
        self.request = request
        #: Shown to developers and in the trace.
        self.what = f"{request.verb} {request.path}"
        #: Streams only: how many more messages the reader's buffer accepts.
        self.room = asyncio.Semaphore(room or 0)
        self.is_stream = room is not None
        #: The peer's task for the latest copy of the request.
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

    def knock(self, landed: Callable[[], None]) -> None:
        """Send the request, sometimes twice. `landed` is called for each copy that arrives."""

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
        """Return the next message, or None after the last. Raise the error that ended the call. Never return to a dead
        incarnation."""
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
        """End the call with this error after the messages that have arrived."""
        if not self._is_over:
            self._is_over = True
            self._inbox.append(why)
            self._wake()

    def stop(self) -> None:
        """Stop: the caller accepts no more messages."""
        self._gave_up |= not self._is_over
        self._is_over = True

    def hang_up(self) -> None:
        """Cancel the peer's stream, and retry until the message arrives. A request that is not a stream runs on."""
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

    def accept(self, task: asyncio.Task[None]) -> None:
        """A copy of the request has reached a process that serves it."""
        self._was_accepted = True
        self.task = task

    def refuse(self, why: TransportError) -> None:
        """A copy was not served. The caller receives the error only if no copy is served and none is under way."""
        if not self._was_accepted and not self._copies:
            self._links.tally["refused"] += 1
            self.send_back(why)

    def reset(self) -> None:
        """The serving incarnation has ended before its reply."""
        self._links.tally["reset"] += 1
        self.send_back(NoAnswer(f"{self.peer} was gone before it answered {self.what}"))

    def send_back(self, message: Message) -> None:
        """Send the next message of a stream, or the reply to one copy."""
        number = self._sent if self.is_stream else 0
        self._sent += 1
        kind = "item" if isinstance(message, bytes) else "answer" if isinstance(message, Reply) else "end"
        what = f"{kind} {self.what} {number}"
        packet = Packet(self.peer, self.asker.name, what, lambda: self._take(number, message), lane=self._lane)
        packet.is_answer = isinstance(message, Reply)
        self._links.send(packet)

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
