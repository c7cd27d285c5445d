"""The embedded store: one folder, one process, SQLite.

    event loop --> log thread       appends, trims, reads: `log_writer`, on the one connection to log.db (`reopening`)
               --> snapshot thread  `snapshot_files`, so that no commit waits for one

No acknowledged write is lost when the process or machine ends at any instant: a commit is synced before the answer. A
lock on a separate file ensures that no other process opens the database.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.host.ports.store import (
    Head,
    StoredBatch,
    StoreError,
    StoreUsage,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
    check_follows,
)
from holdfast.stores.files.folder import BALLAST_BYTES, DiskReserve, FolderLock, free_bytes, prepare
from holdfast.stores.files.snapshot_files import SnapshotFiles
from holdfast.stores.head_waiters import AnnouncementTable, HeadWaiters
from holdfast.stores.sqlite.log_writer import LogWriter
from holdfast.stores.sqlite.reopening import ReopeningDatabase
from holdfast.stores.worker_thread import WorkerThread


class SqliteStore:
    """A log and its snapshots in a folder. Created by `open`."""

    shared = False

    def __init__(self, folder: Path, lock: FolderLock, files: ReopeningDatabase, limit_bytes: int | None) -> None:
        self.name = files.name
        self._folder = folder
        self._lock: FolderLock | None = lock
        self._files = files
        self._log = LogWriter(files)
        self._limit_bytes = limit_bytes
        self._snapshots = SnapshotFiles(folder / "snapshots", files.name)
        self._waiting = HeadWaiters()
        # In memory: the process is the store's only server, and announces itself at each start.
        self._announced = AnnouncementTable(files.name)
        self._writer = WorkerThread(f"log {folder}", self._log.keep_house)
        self._filer = WorkerThread(f"snapshots {folder}")

    @classmethod
    async def open(
        cls, folder: Path, *, limit_bytes: int | None = None, ballast_bytes: int = BALLAST_BYTES, vfs: str | None = None
    ) -> SqliteStore:
        """Open the store in a folder, or create one there.

        Its disk use is limited to `limit_bytes`. For tests, `vfs` names another way for SQLite to access its files.
        `StoreInUse` if another process has it open, `StoreCorrupt` if it is damaged.
        """
        prepare(folder)
        lock = FolderLock(folder)
        try:
            (folder / "snapshots").mkdir(exist_ok=True)
            files = ReopeningDatabase(folder / "log.db", f"sqlite:{folder}", DiskReserve(folder, ballast_bytes), vfs)
            store = cls(folder, lock, files, limit_bytes)
        except OSError as error:
            lock.release()
            raise StoreError(f"sqlite:{folder}: opening: {error.strerror}\nhint: check the disk") from error
        try:
            was_in_use = bool(await store.manifests())
            await store._writer.run(lambda: files.open(was_in_use))
            await store._limit_log()
        except BaseException:
            await store.close()
            raise
        return store

    async def head(self) -> Head:
        return await self._writer.run(self._log.head)

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        check_follows(after, batch)
        return await self._settled(lambda: self._log.append(after, batch))

    async def touch(self, at: Head) -> WriteOutcome:
        return await self._settled(lambda: self._log.touch(at))

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        assert first >= 1, f"batches are numbered from 1, got {first}"
        return await self._writer.run(lambda: self._log.read(first, size_bytes))

    async def wait(self, seen: Head, timeout_ms: int) -> Head:
        return await self._waiting.until_changed(seen, timeout_ms, self.head)

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        await self._must_have_room(len(raw), f"chunk {name} of snapshot {seq}")
        await self._filer.run(lambda: self._snapshots.put_chunk(seq, name, raw))

    async def get_chunk(self, seq: int, name: str) -> bytes:
        return await self._filer.run(lambda: self._snapshots.get_chunk(seq, name))

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        await self._filer.run(lambda: self._snapshots.put_manifest(seq, raw))
        await self._limit_log()

    async def manifests(self) -> list[tuple[int, bytes]]:
        return await self._filer.run(self._snapshots.manifests)

    async def drop_snapshot(self, seq: int) -> None:
        await self._filer.run(lambda: self._snapshots.drop(seq))
        await self._limit_log()

    async def unfinished(self) -> list[int]:
        return await self._filer.run(self._snapshots.unfinished)

    async def trim(self, log_id: str, floor: int) -> WriteOutcome:
        return await self._settled(lambda: self._log.trim(log_id, floor))

    async def usage(self) -> StoreUsage:
        return await self._writer.run(self._usage)

    async def reclaim(self) -> None:
        while await self._writer.run(self._log.reclaim_step):
            pass

    async def announce(self, name: str, raw: bytes) -> None:
        self._announced.put(name, raw)

    async def announced(self) -> list[tuple[str, bytes]]:
        return self._announced.all()

    async def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            await self._filer.stop()
        finally:
            try:
                await self._writer.stop(self._files.close)
            finally:
                lock.release()

    async def _settled(self, job: Callable[[], WriteOutcome]) -> WriteOutcome:
        """Run a write. It completes and wakes waiters even if the caller is cancelled."""
        try:
            return await self._writer.run(job, self._moved)
        except StoreError as error:
            return WriteUnknown(str(error))

    def _moved(self, outcome: WriteOutcome) -> None:
        if isinstance(outcome, WriteOk):
            self._waiting.wake()

    def _usage(self) -> StoreUsage:
        self._files.ballast.restore()
        used = self._log.size_bytes() + self._snapshots.size_bytes
        try:
            limit = used + free_bytes(self._folder)
        except OSError as error:
            raise StoreError(
                f"{self.name}: cannot read the free space: {error.strerror}\nhint: check the disk"
            ) from error
        return StoreUsage(used, limit if self._limit_bytes is None else min(limit, self._limit_bytes))

    async def _must_have_room(self, size_bytes: int, what: str) -> None:
        if self._limit_bytes is None:
            return
        usage = await self.usage()
        if usage.used + size_bytes > usage.limit:
            raise StoreError(
                f"{self.name}: no room for {size_bytes:,} bytes of {what}: {usage.used:,} of {usage.limit:,} are used\n"
                "hint: trim the log or drop a snapshot"
            )

    async def _limit_log(self) -> None:
        """Limit the log to the size that snapshots leave. Its write-ahead log, a few MiB, is not counted."""
        if self._limit_bytes is not None:
            left = self._limit_bytes - self._snapshots.size_bytes
            await self._writer.run(lambda: self._files.limit(left))
