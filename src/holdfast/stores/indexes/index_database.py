"""The database of an index of a log: a separate file next to the store, or one in memory.

    event loop --> one thread --> decisions.db, audit.db

It is derived from the log, so a commit is not synced before the answer, only before the log is trimmed (`settle`). A
file that is not a sound database of this index is set aside, and a new one is created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import apsw

from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.index_store import IndexPosition
from holdfast.host.ports.store import StoreError
from holdfast.host.runtime.telemetry import Logger
from holdfast.stores.worker_thread import WorkerThread

PAGE_BYTES = 8192

#: Creates a database: its marks, the row that states how far the log was read, and the tables of its schema.
CREATE = """
    BEGIN IMMEDIATE;
    PRAGMA application_id={schema.application_id};
    PRAGMA user_version={schema.format};
    CREATE TABLE place (
        log_id TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL, since INTEGER NOT NULL
    ) STRICT;
    INSERT INTO place VALUES ('', 0, x'', 0);
    {schema.tables}
    COMMIT;
"""

T = TypeVar("T")


class IndexRows(Protocol):
    """The rows of one open database."""

    def position(self) -> IndexPosition:
        """Return how far the log was read."""

    def begin(self, position: IndexPosition) -> None:
        """Drop everything, and start after this position."""

    def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop older rows, and above the size limit the oldest. Return the new size."""


class IndexSchema(NamedTuple):
    """Name in messages, file marks, tables and rows of a database."""

    name: str
    application_id: int
    format: int
    tables: str
    rows: Callable[[apsw.Connection], IndexRows]


class LogRows:
    """One open connection to the tables of an index, one of which states how far the log was read."""

    #: The tables of rows, which are dropped together.
    tables: tuple[str, ...]

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def position(self) -> IndexPosition:
        """Return how far the log was read."""
        return IndexPosition(*next(iter(self._execute("SELECT log_id, seq, digest, since FROM place"))))

    def begin(self, position: IndexPosition) -> None:
        """Drop everything, and start after this position."""
        with self._connection:
            for table in self.tables:
                self._execute(f"DELETE FROM {table}")
            self._execute("UPDATE place SET since = 0")
            self._move(position)

    def _move(self, position: IndexPosition) -> None:
        row = (position.log_id, position.seq, position.digest, position.since)
        self._execute("UPDATE place SET log_id = ?, seq = ?, digest = ?, since = max(since, ?)", row)

    def _shrink(self, size_bytes: int, shed: Callable[[], bool]) -> int:
        """Drop rows with `shed`, which returns False if there are none, down to this size. Return the new size."""
        while self.size_bytes() > size_bytes and shed():
            pass
        self._execute("PRAGMA incremental_vacuum").fetchall()
        return self.size_bytes()

    def size_bytes(self) -> int:
        """Return the size of the rows."""
        pages, free = (int(self._execute(f"PRAGMA {name}").get) for name in ("page_count", "freelist_count"))
        return (pages - free) * PAGE_BYTES


#: Pages of the write-ahead log from which on it is copied into the database.
CHECKPOINT_PAGES = 1_000


class UnsoundIndex(Exception):
    """A file that is no database of this index, or of another version."""


class _Opened:
    """The database, opened on use, and reopened after any error."""

    def __init__(self, schema: IndexSchema, path: Path | None) -> None:
        self.name = f"{schema.name}:{path}" if path is not None else f"{schema.name} in memory"
        self.schema = schema
        self._logger = Logger(schema.name)
        self._path = path
        self._connection: apsw.Connection | None = None

    def attempt(self, work: Callable[[apsw.Connection], T], doing: str) -> T:
        """Run `work` on a working connection. Errors of SQLite or the system become `StoreError`."""
        try:
            return work(self._ready())
        except (apsw.Error, OSError) as error:
            self.close()
            if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                self._put_aside(error)
            raise StoreError(
                f"{self.name}: {doing}: {error}\nhint: check the disk; the next call opens it again"
            ) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close(True)

    def _ready(self) -> apsw.Connection:
        if self._connection is None:
            try:
                self._connection = self._open()
            except (apsw.CorruptError, apsw.NotADBError, UnsoundIndex) as error:
                self._put_aside(error)
                self._connection = self._open()
        return self._connection

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path) if self._path is not None else ":memory:")
        try:
            if not connection.execute("PRAGMA page_count").get:
                connection.execute(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA auto_vacuum=INCREMENTAL").fetchall()
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                connection.execute(CREATE.format(schema=self.schema)).fetchall()
            found = [connection.execute(f"PRAGMA {one}").get for one in ("application_id", "user_version")]
            wanted = [self.schema.application_id, self.schema.format]
            if found != wanted:
                raise UnsoundIndex(f"it is marked {found}, not {wanted}")
            connection.execute(f"PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchall()
            self.schema.rows(connection).position()
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _put_aside(self, error: Exception) -> None:
        """Rename the file for later inspection, to make room for a new one."""
        if self._path is None:
            return
        self._logger.warning("put-aside", file=self._path, why=repr(error))
        with suppress(FileNotFoundError):
            self._path.replace(self._path.with_name(f"{self._path.name}.aside"))
        for part in ("-wal", "-shm"):
            Path(f"{self._path}{part}").unlink(missing_ok=True)


class IndexDatabase:
    """An index of a store in a folder: one file there, and a thread of its own. Without a path it is in memory, for
    memory stores, tests and simulations, and has no thread."""

    def __init__(self, schema: IndexSchema, path: Path | None = None) -> None:
        self._opened = _Opened(schema, path)
        self._schema = schema
        self._worker = WorkerThread(f"{schema.name} {path}") if path is not None else None

    async def _do(self, work: Callable[[apsw.Connection], T], doing: str) -> T:
        if self._worker is not None:
            return await self._worker.run(lambda: self._opened.attempt(work, doing))
        found = self._opened.attempt(work, doing)
        await asyncio.sleep(0)
        return found

    async def position(self) -> IndexPosition:
        return await self._do(lambda one: self._schema.rows(one).position(), "reading")

    async def begin(self, position: IndexPosition) -> None:
        await self._do(lambda one: self._schema.rows(one).begin(position), "beginning")

    async def settle(self) -> int:
        return await self._do(self._settled, "syncing")

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        return await self._do(lambda one: self._schema.rows(one).tidy(before, size_bytes), "tidying")

    async def close(self) -> None:
        """Close the file. Rows in memory remain: the next server on this object finds them."""
        if self._worker is not None:
            await self._worker.stop(self._opened.close)

    def _settled(self, connection: apsw.Connection) -> int:
        seq = self._schema.rows(connection).position().seq
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return seq
