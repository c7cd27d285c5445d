"""One server's connection to a simulated store: the store port, with network conditions in between.

    call --request--> arrived --> done on the disk --answer--> returned
           |lost        |late: done then              |lost
           `------------`--- `WriteUnknown`, or `StoreError` where the port has no outcome

A connection belongs to one incarnation of a process and dies with it. A call on a dead connection waits forever: no
answer or error of the old incarnation reaches the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from msgspec import Struct

from holdfast.host.ports import store
from holdfast.sim.world.store_service import StorePath, StoreService

T = TypeVar("T")


class StoreCallFate(Struct, frozen=True):
    """The fate of one call, drawn before it begins."""

    request_lost: bool
    answer_lost: bool
    late: bool
    request_ms: int
    answer_ms: int
    late_ms: int
    unheard_ms: int
    #: Number of restarts of the service at the time of sending.
    boot: int


class StoreConnection:
    """The `Store` port for one incarnation of one host."""

    shared = True

    def __init__(self, service: StoreService, way: StorePath, chance: Random) -> None:
        self.name = service.disk.name
        self.is_dead = False
        self._service = service
        self._disk = service.disk
        self._way = way
        self._chance = chance
        self._never = asyncio.Event()

    def die(self) -> None:
        """End the connection with its process: no call is answered from now on."""
        if not self.is_dead:
            self.is_dead = True
            self._service.count("deaths")

    async def head(self) -> store.Head:
        return await self._ask(self._disk.head)

    async def append(self, after: store.Head, batch: store.StoredBatch) -> store.WriteOutcome:
        store.check_follows(after, batch)

        async def land() -> store.WriteOutcome:
            if self._is_refused():
                return store.WriteFull(f"{self.name} says that there is no room for batch {batch.seq}")
            return await self._disk.append(after, batch)

        return await self._write("append", land)

    async def touch(self, at: store.Head) -> store.WriteOutcome:
        return await self._write("touch", lambda: self._disk.touch(at))

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[store.StoredBatch]:
        return await self._ask(lambda: self._disk.read(first, size_bytes))

    async def wait(self, seen: store.Head, timeout_ms: int) -> store.Head:
        return await self._ask(lambda: self._disk.wait(seen, timeout_ms))

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        await self._change(self._with_room(f"chunk {name}", lambda: self._disk.put_chunk(seq, name, raw)))

    async def get_chunk(self, seq: int, name: str) -> bytes:
        return await self._ask(lambda: self._disk.get_chunk(seq, name))

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        await self._change(self._with_room(f"manifest {seq}", lambda: self._disk.put_manifest(seq, raw)))

    async def manifests(self) -> list[tuple[int, bytes]]:
        return await self._ask(self._disk.manifests)

    async def drop_snapshot(self, seq: int) -> None:
        await self._change(lambda: self._disk.drop_snapshot(seq))

    async def unfinished(self) -> list[int]:
        return await self._ask(self._disk.unfinished)

    async def trim(self, log_id: str, floor: int) -> store.WriteOutcome:
        return await self._write("trim", lambda: self._disk.trim(log_id, floor))

    async def usage(self) -> store.StoreUsage:
        return await self._ask(self._disk.usage)

    async def reclaim(self) -> None:
        await self._change(self._disk.reclaim)

    async def announce(self, name: str, raw: bytes) -> None:
        await self._change(lambda: self._disk.announce(name, raw))

    async def announced(self) -> list[tuple[str, bytes]]:
        return await self._ask(self._disk.announced)

    async def close(self) -> None:
        """Close the connection. Writes under way are applied or lost, as with a real one."""
        await self._for_the_living()

    async def _ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call that changes nothing. It ends with its caller."""
        fate = await self._begin()
        return await self._heard(self._there(fate, work), fate)

    async def _change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a call that changes something. Once sent, it continues without its caller."""
        fate = await self._begin()
        return await self._heard(self._service.on_its_own(self._there(fate, work)), fate)

    async def _write(self, what: str, work: Callable[[], Awaitable[store.WriteOutcome]]) -> store.WriteOutcome:
        """Run a change with an outcome: it may be applied late, and a lost answer is `WriteUnknown`."""
        fate = await self._begin()
        sent = self._service.on_its_own(self._there(fate, work, may_be_late=True))
        try:
            return await self._heard(sent, fate)
        except store.StoreError as error:
            self._service.count(f"{what}_unknown")
            return store.WriteUnknown(str(error))

    async def _begin(self) -> StoreCallFate:
        await self._for_the_living()
        weather, draw = self._way.weather, self._chance.random

        def within(span: tuple[int, int]) -> int:
            return span[0] + int(draw() * (span[1] - span[0] + 1))

        # All are drawn, needed or not: a new rate of one fault then leaves the draws of the others alone.
        return StoreCallFate(
            request_lost=draw() < weather.lose_request,
            answer_lost=draw() < weather.lose_answer,
            late=draw() < weather.land_late,
            request_ms=within(weather.latency_ms),
            answer_ms=within(weather.latency_ms),
            late_ms=within(weather.late_ms),
            unheard_ms=within(weather.unheard_ms),
            boot=self._service.boots,
        )

    async def _there(self, fate: StoreCallFate, work: Callable[[], Awaitable[T]], *, may_be_late: bool = False) -> T:
        await self._pass(fate.request_ms, fate)
        if fate.request_lost:
            await self._lose("requests_lost", fate)
        if fate.late and may_be_late:
            self._service.land_later(fate.late_ms, work)
            await self._lose("sent_late", fate)
        try:
            result = await work()
        except store.StoreError:
            await self._pass(fate.answer_ms, fate)
            raise
        if self.is_dead and isinstance(result, store.WriteOk):
            self._service.count("landed_after_death")
        return result

    async def _heard(self, sent: Awaitable[T], fate: StoreCallFate) -> T:
        """Return the result, unless the answer is lost. A dead connection returns neither result nor error."""
        try:
            result = await sent
            try:
                await self._pass(fate.answer_ms, fate)
                if fate.answer_lost:
                    await self._lose("answers_lost", fate)
            except store.StoreError:
                self._service.count("landed_unheard", isinstance(result, store.WriteOk))
                raise
        except store.StoreError:
            await self._for_the_living()
            raise
        await self._for_the_living()
        return result

    async def _pass(self, takes_ms: int, fate: StoreCallFate) -> None:
        """Pass the path in one direction, in the time it takes; raise `StoreError` if it is cut."""
        if takes_ms:
            await asyncio.sleep(takes_ms / 1000)
        if self._way.mode == "hung":
            self._service.count("hung")
            await self._way.while_hung()
            if self._chance.random() < 0.5:
                raise self._error("the connection hung and broke")
        if self._way.mode == "cut":
            self._service.count("cut_off")
            raise self._error("it is cut off")
        if fate.boot != self._service.boots:
            raise self._error("the store started anew meanwhile")

    async def _lose(self, what: str, fate: StoreCallFate) -> None:
        self._service.count(what)
        await asyncio.sleep(fate.unheard_ms / 1000)
        raise self._error(f"no answer within {fate.unheard_ms} ms")

    async def _for_the_living(self) -> None:
        if self.is_dead:
            await self._never.wait()

    def _with_room(self, what: str, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def put() -> None:
            if self._is_refused():
                raise store.StoreError(f"{self.name}: no room for {what}\nhint: trim the log or drop a snapshot")
            await work()

        return put

    def _is_refused(self) -> bool:
        refused = self._chance.random() < self._way.weather.full
        self._service.count("full", refused)
        return refused

    def _error(self, why: str) -> store.StoreError:
        return store.StoreError(f"{self._way.host} cannot reach {self.name}: {why}\nhint: try again")
