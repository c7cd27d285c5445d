"""A network of simulated machines: the transport port in virtual time, with loss, delay, partitions and crashes.

A process is an *incarnation* of a name: `join` starts one, `die` ends it. A caller gets the errors of a real network,
and `Unreachable` always means that no peer acted:

- No incarnation of the name when the request arrives: the connection is refused, `Unreachable`.
- The incarnation it was sent to died before its reply: the connection is reset, `NoAnswer`.
- Request or reply lost, late, or stuck behind a partition or a pause: `NoAnswer`, at the deadline and not before.
- A stream stays in order. A lost item breaks it with `NoAnswer` when the next one arrives, or when the stream is idle.

A dead incarnation receives nothing more: its pending calls stay pending, also past their deadlines, until its tasks are
cancelled. Messages under way to it never reach the next incarnation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import copy_context
from random import Random

from msgspec.structs import replace

from holdfast.host.ports import transport
from holdfast.host.runtime.telemetry import Logger
from holdfast.sim.world.calls import InFlightCall, Message
from holdfast.sim.world.links import CALM, LinkLayer, NetworkConditions
from holdfast.sim.world.virtual_loop import VirtualLoop

#: How many messages of a stream wait for their reader before the sender waits.
BUFFER = 64


class SimNetwork(LinkLayer):
    """The links, and the current incarnation of each peer."""

    def __init__(
        self, loop: VirtualLoop, chance: Random, weather: NetworkConditions = CALM, buffer: int = BUFFER
    ) -> None:
        super().__init__(loop, chance, weather)
        self.buffer = buffer
        self.peers: dict[str, SimTransport] = {}
        #: Handlers that raised; their callers only get `NoAnswer`.
        self.failures: list[str] = []
        self._lives: dict[str, int] = {}

    def join(self, name: str) -> SimTransport:
        """Start the next incarnation of this name. The earlier one must have left."""
        assert name not in self.peers, f"{name} is alive already"
        life = self._lives[name] = self._lives.get(name, 0) + 1
        self.note(f"join {name} life {life}")
        peer = self.peers[name] = SimTransport(self, name, life)
        return peer

    def _landed(self, call: InFlightCall, aimed_at: SimTransport | None) -> None:
        """Serve, refuse or reset a copy of a request that reached its machine. The process may have ended meanwhile."""
        found = aimed_at or self.peers.get(call.peer)
        if found is None:
            call.refuse(transport.Unreachable(f"there is no {call.peer} in the network"))
        elif found.has_left:
            call.reset()
        elif not found.is_listening:
            call.refuse(transport.Unreachable(f"{call.peer} does not listen yet"))
        elif not call.is_hung_up:
            found.accept(call)


class SimTransport:
    """One incarnation of one peer. It serves requests in its own tasks, which end with it."""

    def __init__(self, network: SimNetwork, name: str, life: int) -> None:
        self.network = network
        self.name = name
        self.incarnation = life
        #: The principal of the certificate that it shows to its peers, as in mutual TLS; empty: none.
        self.certificate = ""
        self.is_dead = False
        self.has_left = False
        #: Whether a listener is open at its address: a server opens it at its start.
        self.is_listening = True
        self._serving_with: transport.RequestHandler = transport.serve_nothing
        #: The context of the serving process: handlers run in it, not in the caller's.
        self._context = copy_context()
        #: Its own calls to peers, and the requests that it serves.
        self._calls: dict[InFlightCall, None] = {}
        self._serving: dict[asyncio.Task[None], InFlightCall] = {}
        self._logger = Logger("transport", peer=name, life=life)

    async def call(self, peer: str, request: transport.Request, timeout_ms: int) -> transport.Reply:
        call = await self._begin_call(peer, request, is_stream=False)
        try:
            message = await call.next(timeout_ms)
        finally:
            self._end_call(call)
        assert isinstance(message, transport.Reply), f"{peer} ended without an answer to {call.what}"
        return message

    async def stream(self, peer: str, request: transport.Request, idle_ms: int) -> AsyncIterator[bytes]:
        call = await self._begin_call(peer, request, is_stream=True)
        try:
            while (message := await call.next(idle_ms)) is not None:
                if isinstance(message, transport.Reply):
                    raise transport.StreamDeclined(message)
                yield message
        finally:
            self._end_call(call)

    def serve(self, serving: transport.RequestHandler) -> None:
        self._serving_with = serving
        self._context = copy_context()

    async def start(self) -> None:
        """Open the listener."""
        self.is_listening = True

    def last_error(self) -> str:
        """Return no error: a simulated certificate is always valid."""
        return ""

    def die(self) -> None:
        """Kill the process: it sends and receives nothing more, and its callers are reset.

        For a power loss isolate the machine first: then its callers receive no reset.
        """
        if not self.has_left:
            self.network.tally["deaths"] += 1
            self.is_dead = True
            self._leave()

    async def close(self) -> None:
        """Leave the network in order: its calls end with `NoAnswer`; served requests have ended on return."""
        if not self.has_left:
            for call in self._calls:
                call.fail(transport.NoAnswer(f"{self.name} left the network before it was answered"))
            self._leave()
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(list(self._serving))

    def _leave(self) -> None:
        self.network.note(f"leave {self.name} life {self.incarnation}")
        self.has_left = True
        del self.network.peers[self.name]
        self.network.forget(self.name)
        for call in self._calls:
            call.stop()
            call.hang_up()
        for task, call in self._serving.items():
            task.cancel()
            call.reset()

    async def _begin_call(self, peer: str, request: transport.Request, *, is_stream: bool) -> InFlightCall:
        if self.is_dead:
            await self.network.loop.create_future()
        if self.has_left:
            raise transport.Unreachable(f"{self.name} has left the network")
        peer = peer.removeprefix("https://")  # operators write the address of a region as a URL
        call = InFlightCall(self.network, self, peer, request, self.network.buffer if is_stream else None)
        self._calls[call] = None
        aimed_at = self.network.peers.get(peer)
        call.knock(lambda: self.network._landed(call, aimed_at))
        return call

    def _end_call(self, call: InFlightCall) -> None:
        del self._calls[call]
        call.stop()
        call.hang_up()

    def accept(self, call: InFlightCall) -> None:
        """Serve a request in a new task."""
        task = asyncio.create_task(
            self._see_through(call), name=f"{self.name} serves {call.what}", context=self._context.copy()
        )
        call.accept(task)
        self._serving[task] = call

    async def _see_through(self, call: InFlightCall) -> None:
        try:
            await self._answer(call)
        except Exception as error:
            self._logger.error("serving-raised", error, verb=call.request.verb, path=call.request.path)
            self.network.failures.append(f"{self.name} failed to serve {call.what}: {type(error).__name__}: {error}")
            self._send(call, transport.NoAnswer(f"{self.name} failed to serve {call.what}"))
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._serving.pop(task, None)

    async def _answer(self, call: InFlightCall) -> None:
        found = await self._serving_with(replace(call.request, proven=call.asker.certificate))
        if isinstance(found, transport.Reply):
            self._send(call, found)
        elif call.is_stream:
            await self._pour(call, found)
            self._send(call, None)
        else:
            await _close(found.messages)
            self._send(call, transport.StreamDeclined(transport.Reply(406, body=b"this is answered with a stream")))

    async def _pour(self, call: InFlightCall, flow: transport.StreamReply) -> None:
        try:
            async for message in flow.messages:
                await call.room.acquire()
                self._send(call, message)
        finally:
            await _close(flow.messages)

    def _send(self, call: InFlightCall, message: Message) -> None:
        if not self.has_left:
            call.send_back(message)


async def _close(messages: AsyncIterator[bytes]) -> None:
    if isinstance(messages, AsyncGenerator):
        await messages.aclose()
