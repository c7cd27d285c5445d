"""The embedded store's files: one owner, a format, and damage that is found and named."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.host.ports.store import Head, StoreCorrupt, StoreError, StoreInUse
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.event_loop import in_a_loop, run
from tests.support.hosts.stores import LOG, MIB, a_batch, grow, head_at, sqlite_opening, written

# Another process: it opens the store, appends, says what was acknowledged, and never closes.
APPENDS_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.hosts.stores import grow

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), ballast_bytes=1 << 20)
    while True:
        (batch,) = await grow(store, 1, size_bytes=int(sys.argv[2]))
        print(batch.seq, flush=True)

asyncio.run(main())
"""


def another_process(folder: Path, size_bytes: int = 100) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPENDS_UNTIL_KILLED, str(folder), str(size_bytes)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


async def filled(folder: Path, count: int = 5, *, size_bytes: int = 0) -> None:
    async with sqlite_opening(folder)() as store:
        await grow(store, count, size_bytes=size_bytes)


def change(folder: Path, *statements: str) -> None:
    """Do to the database what no store does."""
    connection = apsw.Connection(str(folder / "log.db"))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def opening_fails(folder: Path, kind: type[StoreError], message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        run(SqliteStore.open(folder))
    assert str(folder) in str(raised.value)
    assert "\nhint: " in str(raised.value)


@in_a_loop
async def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        with pytest.raises(StoreInUse, match=rf"{tmp_path}: in use by process {os.getpid()}\nhint: stop that process"):
            await SqliteStore.open(tmp_path)
        await grow(store, 1)
    async with sqlite_opening(tmp_path)() as store:
        assert (await store.head()).seq == 1


def test_a_folder_in_use_by_another_process_is_refused_until_that_is_killed(tmp_path: Path) -> None:
    with another_process(tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        opening_fails(tmp_path, StoreInUse, f"in use by process {other.pid}")
        other.send_signal(signal.SIGKILL)
    run(filled(tmp_path))


@pytest.mark.parametrize("acknowledged", [1, 40, 130])
def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, acknowledged: int) -> None:
    with another_process(tmp_path, size_bytes=20_000) as other:
        assert other.stdout is not None
        for _ in range(acknowledged):
            other.stdout.readline()
        other.send_signal(signal.SIGKILL)
        told = acknowledged + len(other.stdout.readlines())

    @in_a_loop
    async def count_what_is_there() -> int:
        async with sqlite_opening(tmp_path)() as store:
            head = await store.head()
            batches = await store.read(1, 1 << 30)
            assert head_at(batches[-1]) == head
            return len(batches)

    assert told <= count_what_is_there() <= told + 1


def test_the_database_of_something_else_is_refused(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE recipes (name TEXT)")
    opening_fails(tmp_path, StoreError, "log.db is not a Holdfast log")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_text("apples, pears\n" * 1000)
    opening_fails(tmp_path, StoreCorrupt, "opening: .*not a database")


def test_a_format_of_a_later_version_is_refused(tmp_path: Path) -> None:
    run(filled(tmp_path))
    change(tmp_path, "PRAGMA user_version = 2")
    opening_fails(tmp_path, StoreError, "log.db has format 2, this version reads up to 1\nhint: run the version that")


def test_a_head_that_is_not_the_last_batch_is_found_when_opening_and_both_are_named(tmp_path: Path) -> None:
    run(filled(tmp_path))
    change(tmp_path, "UPDATE batches SET digest = x'0123456789abcdef' WHERE seq = 5")
    opening_fails(
        tmp_path, StoreCorrupt, r"the head is batch 5 with digest \w{16}, the last batch is 5 with digest 0123"
    )


def test_a_last_batch_that_is_missing_is_found_when_opening(tmp_path: Path) -> None:
    run(filled(tmp_path))
    change(tmp_path, "DELETE FROM batches WHERE seq = 5")
    opening_fails(tmp_path, StoreCorrupt, "the head is batch 5 .* the last batch is 4 ")


@in_a_loop
async def test_a_batch_that_is_missing_in_the_middle_is_named_when_read(tmp_path: Path) -> None:
    await filled(tmp_path)
    change(tmp_path, "DELETE FROM batches WHERE seq = 3")
    async with sqlite_opening(tmp_path)() as store:
        with pytest.raises(StoreCorrupt, match=r"batch 3 is missing, the head is at 5\nhint: "):
            await store.read(2)
        assert [batch.seq for batch in await store.read(4)] == [4, 5]


@pytest.mark.parametrize("left", [0, 4_000, 8_192, 60_000, 300_000])
def test_a_database_that_was_cut_short_is_found_when_opening(tmp_path: Path, left: int) -> None:
    run(filled(tmp_path, 5, size_bytes=100_000))
    os.truncate(tmp_path / "log.db", left)
    opening_fails(tmp_path, StoreCorrupt, "log.db is empty|opening: .*(malformed|not a database)")


def test_a_database_that_is_gone_is_not_made_anew_beside_its_snapshots(tmp_path: Path) -> None:
    @in_a_loop
    async def with_a_snapshot() -> None:
        async with sqlite_opening(tmp_path)() as store:
            await store.put_manifest(3, b"")

    with_a_snapshot()
    (tmp_path / "log.db").unlink()
    opening_fails(tmp_path, StoreCorrupt, "log.db is missing")


def test_an_unfinished_creation_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "log.db.new").write_bytes(b"half a database")
    run(filled(tmp_path))
    assert not (tmp_path / "log.db.new").exists()


@in_a_loop
async def test_a_page_that_was_damaged_is_told_with_the_place(tmp_path: Path) -> None:
    await filled(tmp_path, 200, size_bytes=3_000)
    damage = bytearray((tmp_path / "log.db").read_bytes())
    for page in range(20, 40):
        damage[page * 8192 : page * 8192 + 100] = bytes(100)
    (tmp_path / "log.db").write_bytes(damage)
    async with sqlite_opening(tmp_path)() as store:
        with pytest.raises(StoreCorrupt, match=r"reading from batch 1: .*malformed\nhint: keep a copy"):
            await store.read(1)


@in_a_loop
async def test_rows_behind_the_floor_that_a_crash_left_are_removed_after_opening(tmp_path: Path) -> None:
    await filled(tmp_path, 5)
    change(tmp_path, "UPDATE head SET floor = 3")
    async with sqlite_opening(tmp_path)() as store:
        await store.reclaim()
        assert [batch.seq for batch in await store.read(4)] == [4, 5]
    connection = apsw.Connection(str(tmp_path / "log.db"))
    assert connection.execute("SELECT min(seq) FROM batches").get == 4
    connection.close()


@in_a_loop
async def test_a_trim_removes_its_rows_by_and_by_without_being_asked(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        await grow(store, 300)
        await store.trim(LOG, 290)
        for _ in range(3):
            await store.head()
            await asyncio.sleep(0.02)
    connection = apsw.Connection(str(tmp_path / "log.db"))
    assert connection.execute("SELECT count(*) FROM batches").get == 10
    connection.close()


@in_a_loop
async def test_a_closed_store_leaves_everything_in_one_file_and_answers_no_more(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        (batch,) = await grow(store, 1)
    assert (tmp_path / "log.db-wal").stat().st_size == 0
    assert not (tmp_path / "log.db-shm").exists()
    with pytest.raises(StoreError, match="closed\nhint:"):
        await store.head()
    assert "closed" in str(await store.append(head_at(batch), a_batch(head_at(batch))))


@in_a_loop
async def test_closing_waits_for_what_was_handed_over(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        appending = asyncio.create_task(store.append(Head(), a_batch(Head(), size_bytes=MIB)))
        await asyncio.sleep(0)
    assert written(await appending).seq == 1


@in_a_loop
async def test_closing_that_is_cancelled_still_frees_the_folder(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, ballast_bytes=0)
    await grow(store, 1)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    async with sqlite_opening(tmp_path)() as again:
        assert (await again.head()).seq == 1


@in_a_loop
async def test_the_write_ahead_log_stays_small_however_much_is_written(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        head = Head()
        for _ in range(80):
            batch = a_batch(head, size_bytes=250_000)
            head = written(await store.append(head, batch))
            assert (tmp_path / "log.db-wal").stat().st_size < 6 * MIB
