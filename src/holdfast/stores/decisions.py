"""Where decisions are kept: a database of its own beside the store, or one in memory.

    event loop --> one thread --> decisions.db

It is derived from the log, so it is not worth what a log is: a commit is not synced before it is answered, only before
anybody relies on it (`settle`). A file that is not a sound database of ours is put aside and begun anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.core.model.shapes import Instant
from holdfast.host.journal import Journal
from holdfast.host.kept import Asked, Page, Place, Reading
from holdfast.host.store import StoreError
from holdfast.stores.decisions_find import Search
from holdfast.stores.decisions_sql import APPLICATION_ID, FORMAT, PAGE_BYTES, TABLES, DecisionRows
from holdfast.stores.worker import Worker

T = TypeVar("T")

JOURNAL = Journal("decisions")
#: The write-ahead log is copied into the database from so many pages on.
CHECKPOINT_PAGES = 1_000


class Unsound(Exception):
    """A file that is no database of decisions, or of another version."""


class _Opened:
    """The database, opened when it is needed, and again after any error."""

    def __init__(self, path: Path | None) -> None:
        self.name = f"decisions:{path}" if path is not None else "decisions in memory"
        self._path = path
        self._connection: apsw.Connection | None = None

    def attempt(self, work: Callable[[apsw.Connection], T], doing: str) -> T:
        """Do it on a sound connection. What SQLite or the system raises becomes a `StoreError`."""
        try:
            return work(self._ready())
        except (apsw.Error, OSError) as error:
            self.close()
            if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                self._put_aside(error)
            raise StoreError(
                f"{self.name}: {doing}: {error}\nhint: look at the disk; it is opened again with the next call"
            ) from error

    def close(self) -> None:
        """Let go of it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close(True)

    def _ready(self) -> apsw.Connection:
        if self._connection is None:
            try:
                self._connection = self._open()
            except (apsw.CorruptError, apsw.NotADBError, Unsound) as error:
                self._put_aside(error)
                self._connection = self._open()
        return self._connection

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path) if self._path is not None else ":memory:")
        try:
            if not connection.execute("PRAGMA page_count").get:
                connection.execute(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA auto_vacuum=INCREMENTAL").fetchall()
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                connection.execute(TABLES).fetchall()
            found = [connection.execute(f"PRAGMA {one}").get for one in ("application_id", "user_version")]
            if found != [APPLICATION_ID, FORMAT]:
                raise Unsound(f"it is marked {found}, not {[APPLICATION_ID, FORMAT]}")
            connection.execute(f"PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchall()
            DecisionRows(connection).place()
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _put_aside(self, error: Exception) -> None:
        """Keep what is there, for whoever wants to look, and make room for a new one."""
        if self._path is None:
            return
        JOURNAL.warning("put-aside", file=self._path, why=repr(error))
        with suppress(FileNotFoundError):
            self._path.replace(self._path.with_name(f"{self._path.name}.aside"))
        for part in ("-wal", "-shm"):
            Path(f"{self._path}{part}").unlink(missing_ok=True)


def _settled(connection: apsw.Connection) -> int:
    seq = DecisionRows(connection).place().seq
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    return seq


class DecisionsInMemory:
    """For stores in memory, tests and simulations: no thread, nothing left when the object is gone."""

    def __init__(self) -> None:
        self._opened = _Opened(None)

    async def _do(self, work: Callable[[apsw.Connection], T], doing: str) -> T:
        found = self._opened.attempt(work, doing)
        await asyncio.sleep(0)
        return found

    async def place(self) -> Place:
        return await self._do(lambda one: DecisionRows(one).place(), "reading")

    async def begin(self, place: Place) -> None:
        await self._do(lambda one: DecisionRows(one).begin(place), "beginning")

    async def add(self, reading: Reading, place: Place) -> None:
        await self._do(lambda one: DecisionRows(one).add(reading, place), "writing")

    async def settle(self) -> int:
        return await self._do(_settled, "syncing")

    async def find(self, asked: Asked) -> Page:
        return await self._do(lambda one: Search(one, asked, DecisionRows(one).place()).page(), "searching")

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        return await self._do(lambda one: DecisionRows(one).tidy(before, size_bytes), "tidying")

    async def close(self) -> None:
        """Nothing ends: the next life of its server finds what was written."""


class DecisionsInFile(DecisionsInMemory):
    """For a store in a folder: one file there, and a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._opened = _Opened(path)
        self._worker = Worker(f"decisions {path}")

    async def _do(self, work: Callable[[apsw.Connection], T], doing: str) -> T:
        return await self._worker.run(lambda: self._opened.attempt(work, doing))

    async def close(self) -> None:
        await self._worker.stop(self._opened.close)
