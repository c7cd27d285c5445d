"""RULES 20, in a store: the manifest comes last, what is read back is what is on the disk, trimming works when full.

Otherwise half a snapshot counts as one, or a full disk can never be made less full.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.host.ports.store import StoreCorrupt, WriteFull
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.event_loop import in_a_loop
from tests.support.hosts.stores import LOG, MIB, Opening, fill, memory_opening, sqlite_opening, written


@pytest.fixture(params=["memory", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return memory_opening() if request.param == "memory" else sqlite_opening(tmp_path / "store")


@in_a_loop
async def test_a_snapshot_that_was_never_finished_is_no_snapshot(opening: Opening) -> None:
    async with opening() as store:
        await store.put_chunk(5, "a", b"of 5")
        await store.put_manifest(5, b"a")
        await store.put_chunk(9, "a", b"of 9")  # and then the server ends
    async with opening() as store:
        assert await store.manifests() == [(5, b"a")]
        assert await store.unfinished() == [9]
        await store.drop_snapshot(9)
        assert await store.unfinished() == []
        assert await store.get_chunk(5, "a") == b"of 5"


KILLED_WHILE_WRITING = """
import asyncio, sys
from pathlib import Path
from holdfast.stores.sqlite.store import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), ballast_bytes=0)
    for seq in range(1, 1_000_000):
        for name in ("a", "b", "c"):
            await store.put_chunk(seq, name, f"{name} of {seq} ".encode() * 20_000)
        await store.put_manifest(seq, b"a b c")
        print(seq, flush=True)

asyncio.run(main())
"""


def test_of_a_server_killed_at_any_moment_every_snapshot_with_a_manifest_is_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        for _ in range(5):
            other.stdout.readline()
        other.send_signal(signal.SIGKILL)
        finished = 5 + len(other.stdout.readlines())

    @in_a_loop
    async def look() -> None:
        async with sqlite_opening(tmp_path)() as store:
            seqs = [seq for seq, _ in await store.manifests()]
            assert finished <= len(seqs) <= finished + 1
            for seq in seqs:
                for name in ("a", "b", "c"):
                    assert await store.get_chunk(seq, name) == f"{name} of {seq} ".encode() * 20_000
            assert set(await store.unfinished()) <= {len(seqs) + 1}

    look()


@in_a_loop
async def test_a_chunk_that_was_damaged_on_the_disk_is_read_back_as_it_is_there(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, ballast_bytes=0)
    await store.put_chunk(5, "a", b"as it was meant")
    await store.put_chunk(5, "b", b"")
    chunk = tmp_path / "snapshots" / "5" / "a.chunk"
    chunk.write_bytes(b"as it is by now")
    assert await store.get_chunk(5, "a") == b"as it is by now"
    chunk.unlink()
    with pytest.raises(StoreCorrupt, match="chunk a of snapshot 5"):
        await store.get_chunk(5, "a")
    await store.close()


@in_a_loop
async def test_a_full_store_can_be_trimmed_and_reclaimed_and_then_takes_the_batch_it_refused(opening: Opening) -> None:
    async with opening(limit_bytes=2 * MIB) as store:
        batch, outcome = await fill(store, size_bytes=100_000)
        assert isinstance(outcome, WriteFull)
        assert (await store.usage()).share() > 0.85  # the hard limit: by now the host has refused what can wait
        head = await store.head()
        written(await store.trim(LOG, head.seq - 2))
        await store.reclaim()
        assert (await store.usage()).share() < 0.7
        assert written(await store.append(head, batch)).seq == batch.seq
