"""A database that is reopened after any error, before any other answer.

                error
    ready ----------------> broken: the connection is closed
      ^                        |  the next call, before its own work:
      +--- made durable, ------+  reopen
           head verified

After an error nothing in memory is trusted (RULES 21). On a full disk the reserve provides the space that trimming
needs (RULES 20).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from holdfast.host.ports.store import StoreCorrupt, StoreError
from holdfast.host.runtime.telemetry import Logger
from holdfast.stores.files.folder import DiskReserve, free_bytes, size_of
from holdfast.stores.sqlite.database import WAY_OUT, LogDatabase, create

T = TypeVar("T")

LOGGER = Logger("store")


class ReopeningDatabase:
    """The database of a store, open or to be reopened. Used by one thread."""

    def __init__(self, path: Path, name: str, ballast: DiskReserve, vfs: str | None) -> None:
        self.name = name
        self.ballast = ballast
        #: The open connection, or None.
        self.database: LogDatabase | None = None
        self._path = path
        self._vfs = vfs
        self._limit_bytes: int | None = None

    def open(self, folder_was_in_use: bool) -> None:
        """Open the files, or create them. A missing log of a used store is not created: its batches would be lost."""
        with self._told_by_name("opening"):
            if not self._path.exists():
                if folder_was_in_use or size_of(Path(f"{self._path}-wal")):
                    raise StoreCorrupt(f"{self.name}: {self._path.name} is missing, but snapshots exist\n{WAY_OUT}")
                create(self._path, self._vfs)
            if not self.ballast.restore():
                LOGGER.warning("no room for the reserve", store=self.name, size_bytes=self.ballast.size_bytes)
            self.ready()

    def ready(self) -> LogDatabase:
        """Return a working connection. Raises SQLite's errors."""
        if self.database is None:
            try:
                self.database = LogDatabase(self._path, self.name, self._vfs)
            except apsw.FullError:
                # Emptying the write-ahead log may need space in the database: the reserve provides it.
                self.ballast.release()
                self.database = LogDatabase(self._path, self.name, self._vfs)
                self.ballast.restore()
            if self._limit_bytes is not None:
                self.database.limit(self._limit_bytes)
        return self.database

    def attempt(self, work: Callable[[LogDatabase], T], doing: str) -> T:
        """Run `work` on a working connection. Errors of SQLite or the system become `StoreError`."""
        with self._told_by_name(doing):
            return work(self.ready())

    def attempt_with_reserve(self, work: Callable[[LogDatabase], T], doing: str) -> T:
        """Run `work`; on a full disk, with the space of the reserve."""
        try:
            return self.attempt(work, doing)
        except StoreError as error:
            if not is_full(error) or not self.ballast.held():
                raise
        LOGGER.warning("the disk is full: using the reserve", store=self.name, doing=doing)
        self.ballast.release()
        return self.attempt(work, doing)

    def has_room(self, size_bytes: int) -> bool:
        """Whether this much space is free next to the reserve, which is restored first."""
        return self.ballast.restore() and free_bytes(self._path.parent) >= size_bytes

    def limit(self, size_bytes: int) -> None:
        self._limit_bytes = size_bytes
        if self.database is not None:
            self.database.limit(size_bytes)

    def broken(self, error: Exception) -> None:
        """Close the connection, so that nothing in memory is trusted."""
        LOGGER.warning("closing the database after an error", store=self.name, error=repr(error))
        database, self.database = self.database, None
        if database is not None:
            try:
                database.close()
            except Exception as again:
                LOGGER.warning("closing it failed too", store=self.name, error=repr(again))

    def close(self) -> None:
        """Move everything into the database file and close it."""
        if self.database is None:
            return
        try:
            self.database.checkpoint(truncate=True)
        except Exception as error:
            self.broken(error)  # nothing is lost: the next connection reads the write-ahead log
        else:
            self.database.close()
            self.database = None

    @contextmanager
    def _told_by_name(self, doing: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self.broken(error)
            raise StoreCorrupt(f"{self.name}: {doing}: {error}\n{WAY_OUT}") from error
        except Exception as error:
            self.broken(error)
            raise StoreError(
                f"{self.name}: {doing}: {error}\nhint: check the disk; the next call opens the files again"
            ) from error


def is_full(error: StoreError) -> bool:
    """Whether the error is a full disk."""
    return isinstance(error.__cause__, apsw.FullError)
