"""A transport inside one process: for tests, and for a server that plays all the parts itself.

It promises what a network promises, and no more, so that nothing comes to rely on being in one process:

- An asker that gives up does not stop the peer: what was asked for is done all the same, and nobody hears of it.
- A handler that raises is `NoAnswer` to the asker, who cannot know how far it came. The error is in the peer's log.
- A peer that closes leaves its askers with `NoAnswer`, after what it had sent on a stream before; from then on it is
  `Unreachable`.
- A stream holds a bounded number of messages: a slow reader slows its sender down, and loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import (
    NoAnswer,
    Reply,
    Request,
    RequestHandler,
    StreamDeclined,
    StreamReply,
    Unreachable,
    serve_nothing,
)
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger

#: How many messages of a stream wait for their reader before the sender does.
BUFFER = 64


class LocalNetwork:
    """The peers of one process, by name. As in a network of names, `https://NAME` leads to NAME."""

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
        self._serving_with: RequestHandler = serve_nothing
        #: What it waits for from others, and what it does for them.
        self._open: dict[_Pipe, None] = {}
        self._serving: dict[asyncio.Task[None], None] = {}
        self._logger = Logger("transport", peer=name)

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        pipe, task = self._call(peer, request, 1)
        try:
            message = await self._receive(pipe, peer, request, timeout_ms)
        finally:
            del self._open[pipe]
        if isinstance(message, Reply):
            return message
        task.cancel()
        raise StreamDeclined(Reply(406, body=b"this is answered with a stream"))

    async def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        pipe, task = self._call(peer, request, self._network.buffer)
        try:
            while (message := await self._receive(pipe, peer, request, idle_ms)) is not None:
                if isinstance(message, Reply):
                    raise StreamDeclined(message)
                yield message
        finally:
            del self._open[pipe]
            task.cancel()

    def serve(self, serving: RequestHandler) -> None:
        self._serving_with = serving

    def _call(self, peer: str, request: Request, buffer: int) -> tuple[_Pipe, asyncio.Task[None]]:
        asked = self._reach(peer)
        pipe = _Pipe(buffer)
        self._open[pipe] = None
        return pipe, asked._begin(asked._answer(request, pipe), request, pipe)

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
        found = self._network.peers.get(peer.removeprefix("https://"))
        if found is None:
            raise Unreachable(f"there is no {peer} in the network")
        return found

    def _begin(self, work: Coroutine[Any, Any, None], request: Request, pipe: _Pipe) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            del self._serving[task]
            # Only a cancelled task has not said how it ended; it may not even have begun.
            pipe.end(NoAnswer(f"{self.name} left the network while it served {request.verb} {request.path}"))

        task = asyncio.create_task(work, name=f"{self.name} serves {request.verb} {request.path}")
        self._serving[task] = None
        task.add_done_callback(ended)
        return task

    async def _answer(self, request: Request, pipe: _Pipe) -> None:
        try:
            found = await self._serving_with(replace(request, proven=""))
            if isinstance(found, StreamReply):
                await _pour(found.messages, pipe)
            else:
                await pipe.put(found)
        except Exception as error:
            self._logger.error("serving-raised", error, verb=request.verb, path=request.path)
            pipe.end(NoAnswer(f"{self.name} failed to answer {request.verb} {request.path}"))

    async def _receive(self, pipe: _Pipe, peer: str, request: Request, limit_ms: int) -> bytes | Reply | None:
        try:
            return await within(self._network.clock, limit_ms, pipe.get())
        except DeadlinePassed:
            what = f"{request.verb} {request.path}"
            raise NoAnswer(f"nothing came from {peer} to {what} within {limit_ms} ms") from None


async def _pour(messages: AsyncIterator[bytes], pipe: _Pipe) -> None:
    try:
        async for message in messages:
            await pipe.put(message)
    finally:
        if isinstance(messages, AsyncGenerator):
            await messages.aclose()
    pipe.end(None)


class _Pipe:
    """Messages in order, so many at most, and then an end. Of several ends the first counts."""

    def __init__(self, size: int) -> None:
        self._messages: asyncio.Queue[bytes | Reply | NoAnswer | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(size)

    async def put(self, message: bytes | Reply) -> None:
        """Send a message, once there is room for it."""
        await self._room.acquire()
        self._messages.put_nowait(message)

    def end(self, broken: NoAnswer | None) -> None:
        """Send no more: that was all, or it broke."""
        self._messages.put_nowait(broken)

    async def get(self) -> bytes | Reply | None:
        """The next message, or None after the last. Raises how it broke, if it did."""
        message = await self._messages.get()
        self._room.release()
        if isinstance(message, NoAnswer):
            raise message
        return message
