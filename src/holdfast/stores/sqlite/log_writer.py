"""The jobs of the one thread that owns the database, and the outcomes of its errors.

An append with an error is `WriteUnknown`. Its retry first reopens the files (`reopening`), then finds its own digest in
the head or can write the batch (RULES 2). Only on a full disk are they reopened at once: with the write-ahead log
emptied, a batch that is not in the head cannot appear later, so the answer can be `WriteFull`.

Between jobs the thread does housekeeping in small pieces: checkpoints, and removal of dead rows.
"""

from __future__ import annotations

import apsw
from msgspec.structs import replace

from holdfast.host.ports import store
from holdfast.stores.sqlite.database import PAGE_BYTES, LogDatabase
from holdfast.stores.sqlite.reopening import ReopeningDatabase, is_full

#: Sizes of the write-ahead log that start a checkpoint: the first if no job waits, the second always. 1 MiB took 1 to 6
#: ms, 4 MiB 3 to 18 ms.
CHECKPOINT_BYTES, CHECKPOINT_BYTES_MAX = 1 << 20, 4 << 20
#: Space for the pages that SQLite writes in addition to a batch.
SPARE_BYTES = 64 << 10
#: Pages returned to the file system in one step.
SHRINK_PAGES = 64


class LogWriter:
    """The log, used by its one thread only."""

    def __init__(self, files: ReopeningDatabase) -> None:
        self.name = files.name
        self._files = files
        self._touch = 0
        #: There may be dead rows, also from before the process started.
        self._dead_rows = True

    def head(self) -> store.Head:
        return replace(self._files.attempt(LogDatabase.head, "reading the head"), touch=self._touch)

    def read(self, first: int, size_bytes: int) -> list[store.StoredBatch]:
        """Return batches from `first` on."""
        return self._files.attempt(lambda database: database.read(first, size_bytes), f"reading from batch {first}")

    def append(self, after: store.Head, batch: store.StoredBatch) -> store.WriteOutcome:
        try:
            database = self._files.ready()
            if not self._has_room(database, len(batch.raw)):
                return self._refuse(after, database.head())
            if database.append(after, batch):
                return store.WriteOk(store.Head(batch.log_id, batch.seq, batch.digest, database.floor, self._touch))
            return store.WriteConflict(replace(database.head(), touch=self._touch))
        except apsw.FullError as error:
            self._files.broken(error)
            return self._settle_full(after, batch, error)
        except Exception as error:
            self._files.broken(error)
            return store.WriteUnknown(f"{self.name}: appending batch {batch.seq}: {error}")

    def _has_room(self, database: LogDatabase, size_bytes: int) -> bool:
        """Whether a batch fits twice, in write-ahead log and database, next to the next checkpoint.

        The reserve is not counted: trimming needs it, and may have to run that checkpoint first.
        """
        return self._files.has_room(database.wal_pages * PAGE_BYTES + 2 * size_bytes + SPARE_BYTES)

    def _refuse(self, after: store.Head, head: store.Head) -> store.WriteOutcome:
        """Return `WriteFull`; or `WriteConflict` if the head moved, since the batch itself may have committed."""
        if not head.same_place(after):
            return store.WriteConflict(replace(head, touch=self._touch))
        return store.WriteFull(
            f"{self.name}: the disk is full except for the reserve of {self._files.ballast.size_bytes:,} bytes"
        )

    def _settle_full(self, after: store.Head, batch: store.StoredBatch, error: Exception) -> store.WriteOutcome:
        try:
            head = self.head()
        except store.StoreError as unsettled:
            return store.WriteUnknown(f"{self.name}: the disk was full at batch {batch.seq}, and then: {unsettled}")
        if head.same_place(after):
            return store.WriteFull(f"{self.name}: no room for batch {batch.seq} of {len(batch.raw):,} bytes: {error}")
        if (head.seq, head.digest) == (batch.seq, batch.digest):
            return store.WriteOk(head)
        return store.WriteConflict(head)

    def touch(self, at: store.Head) -> store.WriteOutcome:
        """Check the head and count the touch: no second server can have this store open, and none reads it.

        So the count is in memory, for waiters in this process, and starts at 0 with it.
        """
        try:
            head = self.head()
        except store.StoreError as error:
            return store.WriteUnknown(str(error))
        if not head.same_place(at):
            return store.WriteConflict(head)
        self._touch += 1
        return store.WriteOk(replace(head, touch=self._touch))

    def trim(self, log_id: str, floor: int) -> store.WriteOutcome:
        """Raise the floor. The dead rows are removed between jobs."""
        full = ""
        try:
            self._files.attempt_with_reserve(lambda database: database.trim(log_id, floor), f"trimming to {floor}")
        except store.StoreError as error:
            if not is_full(error):
                return store.WriteUnknown(str(error))
            full = str(error)
        try:
            head = self.head()  # after an error: from reopened files
        except store.StoreError as error:
            return store.WriteUnknown(str(error))
        if head.log_id == log_id and head.floor == floor:
            self._dead_rows = True
            return store.WriteOk(head)
        return store.WriteFull(full) if full else store.WriteConflict(head)

    def reclaim_step(self) -> bool:
        """Shrink the files by one small step. False when nothing is left to do."""
        return self._files.attempt_with_reserve(self._reclaim_step, "reclaiming space")

    def _reclaim_step(self, database: LogDatabase) -> bool:
        if database.wal_pages * PAGE_BYTES >= CHECKPOINT_BYTES:
            database.checkpoint()
            return True
        if database.sweep() or database.shrink(SHRINK_PAGES):
            return True
        database.checkpoint(truncate=True)
        self._files.ballast.restore()
        return False

    def size_bytes(self) -> int:
        """Return the size of the log, including its write-ahead log."""
        return self._files.attempt(LogDatabase.size_bytes, "reading its size")

    def keep_house(self, somebody_waits: bool) -> bool:
        """Do one small piece of housekeeping between jobs. Return whether there is more. Never raises."""
        database = self._files.database
        if database is None:
            return False
        wal_bytes = database.wal_pages * PAGE_BYTES
        try:
            if wal_bytes >= (CHECKPOINT_BYTES_MAX if somebody_waits else CHECKPOINT_BYTES):
                database.checkpoint()
            elif self._dead_rows and not somebody_waits:
                self._dead_rows = database.sweep()
        except Exception as error:
            self._dead_rows = False  # until the next trim: a full disk would fail again at once
            self._files.broken(error)
        return self._dead_rows
