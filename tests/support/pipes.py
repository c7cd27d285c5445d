"""Pipes that nobody reads, until somebody does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """A pipe that takes nothing more: the end to read, and the end to write."""
    end, begin = os.pipe()
    os.set_blocking(begin, False)
    for piece in (b"." * 4_096, b"."):
        with suppress(BlockingIOError):
            while True:
                os.write(begin, piece)
    os.set_blocking(begin, True)
    try:
        yield end, begin
    finally:
        os.close(begin)
        os.close(end)


class Reader:
    """Reads a pipe from now on."""

    def __init__(self, end: int) -> None:
        self.raw = b""
        self._end = os.dup(end)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while piece := os.read(self._end, 65_536):
            self.raw += piece

    def until(self, words: str, limit: float = 20) -> str:
        """What was read, once these words are in it."""
        end = time.monotonic() + limit
        while words not in self.raw.decode():
            assert time.monotonic() < end, f"{words!r} is not in {self.raw.decode()[-2_000:]!r}"
            time.sleep(0.01)
        return self.raw.decode()
