"""A transport inside one process, for tests.

It guarantees what a network guarantees, and no more, so that no code relies on being in one process:

- A caller that stops waiting does not stop the peer: the request is executed, and the reply is lost.
- A handler that raises is `NoAnswer` to the caller, which cannot tell how far it came. The error is in the peer's log.
- A peer that closes leaves its callers with `NoAnswer`, after what it had already sent on a stream; from then on it is
  `Unreachable`.
- A stream buffers a limited number of messages: a slow reader slows its sender and loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.host.ports import transport
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger

#: Messages of a stream that are buffered before the sender waits.
BUFFER = 64


class LocalNetwork:
    """The peers of one process, by name. As in a network with names, `https://NAME` leads to NAME."""

    def __init__(self, clock: Clock, buffer: int = BUFFER) -> None:
        self.clock = clock
        self.buffer = buffer
        self.peers: dict[str, LocalTransport] = {}

    def join(self, name: str) -> LocalTransport:
        """Add a peer with this name, which must be free."""
        assert name not in self.peers, f"there is a peer {name} already"
        peer = self.peers[name] = LocalTransport(self, name)
        return peer


class LocalTransport:
    """One peer's transport. Requests to it run in tasks of its own, which end with it."""

    def __init__(self, network: LocalNetwork, name: str) -> None:
        self.name = name
        self._network = network
        self._serving_with: transport.RequestHandler = transport.serve_nothing
        #: Its outgoing requests, and the tasks of incoming ones.
        self._open: dict[_Pipe, None] = {}
        self._serving: dict[asyncio.Task[None], None] = {}
        self._logger = Logger("transport", peer=name)

    async def call(self, peer: str, request: transport.Request, timeout_ms: int) -> transport.Reply:
        pipe, task = self._call(peer, request, 1)
        try:
            message = await self._receive(pipe, peer, request, timeout_ms)
        finally:
            del self._open[pipe]
        if isinstance(message, transport.Reply):
            return message
        task.cancel()
        raise transport.StreamDeclined(transport.Reply(406, body=b"this is answered with a stream"))

    async def stream(self, peer: str, request: transport.Request, idle_ms: int) -> AsyncIterator[bytes]:
        pipe, task = self._call(peer, request, self._network.buffer)
        try:
            while (message := await self._receive(pipe, peer, request, idle_ms)) is not None:
                if isinstance(message, transport.Reply):
                    raise transport.StreamDeclined(message)
                yield message
        finally:
            del self._open[pipe]
            task.cancel()

    def serve(self, serving: transport.RequestHandler) -> None:
        self._serving_with = serving

    def _call(self, peer: str, request: transport.Request, buffer: int) -> tuple[_Pipe, asyncio.Task[None]]:
        asked = self._reach(peer)
        pipe = _Pipe(buffer)
        self._open[pipe] = None
        return pipe, asked._begin(asked._answer(request, pipe), request, pipe)

    async def close(self) -> None:
        """Leave the network. Incoming requests are cancelled and have ended when this returns."""
        if self._network.peers.get(self.name) is self:
            del self._network.peers[self.name]
        for pipe in self._open:
            pipe.end(transport.NoAnswer(f"{self.name} left the network before it was answered"))
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(list(self._serving))

    def _reach(self, peer: str) -> LocalTransport:
        if self._network.peers.get(self.name) is not self:
            raise transport.Unreachable(f"{self.name} has left the network")
        found = self._network.peers.get(peer.removeprefix("https://"))
        if found is None:
            raise transport.Unreachable(f"there is no {peer} in the network")
        return found

    def _begin(self, work: Coroutine[Any, Any, None], request: transport.Request, pipe: _Pipe) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            del self._serving[task]
            # Only a cancelled task has not set its end; it may not even have started.
            pipe.end(transport.NoAnswer(f"{self.name} left the network while it served {request.verb} {request.path}"))

        task = asyncio.create_task(work, name=f"{self.name} serves {request.verb} {request.path}")
        self._serving[task] = None
        task.add_done_callback(ended)
        return task

    async def _answer(self, request: transport.Request, pipe: _Pipe) -> None:
        try:
            found = await self._serving_with(replace(request, proven=""))
            if isinstance(found, transport.StreamReply):
                await _pour(found.messages, pipe)
            else:
                await pipe.put(found)
        except Exception as error:
            self._logger.error("serving-raised", error, verb=request.verb, path=request.path)
            pipe.end(transport.NoAnswer(f"{self.name} failed to answer {request.verb} {request.path}"))

    async def _receive(
        self, pipe: _Pipe, peer: str, request: transport.Request, limit_ms: int
    ) -> bytes | transport.Reply | None:
        try:
            return await within(self._network.clock, limit_ms, pipe.get())
        except DeadlinePassed:
            what = f"{request.verb} {request.path}"
            raise transport.NoAnswer(f"nothing came from {peer} to {what} within {limit_ms} ms") from None


async def _pour(messages: AsyncIterator[bytes], pipe: _Pipe) -> None:
    try:
        async for message in messages:
            await pipe.put(message)
    finally:
        if isinstance(messages, AsyncGenerator):
            await messages.aclose()
    pipe.end(None)


class _Pipe:
    """Messages in order, at most `size` of them, and then an end. Only the first of several ends counts."""

    def __init__(self, size: int) -> None:
        self._messages: asyncio.Queue[bytes | transport.Reply | transport.NoAnswer | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(size)

    async def put(self, message: bytes | transport.Reply) -> None:
        """Send a message, once there is space for it."""
        await self._room.acquire()
        self._messages.put_nowait(message)

    def end(self, broken: transport.NoAnswer | None) -> None:
        """End the messages: normally, or with an error."""
        self._messages.put_nowait(broken)

    async def get(self) -> bytes | transport.Reply | None:
        """Return the next message, or None after the last. Raise the error that ended the messages."""
        message = await self._messages.get()
        self._room.release()
        if isinstance(message, transport.NoAnswer):
            raise message
        return message
