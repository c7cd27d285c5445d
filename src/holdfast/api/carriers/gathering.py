"""A socket's transport on which what belongs together is one write.

A write is a system call and a packet, and the dearest part of a small answer by far. uvicorn writes the head of an
answer and its body one after the other; a stream writes each message by itself, a thousand of them in a turn.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Gathering(asyncio.Transport):
    """Passes everything on, except that between `gather` and `flush` it keeps what is written."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._kept: list[bytes] | None = None
        # Called for every request: handed on as they are.
        self.is_closing = inner.is_closing  # type: ignore[method-assign]
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]
        self.get_write_buffer_size = inner.get_write_buffer_size  # type: ignore[method-assign]
        self.pause_reading = inner.pause_reading  # type: ignore[method-assign]
        self.resume_reading = inner.resume_reading  # type: ignore[method-assign]
        self.abort = inner.abort  # type: ignore[method-assign]

    def gather(self) -> None:
        """Keep what is written from now on."""
        self._kept = []

    def gather_turn(self) -> None:
        """Keep what is written from now on in this turn of the loop."""
        if self._kept is None:
            self._kept = []
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was kept, in one piece."""
        kept, self._kept = self._kept, None
        if kept and not self._inner.is_closing():
            self._inner.write(b"".join(kept))

    def write(self, data: Any) -> None:
        if self._kept is None:
            self._inner.write(data)
        else:
            self._kept.append(data)

    def close(self) -> None:
        self.flush()
        self._inner.close()
