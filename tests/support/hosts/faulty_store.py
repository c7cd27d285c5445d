"""Faults for host tests, on virtual time: a store that misbehaves, a clock that stops, and a leader beside the leader.

    store = FaultyStore(MemoryStore())          one server's own way to a store that others may share
    store.cut() / .hang() / .heal()             nothing arrives and all calls fail / nothing is answered / as before
    store.append_lands_later(300)               the next append is answered `WriteUnknown`, and lands 300 ms later
    store.append_never_lands()                  ... and never lands
    store.append_lands_unheard()                ... and has landed at once
    store.append_hangs(lands=True)              no answer until it is released
    await store.go_back(5) / .go_beside()       the head is five batches short / has another digest

What a call does to the store happens before its answer is lost: only so can a test tell the two apart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.ledger.builtin.log import StartTerm
from holdfast.core.ledger.commit.draft import BatchDraft, Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.store import (
    Head,
    Store,
    StoreCorrupt,
    StoredBatch,
    StoreError,
    StoreUsage,
    WriteConflict,
    WriteFull,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
)
from holdfast.sim.world.virtual_loop import VirtualLoop

T = TypeVar("T")

#: A fault that does not end by itself.
FOR_EVER = -1


class AppendFault(Struct, frozen=True):
    """What becomes of one append: when it lands, if ever, and whether it is answered at all."""

    lands_after_ms: int | None
    answered: bool = True


class FaultyStore:
    """Passes everything on to another store, except for what it was told to spoil."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.name = inner.name
        self.shared = inner.shared
        #: How long a request is on its way to the store, and its answer on the way back.
        self.request_ms = 0
        self.answer_ms = 0
        #: Appends take so much longer than everything else.
        self.append_ms = 0
        self.is_full = False
        self.used_share: float | None = None
        #: How often each method was called, and how many faults were injected.
        self.calls: dict[str, int] = {}
        self.injected = 0
        #: The digest of every batch that was tried, in the order of the tries.
        self.tried: list[bytes] = []
        self._mode = "open"
        self._changed = asyncio.Event()
        self._released = asyncio.Event()
        self._appends: deque[AppendFault] = deque()
        self._refused: set[str] = set()
        self._forged: Head | None = None
        self._spoiled: dict[int, Callable[[bytes], bytes]] = {}
        self._chunks: dict[int, Callable[[bytes], bytes] | None] = {}
        self._zombies: set[asyncio.Task[Any]] = set()

    # Verbs

    def cut(self, for_ms: int = FOR_EVER) -> None:
        """Nothing arrives and nothing comes back: every call fails."""
        self._become("cut", for_ms)

    def hang(self, for_ms: int = FOR_EVER) -> None:
        """Nothing arrives and nothing is answered, not even with an error, until it heals."""
        self._become("hung", for_ms)

    def heal(self) -> None:
        """As before; whoever hangs is told that its connection broke."""
        self._become("open", FOR_EVER)

    def refuse(self, *methods: str) -> None:
        """These calls fail, and the others work: `refuse("touch")`. Without a name: all work again."""
        self.injected += 1
        self._refused = set(methods)

    def append_lands_later(self, after_ms: int, times: int = 1) -> None:
        self._spoil_appends(AppendFault(after_ms), times)

    def append_never_lands(self, times: int = 1) -> None:
        self._spoil_appends(AppendFault(None), times)

    def append_lands_unheard(self, times: int = 1) -> None:
        self._spoil_appends(AppendFault(0), times)

    def append_hangs(self, *, lands: bool, after_ms: int = 0) -> None:
        self._spoil_appends(AppendFault(after_ms if lands else None, answered=False), 1)

    def release(self) -> None:
        """Appends that hang are told that their connection broke."""
        self._released.set()
        self._released = asyncio.Event()

    async def go_back(self, batches: int = 5) -> None:
        """From now on this is a store from before its last batches: a backup was restored."""
        head = await self.inner.head()
        (stored,) = await self.inner.read(head.seq - batches, 1)
        self.injected += 1
        self._forged = Head(head.log_id, stored.seq, stored.digest, head.floor, head.touch)

    async def go_beside(self) -> None:
        """From now on the head has the same number and another past."""
        head = await self.inner.head()
        self.injected += 1
        self._forged = msgspec.structs.replace(head, digest=bytes(len(head.digest)))

    def flip_batch(self, seq: int) -> None:
        """One bit of this batch reads as another."""
        self._spoiled[seq] = flipped

    def truncate_batch(self, seq: int) -> None:
        """The end of this batch is missing."""
        self._spoiled[seq] = lambda raw: raw[: len(raw) // 2]

    def flip_chunks(self, seq: int) -> None:
        """One bit of each chunk of this snapshot reads as another."""
        self._chunks[seq] = flipped

    def lose_chunks(self, seq: int) -> None:
        """The chunks of this snapshot are gone, its manifest is not."""
        self._chunks[seq] = None

    # The port

    async def head(self) -> Head:
        return self._see(await self._call("head", self.inner.head))

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        self.tried.append(batch.digest)
        fault = self._appends.popleft() if self._appends else None

        async def land() -> WriteOutcome:
            await asyncio.sleep(self.append_ms / 1000)
            if fault is not None:
                return await self._spoil(fault, after, batch)
            if self._forged is not None:
                return WriteConflict(self._forged)
            if self.is_full:
                return WriteFull(f"{self.name} was told to be full")
            return await self.inner.append(after, batch)

        return await self._write("append", land)

    async def touch(self, at: Head) -> WriteOutcome:
        async def land() -> WriteOutcome:
            return await self.inner.touch(at) if self._forged is None else WriteConflict(self._forged)

        return await self._write("touch", land)

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        batches = await self._call("read", lambda: self.inner.read(first, size_bytes))
        last = self._forged.seq if self._forged is not None else None
        return [self._as_read(batch) for batch in batches if last is None or batch.seq <= last]

    async def wait(self, seen: Head, timeout_ms: int) -> Head:
        return self._see(await self._call("wait", lambda: self.inner.wait(seen, timeout_ms)))

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        await self._call("put_chunk", lambda: self.inner.put_chunk(seq, name, raw))

    async def get_chunk(self, seq: int, name: str) -> bytes:
        raw = await self._call("get_chunk", lambda: self.inner.get_chunk(seq, name))
        change = self._chunks.get(seq, _same)
        if change is None:
            raise StoreCorrupt(f"{self.name}: chunk {name} of snapshot {seq} is not there")
        return change(raw)

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        await self._call("put_manifest", lambda: self.inner.put_manifest(seq, raw))

    async def manifests(self) -> list[tuple[int, bytes]]:
        return await self._call("manifests", self.inner.manifests)

    async def drop_snapshot(self, seq: int) -> None:
        await self._call("drop_snapshot", lambda: self.inner.drop_snapshot(seq))

    async def unfinished(self) -> list[int]:
        return await self._call("unfinished", self.inner.unfinished)

    async def trim(self, log_id: str, floor: int) -> WriteOutcome:
        return await self._write("trim", lambda: self.inner.trim(log_id, floor))

    async def usage(self) -> StoreUsage:
        usage = await self._call("usage", self.inner.usage)
        return usage if self.used_share is None else StoreUsage(round(self.used_share * 1000), 1000)

    async def reclaim(self) -> None:
        await self._call("reclaim", self.inner.reclaim)

    async def announce(self, name: str, raw: bytes) -> None:
        await self._call("announce", lambda: self.inner.announce(name, raw))

    async def announced(self) -> list[tuple[str, bytes]]:
        return await self._call("announced", self.inner.announced)

    async def close(self) -> None:
        await self.inner.close()

    # How it is done

    def _become(self, mode: str, for_ms: int) -> None:
        self.injected += mode != "open"
        self._mode = mode
        self._changed.set()
        changed = self._changed = asyncio.Event()
        if for_ms != FOR_EVER:
            loop = asyncio.get_running_loop()
            loop.call_later(for_ms / 1000, lambda: self.heal() if self._changed is changed else None)

    def _spoil_appends(self, fault: AppendFault, times: int) -> None:
        self.injected += times
        self._appends.extend([fault] * times)

    async def _call(self, method: str, work: Callable[[], Awaitable[T]]) -> T:
        """There and back. What is cut or hangs on the way there is not done; on the way back, it is done unheard."""
        self.calls[method] = self.calls.get(method, 0) + 1
        if method in self._refused:
            raise StoreError(f"{self.name} was told to refuse {method}")
        await self._way(self.request_ms)
        result = await work()
        await self._way(self.answer_ms)
        return result

    async def _write(self, method: str, work: Callable[[], Awaitable[WriteOutcome]]) -> WriteOutcome:
        """A write whose answer is lost is `WriteUnknown`: it may have been done."""
        try:
            return await self._call(method, work)
        except StoreError as error:
            return WriteUnknown(str(error))

    async def _way(self, takes_ms: int) -> None:
        if takes_ms:
            await asyncio.sleep(takes_ms / 1000)
        if self._mode == "cut":
            raise StoreError(f"{self.name} is cut off")
        if self._mode == "hung":
            while self._mode == "hung":
                await self._changed.wait()
            raise StoreError(f"the connection to {self.name} broke")

    async def _spoil(self, fault: AppendFault, after: Head, batch: StoredBatch) -> WriteOutcome:
        if fault.lands_after_ms == 0:
            await self.inner.append(after, batch)
        elif fault.lands_after_ms is not None:
            self._later(fault.lands_after_ms, after, batch)
        if not fault.answered:
            await self._released.wait()
        return WriteUnknown(f"{self.name} did not say what became of batch {batch.seq}")

    def _later(self, after_ms: int, after: Head, batch: StoredBatch) -> None:
        async def land() -> None:
            await asyncio.sleep(after_ms / 1000)
            await self.inner.append(after, batch)

        task = asyncio.create_task(land(), name=f"zombie append {batch.seq}")
        self._zombies.add(task)
        task.add_done_callback(self._zombies.discard)

    def _see(self, head: Head) -> Head:
        return head if self._forged is None else self._forged

    def _as_read(self, batch: StoredBatch) -> StoredBatch:
        return msgspec.structs.replace(batch, raw=self._spoiled.get(batch.seq, _same)(batch.raw))


def flipped(raw: bytes) -> bytes:
    """The same bytes with one bit in the middle turned over."""
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def _same(raw: bytes) -> bytes:
    return raw


def stop_the_world(loop: VirtualLoop, for_ms: int) -> None:
    """Nobody gets a turn for so long, and then all that came due meanwhile is due at once: a pause of the process."""
    loop.now += for_ms / 1000


class Rival:
    """Another leader, made of nothing but the core: it writes when it is told to, whatever anybody else believes."""

    def __init__(self, store: Store, name: str = "rival") -> None:
        self._store = store
        self._name = name
        self.state = RegionState()

    async def catch_up(self) -> None:
        head = await self._store.head()
        while self.state.info.seq < head.seq:
            for stored in await self._store.read(self.state.info.seq + 1):
                fold(REGION, self.state, REGION.batches.read(stored.raw, self.state.info.digest, stored.digest))

    async def stand(self) -> None:
        """Depose whoever leads."""
        await self.catch_up()
        await self.write(Envelope("ledger", StartTerm(self.state.info.term + 1, self._name), self.state.info.at))

    async def write(self, *envelopes: Envelope[Any]) -> Head:
        """One batch with these commands, which must all be accepted; durable and acknowledged when it returns."""
        draft = BatchDraft(REGION, self.state)
        for envelope in envelopes:
            answer = draft.add(envelope, self.state.info.at)
            assert isinstance(answer, Committed), answer
        raw, digest = draft.seal()
        facts = self.state.info
        after = Head(facts.log_id, facts.seq, facts.digest)
        outcome = await self._store.append(after, StoredBatch(facts.log_id, facts.seq + 1, digest, raw))
        assert isinstance(outcome, WriteOk), outcome
        draft.commit()
        return outcome.head
