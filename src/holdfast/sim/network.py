"""A network of made-up machines: the transport port in virtual time, with weather, partitions and deaths.

A process is a *life* under a name: `join` begins one, `die` ends it, and `join` again begins the next. What an asker is
told is what a real network would tell it, and `Unreachable` stays a promise whatever the weather:

- No life under the name when the question arrives: the connection is refused, `Unreachable`.
- The life it was sent to died in between, or while it answered: the connection is reset, `NoAnswer`.
- Question or answer lost, late, or stuck behind a partition or a pause: `NoAnswer`, at the deadline and not before.
- A stream stays in order. An item that was lost breaks it with `NoAnswer` when the next one comes, or when it is idle.

A dead life learns nothing more: its pending calls stay pending, also past their deadlines, until whoever killed it
cancels its tasks. What is under way to it is never given to the next life of the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import Context, copy_context
from random import Random

from holdfast.host.journal import Journal
from holdfast.host.transport import Answering, NoAnswer, NoSuchMethod, Streaming, Unreachable
from holdfast.sim.calls import Call, Message
from holdfast.sim.links import CALM, Links, Weather
from holdfast.sim.loop import VirtualLoop

#: How many messages of a stream wait for their reader before the sender does.
BUFFER = 64


class SimNetwork(Links):
    """The links, and who lives on them now."""

    def __init__(self, loop: VirtualLoop, chance: Random, weather: Weather = CALM, buffer: int = BUFFER) -> None:
        super().__init__(loop, chance, weather)
        self.buffer = buffer
        self.peers: dict[str, SimTransport] = {}
        #: Handlers that raised: to whoever asked that is only `NoAnswer`.
        self.failures: list[str] = []
        self._lives: dict[str, int] = {}

    def join(self, name: str) -> SimTransport:
        """The next life of this name, which nobody has now."""
        assert name not in self.peers, f"{name} is alive already"
        life = self._lives[name] = self._lives.get(name, 0) + 1
        self.note(f"join {name} life {life}")
        peer = self.peers[name] = SimTransport(self, name, life)
        return peer

    def _landed(self, call: Call, aimed_at: SimTransport | None) -> None:
        """A copy of a question has come to the machine it was sent to, where its process may be gone by now."""
        found = aimed_at or self.peers.get(call.peer)
        if found is None:
            call.refuse(Unreachable(f"there is no {call.peer} in the network"))
        elif found.has_left:
            call.reset()
        elif not found.knows(call):
            call.refuse(NoSuchMethod(f"{call.peer} does not serve {call.method} in this way"))
        elif not call.is_hung_up:
            found.accept(call)


class SimTransport:
    """One life of one peer. What it does for others runs in tasks of its own, and ends with it."""

    def __init__(self, network: SimNetwork, name: str, life: int) -> None:
        self.network = network
        self.name = name
        self.life = life
        self.is_dead = False
        self.has_left = False
        self._answers: dict[str, Answering] = {}
        self._streams: dict[str, Streaming] = {}
        #: Where each method was offered: its tasks belong to the process that did, not to the one that asks.
        self._contexts: dict[str, Context] = {}
        #: What it waits for from others, and what it does for them.
        self._calls: dict[Call, None] = {}
        self._serving: dict[asyncio.Task[None], Call] = {}
        self._journal = Journal("transport", peer=name, life=life)

    async def ask(self, peer: str, method: str, body: bytes, timeout_ms: int) -> bytes:
        call = await self._begin_call(peer, method, body, is_stream=False)
        try:
            message = await call.next(timeout_ms)
        finally:
            self._end_call(call)
        assert message is not None, f"{peer} ended without an answer to {method}"
        return message

    async def stream(self, peer: str, method: str, body: bytes, idle_ms: int) -> AsyncIterator[bytes]:
        call = await self._begin_call(peer, method, body, is_stream=True)
        try:
            while (message := await call.next(idle_ms)) is not None:
                yield message
        finally:
            self._end_call(call)

    def serve(self, method: str, *, answer: Answering | None = None, stream: Streaming | None = None) -> None:
        assert (answer is None) != (stream is None), f"{method} is answered either once or with a stream"
        assert method not in self._answers.keys() | self._streams.keys(), f"{method} is served already"
        self._contexts[method] = copy_context()
        if answer is not None:
            self._answers[method] = answer
        if stream is not None:
            self._streams[method] = stream

    def die(self) -> None:
        """The process is gone, at once: it sends and hears nothing more, and those it served are reset.

        To let a whole machine lose its power, isolate it first: then nobody is told anything.
        """
        if not self.has_left:
            self.network.tally["deaths"] += 1
            self.is_dead = True
            self._leave()

    async def close(self) -> None:
        """Leave in good order: what it waits for is `NoAnswer`; what it did for others has ended when this returns."""
        if not self.has_left:
            for call in self._calls:
                call.fail(NoAnswer(f"{self.name} left the network before it was answered"))
            self._leave()
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(list(self._serving))

    def _leave(self) -> None:
        self.network.note(f"leave {self.name} life {self.life}")
        self.has_left = True
        del self.network.peers[self.name]
        self.network.forget(self.name)
        for call in self._calls:
            call.stop()
            call.hang_up()
        for task, call in self._serving.items():
            task.cancel()
            call.reset()

    async def _begin_call(self, peer: str, method: str, body: bytes, *, is_stream: bool) -> Call:
        if self.is_dead:
            await self.network.loop.create_future()
        if self.has_left:
            raise Unreachable(f"{self.name} has left the network")
        call = Call(self.network, self, peer, method, body, self.network.buffer if is_stream else None)
        self._calls[call] = None
        aimed_at = self.network.peers.get(peer)
        call.knock(lambda: self.network._landed(call, aimed_at))
        return call

    def _end_call(self, call: Call) -> None:
        del self._calls[call]
        call.stop()
        call.hang_up()

    def knows(self, call: Call) -> bool:
        """Whether it serves this, in the way it was asked for."""
        return call.method in (self._streams if call.is_stream else self._answers)

    def accept(self, call: Call) -> None:
        """Serve it, in a task of its own."""
        task = asyncio.create_task(
            self._see_through(call),
            name=f"{self.name} serves {call.method}",
            context=self._contexts[call.method].copy(),
        )
        call.accept(task)
        self._serving[task] = call

    async def _see_through(self, call: Call) -> None:
        try:
            await (self._send_stream(call) if call.is_stream else self._send_answer(call))
        except Exception as error:
            self._journal.error("handler-raised", error, method=call.method, asker=call.asker.name)
            self.network.failures.append(f"{self.name} failed to serve {call.method}: {type(error).__name__}: {error}")
            self._send(call, NoAnswer(f"{self.name} failed to serve {call.method}"))
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._serving.pop(task, None)

    async def _send_answer(self, call: Call) -> None:
        self._send(call, await self._answers[call.method](call.asker.name, call.body))

    async def _send_stream(self, call: Call) -> None:
        source = self._streams[call.method](call.asker.name, call.body)
        try:
            async for message in source:
                await call.room.acquire()
                self._send(call, message)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
        self._send(call, None)

    def _send(self, call: Call, message: Message) -> None:
        if not self.has_left:
            call.send_back(message)
