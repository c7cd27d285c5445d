"""A new connection until it speaks HTTP: it is counted, then the TLS handshake runs, if any.

The count comes before the handshake: an unfinished handshake takes more memory than any other connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from holdfast.transports.connection_registry import ConnectionSlot
from holdfast.transports.http_connection import ConnectionSet, ServerConnection

ConnectionFactory = Callable[[ConnectionSlot], ServerConnection]


class Acceptor(asyncio.Protocol):
    """The protocol of a connection that was just accepted, until its HTTP protocol replaces it."""

    def __init__(
        self, crowd: ConnectionSet, make: ConnectionFactory, context: ssl.SSLContext | None, handshake_ms: int
    ) -> None:
        self._crowd = crowd
        self._make = make
        self._context = context
        self._handshake_ms = handshake_ms
        #: Data that arrived with the end of the handshake, and whether the connection was lost meanwhile.
        self._early = b""
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), transport
        peer = transport.get_extra_info("peername")
        place = self._crowd.places.take(str(peer[0]) if peer else "", transport)
        self._crowd.tell(asyncio.get_running_loop().time())
        if place is None:
            transport.abort()
            return
        if self._context is None:
            made = self._make(place)
            transport.set_protocol(made)
            made.connection_made(transport)
            return
        # The handshake starts before any data can be read: the loop runs ready callbacks before it polls sockets.
        shaking = asyncio.ensure_future(self._shake_hands(transport, self._context, place))
        for tasks in (self._crowd.tasks, self._crowd.handshakes):
            tasks.add(shaking)
            shaking.add_done_callback(tasks.discard)

    async def _shake_hands(self, transport: asyncio.Transport, context: ssl.SSLContext, slot: ConnectionSlot) -> None:
        limit, secured = self._handshake_ms / 1000, None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=limit
            )
        except (OSError, asyncio.CancelledError):  # the client left, uses no TLS, or is not trusted
            transport.abort()
        if secured is None or self._is_lost:
            self._crowd.places.leave(slot)
            return
        made = self._make(slot)
        secured.set_protocol(made)
        made.connection_made(secured)
        if self._early:
            made.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_lost = True
