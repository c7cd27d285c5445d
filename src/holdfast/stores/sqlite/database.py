"""The database of an embedded store: one head row and one row per batch, in SQLite with a write-ahead log.

    head     (log_id, seq, digest, floor, openings)  one row
    batches  (seq, digest, raw)                      rows up to the floor are dead and are removed in steps

Pages are 8 KiB: compared with 4 KiB, commits of 14 KB took 4 % longer, those of 200 KB 10 % less. The write-ahead log
is overwritten in place once its frames are in the database, so most commits change no file system metadata and cost
less than an appending write with fdatasync. No commit contains a checkpoint.

All code here runs on one thread and raises SQLite's errors for `log_writer`.
"""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path
from typing import Any

import apsw

from holdfast.host.ports.store import Head, LogTrimmed, StoreCorrupt, StoredBatch, StoreError, trimmed_message
from holdfast.host.runtime.files import sync_folder

APPLICATION_ID = 0x484C4446  # "HLDF"
FORMAT = 1
PAGE_BYTES = 8192
#: A write-ahead log that a large transaction grew beyond this is truncated when next overwritten.
WAL_BYTES_MAX = 8 << 20
#: Limits of one step of removing dead rows: rows, and approximate bytes.
SWEEP_ROWS, SWEEP_BYTES = 64, 1 << 20

#: The hint for an operator whose store is damaged.
WAY_OUT = "hint: keep a copy of the folder, then restore a backup or start this server from another server's snapshot"

_PRAGMAS = ("locking_mode=EXCLUSIVE", "synchronous=FULL", "wal_autocheckpoint=0", f"journal_size_limit={WAL_BYTES_MAX}")
_TABLES = f"""
    BEGIN IMMEDIATE;
    PRAGMA application_id={APPLICATION_ID};
    PRAGMA user_version={FORMAT};
    CREATE TABLE head (
        log_id TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL, floor INTEGER NOT NULL,
        openings INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE batches (seq INTEGER PRIMARY KEY, digest BLOB NOT NULL, raw BLOB NOT NULL) STRICT;
    INSERT INTO head VALUES ('', 0, x'', 0, 0);
    COMMIT;
"""


def create(path: Path, vfs: str | None = None) -> None:
    """Create an empty database under a temporary name and rename it: a file of that name is always complete."""
    new = path.with_name(path.name + ".new")
    for leftover in (new, Path(f"{new}-wal")):
        leftover.unlink(missing_ok=True)
    connection = apsw.Connection(str(new), vfs=vfs)
    try:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA auto_vacuum=INCREMENTAL").fetchall()
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL").fetchall()
        connection.execute(_TABLES).fetchall()
    finally:
        connection.close()
    os.rename(new, path)
    sync_folder(path.parent)


class LogDatabase:
    """One open connection. Opening it makes its content durable, whatever happened to the last one."""

    def __init__(self, path: Path, name: str, vfs: str | None = None) -> None:
        self.path = path
        self.name = name
        #: Pages in the write-ahead log at the last commit.
        self.wal_pages = 0
        #: The trim floor when it was last read.
        self.floor = 0
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        # Closing after an error must not write: the next connection relies on the files.
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma in _PRAGMAS:
            self._pragma(pragma)
        self._recognise()
        self._pragma("journal_mode=WAL")
        self._connection.set_wal_hook(self._committed)
        # After a failed fsync the page cache may hold data that the disk lacks, and report it as clean. So the
        # write-ahead log is copied into the database file and synced before any answer. Its truncation must be durable,
        # too: after a power cut, an older part of it would overwrite the database. A commit starts a new log and syncs
        # it. (It must change a value, or SQLite writes nothing.)
        self.checkpoint(truncate=True)
        self._connection.execute("UPDATE head SET openings = openings + 1")
        self._verify()

    def close(self) -> None:
        """Close the files without writing."""
        self._connection.close(True)

    def head(self) -> Head:
        """Read the head from the database."""
        row = self._connection.execute("SELECT log_id, seq, digest, floor FROM head").fetchone()
        if row is None:
            raise StoreCorrupt(f"{self.name}: the head is missing\n{WAY_OUT}")
        head = Head(*row)
        self.floor = head.floor
        return head

    def append(self, after: Head, batch: StoredBatch) -> bool:
        """Move the head and write the batch in one transaction. If the head is not `after`, write nothing: False."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            "UPDATE head SET log_id = ?, seq = ?, digest = ? WHERE log_id = ? AND seq = ? AND digest = ?",
            (batch.log_id, batch.seq, batch.digest, after.log_id, after.seq, after.digest),
        )
        if self._connection.changes() != 1:
            execute("ROLLBACK")
            return False
        execute("INSERT INTO batches VALUES (?, ?, ?)", (batch.seq, batch.digest, batch.raw))
        execute("COMMIT")
        return True

    def trim(self, log_id: str, floor: int) -> bool:
        """Raise the floor. False if it is of another log, lower than now, or past the head."""
        self._connection.execute(
            "UPDATE head SET floor = ?1 WHERE log_id = ?2 AND floor <= ?1 AND seq >= ?1", (floor, log_id)
        )
        moved = self._connection.changes() == 1
        self.floor = floor if moved else self.floor
        return moved

    def sweep(self) -> bool:
        """Remove one step of dead rows. False if none was left."""
        execute = self._connection.execute
        dead = "SELECT seq, length(raw) FROM batches WHERE seq <= ? ORDER BY seq LIMIT ?"
        rows: list[tuple[Any, ...]] = execute(dead, (self.floor, SWEEP_ROWS)).fetchall()
        if not rows:
            return False
        sizes = accumulate(length for _, length in rows)
        last = next((seq for (seq, _), size in zip(rows, sizes, strict=True) if size >= SWEEP_BYTES), rows[-1][0])
        execute("DELETE FROM batches WHERE seq <= ?", (last,))
        return True

    def shrink(self, pages: int) -> bool:
        """Give some free pages back to the file system. False if none was left."""
        if not self._pragma("freelist_count"):
            return False
        self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        return True

    def size_bytes(self) -> int:
        """Return the size of the database after a full checkpoint."""
        return self._pragma("page_count") * PAGE_BYTES

    def limit(self, size_bytes: int) -> None:
        self._pragma(f"max_page_count={max(1, size_bytes // PAGE_BYTES)}")

    def checkpoint(self, *, truncate: bool = False) -> None:
        """Copy the write-ahead log into the database durably; with `truncate`, empty the log."""
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE
        self._connection.wal_checkpoint(mode=mode)
        self.wal_pages = 0

    def read(self, first: int, size_bytes: int) -> list[StoredBatch]:
        """Return batches from `first` on, without a gap."""
        head = self.head()
        if first <= head.floor:
            raise LogTrimmed(trimmed_message(self.name, first, head.floor))
        found: list[StoredBatch] = []
        for seq, digest, raw in self._connection.execute(
            "SELECT seq, digest, raw FROM batches WHERE seq >= ? ORDER BY seq", (first,)
        ):
            if seq != first + len(found):
                break
            size_bytes -= len(raw)
            if found and size_bytes < 0:
                return found
            found.append(StoredBatch(head.log_id, seq, digest, raw))
        missing = first + len(found)
        if missing <= head.seq:
            raise StoreCorrupt(f"{self.name}: batch {missing} is missing, the head is at {head.seq}\n{WAY_OUT}")
        return found

    def _recognise(self) -> None:
        """Reject a file of another program or of a later version."""
        if not self._pragma("page_count"):
            raise StoreCorrupt(f"{self.name}: {self.path.name} is empty: its content is lost\n{WAY_OUT}")
        if self._pragma("application_id") != APPLICATION_ID:
            raise StoreError(f"{self.name}: {self.path.name} is not a Holdfast log\nhint: name another folder")
        version = self._pragma("user_version")
        if version > FORMAT:
            raise StoreError(
                f"{self.name}: {self.path.name} has format {version}, this version reads up to {FORMAT}\n"
                "hint: run the version that wrote it, or a newer one"
            )

    def _verify(self) -> None:
        """Check that head and last batch agree."""
        head = self.head()
        last = self._connection.execute("SELECT seq, digest FROM batches ORDER BY seq DESC LIMIT 1").fetchone()
        seq, digest = last or (0, b"")
        if seq <= head.floor and head.seq == head.floor:
            return  # all batches are trimmed; the rows wait to be removed
        if (seq, digest) != (head.seq, head.digest):
            raise StoreCorrupt(
                f"{self.name}: the head is batch {head.seq} with digest {head.digest.hex()[:16]}, "
                f"the last batch is {seq} with digest {digest.hex()[:16]}\n{WAY_OUT}"
            )

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _pragma(self, text: str) -> int:
        value = self._connection.execute(f"PRAGMA {text}").get
        return value if isinstance(value, int) else 0
