"""The newest term seen, on the node's disk: a leader of a lower term was deposed and is not followed (RULES 3)."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.host.runtime.files import write_atomically
from holdfast.host.runtime.telemetry import Logger

NAME = "newest-term.json"
#: Longest time that the event loop waits for the disk.
WRITE_S = 0.1


class TermFence:
    """The newest term that one node has seen. `keep` makes a newer one durable before any leader is followed in it."""

    def __init__(self, newest: tuple[str, int], keep: Callable[[str, int], None]) -> None:
        self.newest = newest
        self._keep = keep

    def heard(self, log_id: str, term: int) -> bool:
        """Whether to follow a leader of this term: not if the term could not be stored, as on a full disk.

        Terms of another log, of another or a restored region, are not comparable.
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
    """Return the term stored in this folder. `ValueError` if its file is unreadable."""
    file = folder / NAME
    return TermFence(_read(file), _File(file).keep)


class _File:
    """The file of the newest term. One thread at a time writes it, in order; callers wait for at most `WRITE_S`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writes: threading.Thread | None = None
        self._kept: tuple[str, int] | None = None
        self._error: OSError | None = None

    def keep(self, log_id: str, term: int) -> None:
        """Make the term durable. `OSError` if it is not, or not yet: the write goes on, and a later call returns its
        result."""
        if self._writes is None or not self._writes.is_alive():
            if self._kept == (log_id, term):
                return
            self._error = None
            self._writes = threading.Thread(target=self._write, args=(log_id, term), name="terms", daemon=True)
            self._writes.start()
            self._writes.join(WRITE_S)
        if self._writes.is_alive():
            raise OSError(errno.EAGAIN, f"{self._file}: the write to disk has not finished yet")
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
        raise ValueError(f"{file} holds no valid term ({error}); remove it by hand") from error


def _write(file: Path, log_id: str, term: int) -> None:
    write_atomically(file, json.dumps({"log": log_id, "term": term}))
