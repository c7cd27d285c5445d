"""A way between two processes on loopback that can be cut: what is under way is lost, and nobody answers, until it is
mended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


class CuttableProxy:
    """Hands on what comes in at `port` to another port, in a thread of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._is_cut = False
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """From now on nothing gets through, in either direction, and nobody is told."""
        self._is_cut = True

    def mend(self) -> None:
        """New connections get through again; those from before are broken."""
        self._is_cut = False
        self._do(self._drop())

    def close(self) -> None:
        self._do(self._drop())
        self._server.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _drop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(outer)
            try:
                await asyncio.gather(self._hand_on(reader, outer), self._hand_on(inner, writer))
            finally:
                self._open.discard(outer)
                outer.transport.abort()
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while (piece := await reader.read(1 << 16)) and not writer.is_closing():
                if self._is_cut:
                    continue  # it is lost, and nobody hears of it
                writer.write(piece)
                await writer.drain()
        writer.transport.abort()
