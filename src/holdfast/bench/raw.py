"""The least that anything durable costs: bytes written to a plain file and synced."""

from __future__ import annotations

import os
import time
from pathlib import Path


class RawLoop:
    """The baseline of everything durable: the same bytes written to a plain file and synced."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def times(self, size_bytes: int, times: int) -> list[float]:
        """The seconds that each write and sync of so many bytes took."""
        blob = os.urandom(size_bytes)
        took = []
        for _ in range(times):
            start = time.perf_counter()
            os.write(self._file, blob)
            os.fdatasync(self._file)
            took.append(time.perf_counter() - start)
        return took
