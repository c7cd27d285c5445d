"""The embedded store on a disk that fails: rules 2 and 21, through SQLite's own error paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.host.ports.store import Head, StoredBatch, StoreError, WriteFull, WriteOk, WriteOutcome, WriteUnknown
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.event_loop import in_a_loop
from tests.support.hosts.faulty_disk import DISK_FULL, READ_FAILED, SYNC_FAILED, WRITE_FAILED, FaultyDisk
from tests.support.hosts.stores import LOG, a_batch, conflicting, grow, head_at, sqlite_opening, written


@asynccontextmanager
async def on(disk: FaultyDisk, folder: Path) -> AsyncIterator[SqliteStore]:
    """The store in a folder, made before the disk is put in between."""
    async with sqlite_opening(folder)():
        pass
    store = await SqliteStore.open(folder, ballast_bytes=4096, vfs=disk.name)
    try:
        yield store
    finally:
        disk.heal()
        await store.close()


async def there(folder: Path) -> list[StoredBatch]:
    """What a fresh process finds."""
    store = await SqliteStore.open(folder, ballast_bytes=0)
    try:
        return await store.read((await store.head()).floor + 1, 1 << 30)
    finally:
        await store.close()


async def settle(store: SqliteStore, disk: FaultyDisk, after: Head, batch: StoredBatch) -> Head:
    """Do as a leader does: repeat the same bytes at the same place until the store answers."""
    disk.heal()
    outcome: WriteOutcome = await store.append(after, batch)
    if isinstance(outcome, WriteOk):
        return outcome.head
    head = conflicting(outcome)
    assert (head.seq, head.digest) == (batch.seq, batch.digest)
    return head


@in_a_loop
async def test_a_commit_whose_sync_fails_is_unknown_and_its_repeat_finds_it_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        before = await grow(store, 3)
        head = head_at(before[-1])
        batch = a_batch(head, size_bytes=20_000)
        disk.fail("sync", "log.db-wal", SYNC_FAILED)
        outcome = await store.append(head, batch)
        assert isinstance(outcome, WriteUnknown)
        assert "appending batch 4" in outcome.why
        assert (await settle(store, disk, head, batch)).seq == 4
        after = await grow(store, 2)
    assert await there(tmp_path / "store") == [*before, batch, *after]


@pytest.mark.parametrize("writes", range(8))
def test_a_commit_whose_write_fails_is_unknown_and_its_repeat_writes_it_once(tmp_path: Path, writes: int) -> None:
    @in_a_loop
    async def story() -> None:
        disk = FaultyDisk()
        async with on(disk, tmp_path / "store") as store:
            before = await grow(store, 3)
            head = head_at(before[-1])
            batch = a_batch(head, size_bytes=20_000)
            disk.fail("write", "log.db-wal", WRITE_FAILED, after=writes)
            assert isinstance(await store.append(head, batch), WriteUnknown)
            assert (await settle(store, disk, head, batch)).seq == 4
        assert await there(tmp_path / "store") == [*before, batch]

    story()


@in_a_loop
async def test_after_an_error_nothing_is_told_before_it_is_durable_in_another_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        (first,) = await grow(store, 1)
        disk.fail("sync", "log.db-wal", SYNC_FAILED)
        assert isinstance(await store.append(head_at(first), a_batch(head_at(first))), WriteUnknown)
        disk.heal()
        disk.fail("sync", "log.db", SYNC_FAILED)
        with pytest.raises(StoreError, match=r"sqlite:.*reading the head(.|\n)*hint:"):
            await store.head()
        with pytest.raises(StoreError, match=r"reading from batch 1(.|\n)*hint:"):
            await store.read(1)
        assert isinstance(await store.touch(head_at(first)), WriteUnknown)
        assert isinstance(await store.trim(LOG, 1), WriteUnknown)
        with pytest.raises(StoreError, match="hint:"):
            await store.usage()
        disk.heal()
        assert (await store.head()).seq in (1, 2)


async def trimmed(store: SqliteStore, disk: FaultyDisk, floor: int) -> int:
    """Repeat a trim until the store answers, as a leader does."""
    outcome = await store.trim(LOG, floor)
    if isinstance(outcome, WriteUnknown):
        disk.heal()
        outcome = await store.trim(LOG, floor)
    return written(outcome).floor


def break_something(disk: FaultyDisk) -> None:
    for _ in range(disk.chance.choice((0, 1, 2))):
        what, code = disk.chance.choice((("sync", SYNC_FAILED), ("write", WRITE_FAILED)))
        disk.fail(what, disk.chance.choice(("log.db", "log.db-wal")), code, after=disk.chance.randrange(8))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_was_acknowledged_is_missing_after_failed_syncs_and_a_power_cut(tmp_path: Path, seed: int) -> None:
    @in_a_loop
    async def story() -> None:
        disk = FaultyDisk(seed)
        async with on(disk, tmp_path / "store") as store:
            acknowledged: list[StoredBatch] = []
            head, floor = Head(), 0
            for step in range(16):
                batch = a_batch(head, f"seed {seed}", size_bytes=disk.chance.choice((100, 9_000, 60_000, 700_000)))
                break_something(disk)
                outcome = await store.append(head, batch)
                head = outcome.head if isinstance(outcome, WriteOk) else await settle(store, disk, head, batch)
                acknowledged.append(batch)
                if disk.chance.random() < 0.2:
                    floor = await trimmed(store, disk, disk.chance.randint(floor, head.seq))
                found = await there(disk.power_cut(tmp_path / f"after {step}"))
                assert found == acknowledged[floor:], f"after batch {batch.seq}, trimmed to {floor}"
            # One more, unsettled: it is there whole, or not at all.
            disk.fail("sync", "log.db-wal", SYNC_FAILED)
            last = a_batch(head)
            assert isinstance(await store.append(head, last), WriteUnknown)
            found = await there(disk.power_cut(tmp_path / "last"))
            assert found in (acknowledged[floor:], [*acknowledged, last][floor:])

    story()


@in_a_loop
async def test_a_commit_that_finds_the_disk_full_is_not_written_and_does_not_appear_later(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        before = await grow(store, 3)
        head = head_at(before[-1])
        batch = a_batch(head, size_bytes=20_000)
        disk.fail("write", "log.db-wal", DISK_FULL, beyond=80_000)
        outcome = await store.append(head, batch)
        assert isinstance(outcome, WriteFull)
        assert "no room for batch 4 of 20,000 bytes" in outcome.why
        assert await there(disk.power_cut(tmp_path / "cut")) == before
        assert await store.head() == head
        disk.heal()
        other = a_batch(head, "another batch in its place")
        assert written(await store.append(head, other)).seq == 4
    assert await there(tmp_path / "store") == [*before, other]


@in_a_loop
async def test_a_full_disk_that_cannot_be_opened_again_leaves_it_unknown(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        (first,) = await grow(store, 1)
        batch = a_batch(head_at(first))
        disk.fail("write", "log.db-wal", DISK_FULL)
        disk.fail("sync", "log.db", SYNC_FAILED)
        outcome = await store.append(head_at(first), batch)
        assert isinstance(outcome, WriteUnknown)
        assert "the disk was full at batch 2, and then:" in outcome.why
        assert (await settle(store, disk, head_at(first), batch)).seq == 2


@in_a_loop
async def test_trimming_that_finds_no_room_at_all_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        batches = await grow(store, 3)
        disk.fail("write", "log.db-wal", DISK_FULL, beyond=9_000)
        assert isinstance(await store.trim(LOG, 2), WriteFull)
        assert await store.read(1) == batches
        disk.heal()
        assert written(await store.trim(LOG, 2)).floor == 2


@in_a_loop
async def test_an_unknown_batch_that_had_landed_is_not_refused_for_want_of_a_reserve(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        (first,) = await grow(store, 1)
        batch = a_batch(head_at(first))
        disk.fail("sync", "log.db-wal", SYNC_FAILED)
        assert isinstance(await store.append(head_at(first), batch), WriteUnknown)
        disk.heal()
        ballast = store._files.ballast
        ballast.release()
        ballast.size_bytes = 1 << 60
        assert conflicting(await store.append(head_at(first), batch)).digest == batch.digest
        refused = await store.append(head_at(batch), a_batch(head_at(batch)))
        assert isinstance(refused, WriteFull)
        ballast.size_bytes = 4096
        assert written(await store.append(head_at(batch), a_batch(head_at(batch)))).seq == 3


@in_a_loop
async def test_a_checkpoint_that_fails_between_commits_costs_nobody_an_answer(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        disk.fail("sync", "log.db", SYNC_FAILED)
        batches = await grow(store, 4, size_bytes=250_000)  # 1 MiB: from here on it is copied
        await asyncio.sleep(0.05)
        disk.heal()
        batches += await grow(store, 4, size_bytes=250_000)
        assert await there(disk.power_cut(tmp_path / "cut")) == batches
    assert await there(tmp_path / "store") == batches


@in_a_loop
async def test_a_batch_that_cannot_be_read_is_told_with_the_store_and_the_place(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with on(disk, tmp_path / "store") as store:
        batches = await grow(store, 3, size_bytes=100_000)
        await store.reclaim()
        disk.fail("read", "log.db", READ_FAILED, after=1)
        with pytest.raises(StoreError, match=rf"sqlite:{tmp_path}/store: reading from batch 2: (.|\n)*hint: check"):
            await store.read(2)
        disk.heal()
        assert await store.read(2) == batches[1:]
