"""The newest term that was ever heard of: whoever leads a lower one was deposed (RULES 3). Kept on the node's disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from holdfast.host.journal import Journal

NAME = "newest-term.json"


class Terms:
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
            Journal("agent").warning("term-not-kept", log=log_id, term=term, why=error)
            return False
        self.newest = log_id, term
        return True


def on_disk(folder: Path) -> Terms:
    """The terms that this folder remembers. `ValueError` when what it has cannot be read."""
    file = folder / NAME
    return Terms(_read(file), lambda log_id, term: _write(file, log_id, term))


def _read(file: Path) -> tuple[str, int]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return str(found["log"]), int(found["term"])
    except FileNotFoundError:
        return "", 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} does not say which term was heard of last ({error}); remove it by hand") from error


def _write(file: Path, log_id: str, term: int) -> None:
    fresh = file.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as out:
        json.dump({"log": log_id, "term": term}, out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
