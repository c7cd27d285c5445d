"""The newest term that was ever heard of: whoever leads a lower one was deposed (RULES 3). Kept on the node's disk."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.host.runtime.files import write_atomically
from holdfast.host.runtime.telemetry import Logger

NAME = "newest-term.json"
#: So long a loop waits for the disk at a time.
WRITE_S = 0.1


class TermFence:
    """One node's memory of its region's leaders. `keep` makes a newer one durable before anybody is followed in it."""

    def __init__(self, newest: tuple[str, int], keep: Callable[[str, int], None]) -> None:
        self.newest = newest
        self._keep = keep

    def heard(self, log_id: str, term: int) -> bool:
        """Whether a leader of this term may be followed: not if that could be forgotten, as on a full disk.

        Another log is another region, or one that was restored: its terms have nothing to do with those of the last.
        """
        known_log, known = self.newest
        if log_id == known_log and term <= known:
            return term == known
        try:
            self._keep(log_id, term)
        except OSError as error:
            Logger("agent").warning("term-not-kept", log=log_id, term=term, why=error)
            return False
        self.newest = log_id, term
        return True


def term_fence_on_disk(folder: Path) -> TermFence:
    """The terms that this folder remembers. `ValueError` when what it has cannot be read."""
    file = folder / NAME
    return TermFence(_read(file), _File(file).keep)


class _File:
    """Where it is kept. A thread writes, one at a time and in order, and is waited for as long as a loop can stand."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writes: threading.Thread | None = None
        self._kept: tuple[str, int] | None = None
        self._error: OSError | None = None

    def keep(self, log_id: str, term: int) -> None:
        """Make it durable. `OSError` when that is not so, or not yet: it goes on, and whoever asks again is told."""
        if self._writes is None or not self._writes.is_alive():
            if self._kept == (log_id, term):
                return
            self._error = None
            self._writes = threading.Thread(target=self._write, args=(log_id, term), name="terms", daemon=True)
            self._writes.start()
            self._writes.join(WRITE_S)
        if self._writes.is_alive():
            raise OSError(errno.EAGAIN, f"{self._file}: the disk has not answered yet")
        if self._error is not None:
            raise self._error

    def _write(self, log_id: str, term: int) -> None:
        try:
            _write(self._file, log_id, term)
            self._kept = log_id, term
        except OSError as error:
            self._error = error


def _read(file: Path) -> tuple[str, int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return str(found["log"]), int(found["term"])
    except FileNotFoundError:
        return "", 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} does not say which term was heard of last ({error}); remove it by hand") from error


def _write(file: Path, log_id: str, term: int) -> None:
    write_atomically(file, json.dumps({"log": log_id, "term": term}))
