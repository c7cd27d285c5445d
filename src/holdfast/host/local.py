"""A transport inside one process: for tests, and for a server that plays all the parts itself.

It promises what a network promises, and no more, so that nothing comes to rely on being in one process:

- An asker that gives up does not stop the peer: what was asked for is done all the same, and nobody hears of it.
- A handler that raises is `NoAnswer` to the asker, who cannot know how far it came. The error is in the peer's journal.
- A peer that closes leaves its askers with `NoAnswer`, after what it had sent on a stream before; from then on it is
  `Unreachable`.
- A stream holds a bounded number of messages: a slow reader slows its sender down, and loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

from holdfast.host.clock import Clock
from holdfast.host.journal import Journal
from holdfast.host.transport import Answering, NoAnswer, NoSuchMethod, Streaming, Unreachable
from holdfast.host.waiting import DeadlinePassed, within

#: How many messages of a stream wait for their reader before the sender does.
BUFFER = 64


class LocalNetwork:
    """The peers of one process, by name."""

    def __init__(self, clock: Clock, buffer: int = BUFFER) -> None:
        self.clock = clock
        self.buffer = buffer
        self.peers: dict[str, LocalTransport] = {}

    def join(self, name: str) -> LocalTransport:
        """A new peer of this name, which nobody has now."""
        assert name not in self.peers, f"there is a peer {name} already"
        peer = self.peers[name] = LocalTransport(self, name)
        return peer


class LocalTransport:
    """One peer's way to the others. What it does for them runs in tasks of its own, and ends with it."""

    def __init__(self, network: LocalNetwork, name: str) -> None:
        self.name = name
        self._network = network
        self._answers: dict[str, Answering] = {}
        self._streams: dict[str, Streaming] = {}
        #: What it waits for from others, and what it does for them.
        self._open: dict[_Pipe, None] = {}
        self._serving: dict[asyncio.Task[None], None] = {}
        self._journal = Journal("transport", peer=name)

    async def ask(self, peer: str, method: str, body: bytes, timeout_ms: int) -> bytes:
        asked = self._reach(peer)
        if method not in asked._answers:
            raise NoSuchMethod(f"{peer} answers no {method}")
        pipe = _Pipe(1)
        self._open[pipe] = None
        asked._begin(asked._reply(method, self.name, body, pipe), method, pipe)
        try:
            message = await self._receive(pipe, peer, method, timeout_ms)
        finally:
            del self._open[pipe]
        assert message is not None, f"{peer} ended without an answer to {method}"
        return message

    async def stream(self, peer: str, method: str, body: bytes, idle_ms: int) -> AsyncIterator[bytes]:
        asked = self._reach(peer)
        if method not in asked._streams:
            raise NoSuchMethod(f"{peer} streams no {method}")
        pipe = _Pipe(self._network.buffer)
        self._open[pipe] = None
        task = asked._begin(asked._pour(method, self.name, body, pipe), method, pipe)
        try:
            while (message := await self._receive(pipe, peer, method, idle_ms)) is not None:
                yield message
        finally:
            del self._open[pipe]
            task.cancel()

    def serve(self, method: str, *, answer: Answering | None = None, stream: Streaming | None = None) -> None:
        assert (answer is None) != (stream is None), f"{method} is answered either once or with a stream"
        assert method not in self._answers.keys() | self._streams.keys(), f"{method} is served already"
        if answer is not None:
            self._answers[method] = answer
        if stream is not None:
            self._streams[method] = stream

    async def close(self) -> None:
        """Leave the network. What it was doing for others is cancelled, and has ended when this returns."""
        if self._network.peers.get(self.name) is self:
            del self._network.peers[self.name]
        for pipe in self._open:
            pipe.end(NoAnswer(f"{self.name} left the network before it was answered"))
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(list(self._serving))

    def _reach(self, peer: str) -> LocalTransport:
        if self._network.peers.get(self.name) is not self:
            raise Unreachable(f"{self.name} has left the network")
        found = self._network.peers.get(peer)
        if found is None:
            raise Unreachable(f"there is no {peer} in the network")
        return found

    def _begin(self, work: Coroutine[Any, Any, None], method: str, pipe: _Pipe) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            del self._serving[task]
            # Only a cancelled task has not said how it ended; it may not even have begun.
            pipe.end(NoAnswer(f"{self.name} left the network while it served {method}"))

        task = asyncio.create_task(work, name=f"{self.name} serves {method}")
        self._serving[task] = None
        task.add_done_callback(ended)
        return task

    async def _reply(self, method: str, asker: str, body: bytes, pipe: _Pipe) -> None:
        try:
            await pipe.put(await self._answers[method](asker, body))
        except Exception as error:
            self._journal.error("answer-raised", error, method=method, asker=asker)
            pipe.end(NoAnswer(f"{self.name} failed to answer {method}"))

    async def _pour(self, method: str, asker: str, body: bytes, pipe: _Pipe) -> None:
        try:
            source = self._streams[method](asker, body)
            try:
                async for message in source:
                    await pipe.put(message)
            finally:
                if isinstance(source, AsyncGenerator):
                    await source.aclose()
            pipe.end(None)
        except Exception as error:
            self._journal.error("stream-raised", error, method=method, asker=asker)
            pipe.end(NoAnswer(f"{self.name} failed to stream {method}"))

    async def _receive(self, pipe: _Pipe, peer: str, method: str, limit_ms: int) -> bytes | None:
        try:
            return await within(self._network.clock, limit_ms, pipe.get())
        except DeadlinePassed:
            raise NoAnswer(f"nothing came from {peer} to {method} within {limit_ms} ms") from None


class _Pipe:
    """Messages in order, so many at most, and then an end. Of several ends the first counts."""

    def __init__(self, size: int) -> None:
        self._messages: asyncio.Queue[bytes | NoAnswer | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(size)

    async def put(self, message: bytes) -> None:
        """Send a message, once there is room for it."""
        await self._room.acquire()
        self._messages.put_nowait(message)

    def end(self, broken: NoAnswer | None) -> None:
        """Send no more: that was all, or it broke."""
        self._messages.put_nowait(broken)

    async def get(self) -> bytes | None:
        """The next message, or None after the last. Raises how it broke, if it did."""
        message = await self._messages.get()
        self._room.release()
        if isinstance(message, NoAnswer):
            raise message
        return message
