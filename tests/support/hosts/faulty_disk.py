"""A disk that fails on command, and that remembers what would be left of its files if the power went now.

It stands between SQLite and the real files. SQLite reads back what it wrote, as from a page cache; what is durable is
kept beside it by stricter rules: a write counts once a later sync of its file succeeded. A sync that fails loses some
of the writes before it for good, and later syncs do not bring them back. That is how Linux behaves.
"""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import apsw
from apsw import SQLITE_FULL as DISK_FULL
from apsw import SQLITE_IOERR_FSYNC as SYNC_FAILED
from apsw import SQLITE_IOERR_READ as READ_FAILED
from apsw import SQLITE_IOERR_WRITE as WRITE_FAILED

__all__ = ["DISK_FULL", "READ_FAILED", "SYNC_FAILED", "WRITE_FAILED", "FaultyDisk"]

_names = (f"disk-{number}" for number in itertools.count())


@dataclass
class DiskFault:
    code: int
    after: int
    beyond: int


class DurableContent:
    """One file: what is durable of it, and what was written since the last sync."""

    def __init__(self, durable: bytes) -> None:
        self.durable = bytearray(durable)
        self.waiting: list[tuple[int, bytes | None]] = []

    def synced(self) -> None:
        _put(self.durable, self.waiting)
        self.waiting = []

    def lost(self, chance: random.Random) -> None:
        _put(self.durable, [change for change in self.waiting if chance.random() < 0.5])
        self.waiting = []

    def left(self, chance: random.Random) -> bytes:
        """What might be found after the power failed: anything that waited may have been written, or not."""
        left = bytearray(self.durable)
        _put(left, [change for change in self.waiting if chance.random() < 0.5])
        return bytes(left)


def _put(content: bytearray, changes: list[tuple[int, bytes | None]]) -> None:
    for offset, data in changes:
        if data is None:
            del content[offset:]
        else:
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data


class FaultyDisk(apsw.VFS):
    """Hand its `name` to the store. `fail` breaks it, `heal` makes it whole."""

    def __init__(self, seed: int = 0) -> None:
        self.name = next(_names)
        self.files: dict[str, DurableContent] = {}
        self.instant = threading.Lock()
        self.chance = random.Random(seed)
        self._failing: dict[tuple[str, str], DiskFault] = {}
        super().__init__(self.name, "")

    def fail(self, what: str, file: str, code: int, *, after: int = 0, beyond: int = 0) -> None:
        """From now on `sync`, `write` or `read` fails on a file (`log.db`, `log.db-wal`).

        After some that do not; or, for writes, only beyond a size: a file that cannot grow.
        """
        self._failing[what, file] = DiskFault(code, after, beyond)

    def heal(self) -> None:
        self._failing.clear()

    def check(self, what: str, file: str, end: int = 0) -> None:
        fault = self._failing.get((what, file))
        if fault is None or end < fault.beyond:
            return
        if fault.after == 0:
            raise apsw.exception_for(fault.code)
        fault.after -= 1

    def power_cut(self, folder: Path) -> Path:
        """Write what might be left into a folder. All files at one instant: the store's thread may be at work."""
        folder.mkdir()
        with self.instant:
            for name, kept in self.files.items():
                (folder / name).write_bytes(kept.left(self.chance))
        return folder

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802 (SQLite's name)
        return _File(self, name, flags)

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        return True  # failing on command is not news


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name))
        super().__init__("", name, flags)
        self.disk = disk
        self.file = path.name
        self.kept = disk.files.setdefault(self.file, DurableContent(path.read_bytes()))

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.check("read", self.file)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.check("write", self.file, offset + len(data))
        super().xWrite(data, offset)
        with self.disk.instant:
            self.kept.waiting.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        with self.disk.instant:
            self.kept.waiting.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self.disk.instant:
            try:
                self.disk.check("sync", self.file)
            except apsw.Error:
                self.kept.lost(self.disk.chance)
                raise
            self.kept.synced()  # what is durable is decided here: waiting for the real disk would only cost time

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        return True
