"""What the one thread that owns the database does, and what it makes of errors.

An append that meets an error is `WriteUnknown`. Its repeat opens the files again first (`reopening`), and finds either
that its own digest is in the head or that it can be written (RULES 2). Only for a full disk is the opening done at
once: with the write-ahead log emptied, what is not in the head cannot appear later, and the answer can be a plain
`WriteFull`.

Between jobs the thread does housekeeping in small pieces: checkpoints, and removing rows behind the floor.
"""

from __future__ import annotations

import apsw
from msgspec.structs import replace

from holdfast.host.ports.store import (
    Head,
    StoredBatch,
    StoreError,
    WriteConflict,
    WriteFull,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
)
from holdfast.stores.sqlite.database import PAGE_BYTES, LogDatabase
from holdfast.stores.sqlite.reopening import ReopeningDatabase, is_full

#: The write-ahead log is copied into the database from this size on when nobody waits, and from the second size on
#: even if somebody does: 1 MiB took 1 to 6 ms, 4 MiB 3 to 18 ms.
CHECKPOINT_BYTES, CHECKPOINT_BYTES_MAX = 1 << 20, 4 << 20
#: Room for the pages that SQLite writes beside a batch.
SPARE_BYTES = 64 << 10
#: Pages given back to the file system in one step.
SHRINK_PAGES = 64


class LogWriter:
    """The log, as its one thread sees it. No method may be called from another."""

    def __init__(self, files: ReopeningDatabase) -> None:
        self.name = files.name
        self._files = files
        self._touch = 0
        #: There may be rows behind the floor, of a trim or of one before the process started.
        self._dead_rows = True

    def head(self) -> Head:
        """The head, from the database."""
        return replace(self._files.attempt(LogDatabase.head, "reading the head"), touch=self._touch)

    def read(self, first: int, size_bytes: int) -> list[StoredBatch]:
        """Batches from `first` on."""
        return self._files.attempt(lambda database: database.read(first, size_bytes), f"reading from batch {first}")

    def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        """Write a batch after the head it names."""
        try:
            database = self._files.ready()
            if not self._has_room(database, len(batch.raw)):
                return self._refuse(after, database.head())
            if database.append(after, batch):
                return WriteOk(Head(batch.log_id, batch.seq, batch.digest, database.floor, self._touch))
            return WriteConflict(replace(database.head(), touch=self._touch))
        except apsw.FullError as error:
            self._files.broken(error)
            return self._settle_full(after, batch, error)
        except Exception as error:
            self._files.broken(error)
            return WriteUnknown(f"{self.name}: appending batch {batch.seq}: {error}")

    def _has_room(self, database: LogDatabase, size_bytes: int) -> bool:
        """Whether a batch fits twice, in the write-ahead log and in the database, beside what is to be copied there.

        With the reserve left alone: that is for trimming, which may have to copy it all first.
        """
        return self._files.has_room(database.wal_pages * PAGE_BYTES + 2 * size_bytes + SPARE_BYTES)

    def _refuse(self, after: Head, head: Head) -> WriteOutcome:
        """A batch that landed when nobody could tell is not refused for want of room."""
        if not head.same_place(after):
            return WriteConflict(replace(head, touch=self._touch))
        return WriteFull(
            f"{self.name}: the disk is full but for the reserve of {self._files.ballast.size_bytes:,} bytes"
        )

    def _settle_full(self, after: Head, batch: StoredBatch, error: Exception) -> WriteOutcome:
        try:
            head = self.head()
        except StoreError as unsettled:
            return WriteUnknown(f"{self.name}: the disk was full at batch {batch.seq}, and then: {unsettled}")
        if head.same_place(after):
            return WriteFull(f"{self.name}: no room for batch {batch.seq} of {len(batch.raw):,} bytes: {error}")
        if (head.seq, head.digest) == (batch.seq, batch.digest):
            return WriteOk(head)
        return WriteConflict(head)

    def touch(self, at: Head) -> WriteOutcome:
        """A sign of life is worth a look at the head: no second server can have this store open, and none reads it.

        So the count is kept in memory, for those in this process who wait for it, and starts again with the process.
        """
        try:
            head = self.head()
        except StoreError as error:
            return WriteUnknown(str(error))
        if not head.same_place(at):
            return WriteConflict(head)
        self._touch += 1
        return WriteOk(replace(head, touch=self._touch))

    def trim(self, log_id: str, floor: int) -> WriteOutcome:
        """Raise the floor. The rows behind it are removed between jobs."""
        full = ""
        try:
            self._files.attempt_with_reserve(lambda database: database.trim(log_id, floor), f"trimming to {floor}")
        except StoreError as error:
            if not is_full(error):
                return WriteUnknown(str(error))
            full = str(error)
        try:
            head = self.head()  # after an error: from files that were opened again
        except StoreError as error:
            return WriteUnknown(str(error))
        if head.log_id == log_id and head.floor == floor:
            self._dead_rows = True
            return WriteOk(head)
        return WriteFull(full) if full else WriteConflict(head)

    def reclaim_step(self) -> bool:
        """A small piece of making the files smaller; False when they are as small as they get."""
        return self._files.attempt_with_reserve(self._reclaim_step, "reclaiming room")

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
        """What the log takes, with what is still in the write-ahead log."""
        return self._files.attempt(LogDatabase.size_bytes, "asking for its size")

    def keep_house(self, somebody_waits: bool) -> bool:
        """One small piece of housekeeping; whether there is more. Called between jobs; never raises."""
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
