"""An HTTP connection of a load process: a plain socket with one request at a time.

Holdfast's own client costs more than the server, and would use its cores.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class SingleRequestConnection(asyncio.Protocol):
    """Sends requests, and passes on head and body of each answer."""

    _transport: asyncio.Transport
    _came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.opened()

    def opened(self) -> None:
        """Called when requests can be sent."""

    def answered(self, head: bytes, body: bytes) -> None:
        """Called with the answer to the last request."""

    def send(self, request: bytes) -> None:
        """Send a request; `answered` is called with the answer."""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, blank, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if blank and length is not None and len(body) >= int(length[1]):
            self._came = b""
            self.answered(head, body)


P = TypeVar("P", bound=asyncio.Protocol)


async def open_connections(server: str, make: Callable[[], P], count: int) -> list[tuple[asyncio.Transport, P]]:
    """Open `count` connections to a server."""
    loop = asyncio.get_running_loop()
    host, _, port = server.removeprefix("http://").partition(":")
    return [await loop.create_connection(make, host, int(port)) for _ in range(count)]
