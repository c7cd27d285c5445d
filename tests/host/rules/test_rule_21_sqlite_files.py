"""RULES 21, SQLite: a lock on a separate file, nothing else opens the database, and after any I/O error: close, reopen.

Otherwise two servers lead from one folder, or a server goes on from a page cache that differs from its disk.
"""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from holdfast.host.ports.store import StoreError, StoreInUse, WriteOk, WriteUnknown
from holdfast.stores.files.folder import network_type
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.event_loop import in_a_loop
from tests.support.hosts.faulty_disk import SYNC_FAILED, FaultyDisk
from tests.support.hosts.stores import a_batch, conflicting, grow, head_at, sqlite_opening


@in_a_loop
async def test_a_second_server_on_the_same_folder_is_turned_away_by_the_lock_file(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)():
        with pytest.raises(StoreInUse, match="in use by process"):
            await SqliteStore.open(tmp_path)
    async with sqlite_opening(tmp_path)() as store:
        assert await grow(store, 1)


@in_a_loop
async def test_a_tool_that_opens_the_database_beside_the_server_gets_nowhere(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path)() as store:
        batches = await grow(store, 2)
        tool = apsw.Connection(str(tmp_path / "log.db"))
        with pytest.raises(apsw.BusyError):
            tool.execute("SELECT * FROM batches")
        tool.close()
        assert await store.read(1) == batches


def test_a_folder_on_a_network_is_no_place_for_it() -> None:
    for kind in ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "fuse.sshfs", "fuse.glusterfs", "lustre"):
        assert network_type(Path("/data"), f"1 0 0:1 / / rw - {kind} server rw") == kind
    for kind in ("ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk"):
        assert network_type(Path("/data"), f"1 0 0:1 / / rw - {kind} disk rw") is None


@in_a_loop
async def test_after_a_failed_sync_no_answer_comes_from_memory(tmp_path: Path) -> None:
    async with sqlite_opening(tmp_path / "store")():
        pass
    disk = FaultyDisk()
    store = await SqliteStore.open(tmp_path / "store", vfs=disk.name, ballast_bytes=0)
    (first,) = await grow(store, 1)
    batch = a_batch(head_at(first))
    disk.fail("sync", "log.db-wal", SYNC_FAILED)
    assert isinstance(await store.append(head_at(first), batch), WriteUnknown)
    with pytest.raises(StoreError):
        await store.head()  # not even where the log ends, until it is durable

    disk.heal()
    head = conflicting(await store.append(head_at(first), batch))
    assert (head.seq, head.digest) == (batch.seq, batch.digest)
    # What was answered survives a power cut now, although its own sync never succeeded.
    left = await SqliteStore.open(disk.power_cut(tmp_path / "left"), ballast_bytes=0)
    assert await left.read(1) == [first, batch]
    await left.close()
    assert isinstance(await store.append(head_at(batch), a_batch(head_at(batch))), WriteOk)
    await store.close()
