"""Writes log lines for a reader that may have stopped reading: a full pipe must not block the process.

    any thread ──a line──▶ a bounded queue ──a thread of its own──▶ standard error
               └─ queue full ──▶ counted, and reported in place of the lines

Writing never waits. Lines of the first rank, such as that a server is ready or stops, may use extra space. At its end
the process waits for the queue for at most `FLUSH_S`.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

#: Largest size of the queue; lines of the first rank may use as much again.
BUFFER_BYTES = 1 << 20
#: Longest wait for a reader at the end of the process.
FLUSH_S = 2.0


class _Dropped:
    """Lines that were dropped at this place."""

    def __init__(self) -> None:
        self.count = 0


class LogOutputHandler(logging.Handler):
    """Passes lines to `write`, from a thread of its own. `first_rank` is the logger whose lines have extra space."""

    def __init__(self, write: Callable[[bytes], None], first_rank: str = "", room_bytes: int = BUFFER_BYTES) -> None:
        super().__init__()
        self._write = write
        self._first_rank = first_rank
        self._room_bytes = room_bytes
        self._news = threading.Condition()
        self._queue: deque[bytes | _Dropped] = deque()
        #: Bytes that are queued or being written.
        self._size_bytes = 0
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record, or count it."""
        try:
            line = self.format(record)
        except Exception as error:  # a value that cannot be formatted must not stop the caller
            line = f"a line of {record.name} cannot be shown: {type(error).__name__}"
        self.put(line, is_first=bool(self._first_rank) and record.name == self._first_rank)

    def put(self, line: str, *, is_first: bool) -> None:
        """Queue a line, or count it. Never waits."""
        raw = f"{line}\n".encode("utf-8", "backslashreplace")
        with self._news:
            if self._size_bytes + len(raw) <= self._room_bytes * (2 if is_first else 1):
                self._queue.append(raw)
                self._size_bytes += len(raw)
            else:
                if not self._queue or not isinstance(self._queue[-1], _Dropped):
                    self._queue.append(_Dropped())
                last = self._queue[-1]
                assert isinstance(last, _Dropped)
                last.count += 1
            self._news.notify_all()

    def flush(self) -> None:
        """Wait until all is written, at most `FLUSH_S`."""
        with self._news:
            self._news.wait_for(lambda: not self._size_bytes and not self._queue, FLUSH_S)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._queue)
                taken = list(self._queue)
                self._queue.clear()
            with suppress(OSError, ValueError):  # the reader has gone, or the output was closed
                self._write(b"".join(one if isinstance(one, bytes) else self._told(one) for one in taken))
            with self._news:
                self._size_bytes -= sum(len(one) for one in taken if isinstance(one, bytes))
                self._news.notify_all()

    def _told(self, dropped: _Dropped) -> bytes:
        """Return the line about dropped lines, in the format of all others."""
        fields = {"count": dropped.count, "why": "the reader is too slow"}
        extra = {"event": "lines-dropped", "fields": fields}
        text = f"lines-dropped count={dropped.count} why=the reader is too slow"
        record = logging.getLogger("holdfast.logs").makeRecord(
            "holdfast.logs", logging.WARNING, "", 0, text, (), None, extra=extra
        )
        return f"{self.format(record)}\n".encode()


def to_descriptor(file: int) -> Callable[[bytes], None]:
    """Return a function that writes to this descriptor, however long that takes, even if it is non-blocking."""

    def write(text: bytes) -> None:
        left = memoryview(text)
        while left:
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:
                select.select([], [file], [])

    return write
