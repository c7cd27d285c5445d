"""The embedded store: the cost of a commit, against the minimum of a durable write, and during a snapshot.

A commit is one batch of a hundred placements, as a region seals it, through the store as a host calls it: hand-over to
the writer's thread, transaction, sync, answer. Its baseline appends the same bytes to one file in the same folder, with
fdatasync. Both run alternately in blocks of fifty. The median of the blocks' means counts, so that checkpoints caused
by commits are included and a stall of the disk is not.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from holdfast.bench import report
from holdfast.bench.fixtures.region import BenchRegion
from holdfast.core.ledger.codec import chain
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.region.definition import REGION
from holdfast.host.ports.store import Head, StoredBatch, WriteOk
from holdfast.stores.sqlite.store import SqliteStore

BLOCK = 50
RECORDS = 100
#: A snapshot of a million slots: chunks of five thousand rows.
CHUNK_BYTES = 920_000
ROWS = ("store.sqlite.group100", "store.sqlite.snapshot.p99", "store.sqlite.snapshot.max")


class StoreSize(NamedTuple):
    """Blocks, commits without a snapshot, and chunks of a snapshot."""

    blocks: int
    alone: int
    chunks: int


WHOLE, SMALL = StoreSize(40, 1_000, 200), StoreSize(3, 100, 3)


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of the store, on the file system of the current folder."""
    sheet = report.ReportBuilder()
    with sheet.part(*ROWS), report.temporary_folder() as folder:
        asyncio.run(_measure(sheet, folder, a_hundred_placements(), SMALL if small else WHOLE))
    return sheet.report()


def a_hundred_placements() -> bytes:
    """Return the batch that a region writes for a hundred proposals of one placement each."""
    region = BenchRegion(200)
    draft = BatchDraft(REGION, region.state)
    for envelope in region.proposals(region.open_workload(), 1)[:RECORDS]:
        answer = draft.add(envelope, envelope.sent)
        report.require(isinstance(answer, Committed), answer)
    raw, _ = draft.seal()
    return raw


class _Commits:
    """Appends the same bytes to a store, one batch after another, and measures the times."""

    def __init__(self, store: SqliteStore, raw: bytes) -> None:
        self._store = store
        self._raw = raw
        self._head = Head()

    async def once(self) -> float:
        """Return the seconds from hand-over to answer; computing the digest is not the store's work."""
        digest = chain(self._head.digest, self._raw)
        batch = StoredBatch("bench", self._head.seq + 1, digest, self._raw)
        start = time.perf_counter()
        outcome = await self._store.append(self._head, batch)
        spent = time.perf_counter() - start
        if not isinstance(outcome, WriteOk):
            raise report.Unmeasured(f"the store did not accept the batch: {outcome}")
        self._head = outcome.head
        return spent


async def _measure(sheet: report.ReportBuilder, folder: Path, raw: bytes, size: StoreSize) -> None:
    store = await SqliteStore.open(folder / "store")
    try:
        commits = _Commits(store, raw)
        with sheet.part("store.sqlite.group100"):
            sheet.add(await _against_raw_appends(commits, folder / "raw", raw, size.blocks))
        with sheet.part("store.sqlite.snapshot.p99", "store.sqlite.snapshot.max"):
            alone, beside = await _beside_a_snapshot(store, commits, size)
            sheet.add(
                report.at_most("store.sqlite.snapshot.p99", report.p99(beside), "ms", report.p99(alone), 25, beside),
                report.at_most("store.sqlite.snapshot.max", max(beside), "ms", max(alone), 60, beside),
            )
    finally:
        await store.close()


async def _against_raw_appends(commits: _Commits, path: Path, raw: bytes, blocks: int) -> report.BenchResult:
    stored, plain = [], []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for _ in range(blocks):
            stored.append(fmean([await commits.once() for _ in range(BLOCK)]))
            plain.append(fmean([_append(file, raw) for _ in range(BLOCK)]))
    finally:
        os.close(file)
    ratios = [one / other for one, other in zip(stored, plain, strict=True)]
    return report.at_most("store.sqlite.group100", median(stored) / median(plain), "x raw append", 1.0, 2.5, ratios)


def _append(file: int, raw: bytes) -> float:
    start = time.perf_counter()
    os.write(file, raw)
    os.fdatasync(file)
    return time.perf_counter() - start


async def _beside_a_snapshot(store: SqliteStore, commits: _Commits, size: StoreSize) -> tuple[list[float], list[float]]:
    """Return the milliseconds of commits without a snapshot, and during one."""
    alone = [await commits.once() * 1_000 for _ in range(size.alone)]
    writing = asyncio.create_task(_snapshot(store, size.chunks))
    beside = [await commits.once() * 1_000]
    while not writing.done():
        beside.append(await commits.once() * 1_000)
    await writing
    return alone, beside


async def _snapshot(store: SqliteStore, chunks: int) -> None:
    for number in range(chunks):
        await store.put_chunk(1, f"chunk-{number}", os.urandom(CHUNK_BYTES))
    await store.put_manifest(1, b"manifest")


class RawFile:
    """The baseline of durable writes: the same bytes written to a plain file and synced."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def times(self, size_bytes: int, times: int) -> list[float]:
        """Return the seconds of each write and sync of `size_bytes` bytes."""
        blob = os.urandom(size_bytes)
        took = []
        for _ in range(times):
            start = time.perf_counter()
            os.write(self._file, blob)
            os.fdatasync(self._file)
            took.append(time.perf_counter() - start)
        return took
