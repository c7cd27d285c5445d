"""A database that is opened again after any error, before anything else is said about it.

                error
    ready ----------------> broken: the connection is closed
      ^                        |  the next call, before it does anything:
      +--- made durable, ------+  open again
           head verified

After an error nothing in memory is believed (RULES 21). On a full disk the reserve pays for what makes room (RULES 20).
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
    """The one database of a store, sound or about to be opened again. Belongs to one thread."""

    def __init__(self, path: Path, name: str, ballast: DiskReserve, vfs: str | None) -> None:
        self.name = name
        self.ballast = ballast
        #: The open connection, if there is one.
        self.database: LogDatabase | None = None
        self._path = path
        self._vfs = vfs
        self._limit_bytes: int | None = None

    def open(self, folder_was_in_use: bool) -> None:
        """Open the files, or make them. A log that is gone is not made anew: it would start again from nothing."""
        with self._told_by_name("opening"):
            if not self._path.exists():
                if folder_was_in_use or size_of(Path(f"{self._path}-wal")):
                    raise StoreCorrupt(f"{self.name}: {self._path.name} is missing, snapshots are there\n{WAY_OUT}")
                create(self._path, self._vfs)
            if not self.ballast.restore():
                LOGGER.warning("no room for the reserve", store=self.name, size_bytes=self.ballast.size_bytes)
            self.ready()

    def ready(self) -> LogDatabase:
        """A sound connection. Raises what SQLite raises."""
        if self.database is None:
            try:
                self.database = LogDatabase(self._path, self.name, self._vfs)
            except apsw.FullError:
                # Emptying the write-ahead log can need room in the database: that is what the reserve is for.
                self.ballast.release()
                self.database = LogDatabase(self._path, self.name, self._vfs)
                self.ballast.restore()
            if self._limit_bytes is not None:
                self.database.limit(self._limit_bytes)
        return self.database

    def attempt(self, work: Callable[[LogDatabase], T], doing: str) -> T:
        """Do it on a sound connection. What SQLite or the system raises becomes a `StoreError`."""
        with self._told_by_name(doing):
            return work(self.ready())

    def attempt_with_reserve(self, work: Callable[[LogDatabase], T], doing: str) -> T:
        """Do it, on a full disk with the ballast's room."""
        try:
            return self.attempt(work, doing)
        except StoreError as error:
            if not is_full(error) or not self.ballast.held():
                raise
        LOGGER.warning("the disk is full: using the reserve", store=self.name, doing=doing)
        self.ballast.release()
        return self.attempt(work, doing)

    def has_room(self, size_bytes: int) -> bool:
        """Whether there is so much room beside the reserve, which is taken back first if it was used."""
        return self.ballast.restore() and free_bytes(self._path.parent) >= size_bytes

    def limit(self, size_bytes: int) -> None:
        """Let the database grow to this size and no further."""
        self._limit_bytes = size_bytes
        if self.database is not None:
            self.database.limit(size_bytes)

    def broken(self, error: Exception) -> None:
        """Believe nothing any more of what is in memory."""
        LOGGER.warning("closing the database after an error", store=self.name, error=repr(error))
        database, self.database = self.database, None
        if database is not None:
            try:
                database.close()
            except Exception as again:
                LOGGER.warning("closing it failed too", store=self.name, error=repr(again))

    def close(self) -> None:
        """Leave everything in the database file, and let go of it."""
        if self.database is None:
            return
        try:
            self.database.checkpoint(truncate=True)
        except Exception as error:
            self.broken(error)  # nothing is lost: the next one to open finds it in the write-ahead log
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
                f"{self.name}: {doing}: {error}\nhint: look at the disk; the files are opened again with the next call"
            ) from error


def is_full(error: StoreError) -> bool:
    """Whether it was for want of room."""
    return isinstance(error.__cause__, apsw.FullError)
