"""Stores in tests: opening any implementation, batches that follow one another, and logs of some length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from holdfast.core.ledger.codec import chain
from holdfast.host.ports.store import Head, LogStore, Store, StoredBatch, WriteConflict, WriteOk, WriteOutcome
from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.store import SimStore
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore

LOG = "log-a"
MIB = 1 << 20


class Opening(Protocol):
    """Opens the store under test; a second time it is the same store, closed and opened again."""

    def __call__(self, *, limit_bytes: int | None = None) -> AbstractAsyncContextManager[Store]: ...


def memory_opening() -> Opening:
    kept = MemoryStore()

    @asynccontextmanager
    async def opened(*, limit_bytes: int | None = None) -> AsyncIterator[Store]:
        if limit_bytes is not None:
            kept.limit_bytes = limit_bytes
        yield kept
        await kept.close()

    return opened


def simulated_opening() -> Opening:
    """A simulated store in calm weather: each time it is opened, another life of the same server."""
    disk = SimDisk()
    service = SimStore(disk, Random(1))

    @asynccontextmanager
    async def opened(*, limit_bytes: int | None = None) -> AsyncIterator[Store]:
        if limit_bytes is not None:
            disk.limit_bytes = limit_bytes
        door = service.door("server")
        yield door
        await door.close()

    return opened


def sqlite_opening(folder: Path) -> Opening:
    @asynccontextmanager
    async def opened(*, limit_bytes: int | None = None) -> AsyncIterator[Store]:
        store = await SqliteStore.open(folder, limit_bytes=limit_bytes, ballast_bytes=MIB)
        try:
            yield store
        finally:
            await store.close()

    return opened


def a_batch(after: Head, text: str = "batch", *, log_id: str = LOG, size_bytes: int = 0) -> StoredBatch:
    """A batch that follows `after`, chained to it, padded to a size."""
    raw = f"{after.seq + 1} {text} ".encode().ljust(size_bytes, b".")
    return StoredBatch(after.log_id or log_id, after.seq + 1, chain(after.digest, raw), raw)


def written(outcome: WriteOutcome) -> Head:
    """The head of an append, touch or trim that must have worked."""
    assert isinstance(outcome, WriteOk), outcome
    return outcome.head


def conflicting(outcome: WriteOutcome) -> Head:
    """The head that was found instead."""
    assert isinstance(outcome, WriteConflict), outcome
    return outcome.head


async def grow(log: LogStore, count: int, text: str = "batch", *, size_bytes: int = 0) -> list[StoredBatch]:
    """Append batches to what is there."""
    head = await log.head()
    batches = []
    for _ in range(count):
        batch = a_batch(head, text, size_bytes=size_bytes)
        head = written(await log.append(head, batch))
        batches.append(batch)
    return batches


def head_at(batch: StoredBatch, floor: int = 0) -> Head:
    """The head of a log that ends in this batch."""
    return Head(batch.log_id, batch.seq, batch.digest, floor)


async def fill(log: LogStore, *, size_bytes: int) -> tuple[StoredBatch, WriteOutcome]:
    """Append until a batch is not written: that batch, and what became of it."""
    head = await log.head()
    while True:
        batch = a_batch(head, size_bytes=size_bytes)
        outcome = await log.append(head, batch)
        if not isinstance(outcome, WriteOk):
            return batch, outcome
        head = outcome.head
