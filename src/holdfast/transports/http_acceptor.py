"""What a connection is from its first moment until it speaks HTTP: counted, then through a TLS handshake, if any.

A connection counts before the handshake: one that never finishes it takes more memory than any other.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from holdfast.transports.connection_registry import ConnectionSlot
from holdfast.transports.http_connection import ConnectionSet, ServerConnection

#: Makes the connection that takes over.
ConnectionFactory = Callable[[ConnectionSlot], ServerConnection]


class Acceptor(asyncio.Protocol):
    """The protocol of a connection that was just accepted, until another takes its place."""

    def __init__(
        self, crowd: ConnectionSet, make: ConnectionFactory, context: ssl.SSLContext | None, handshake_ms: int
    ) -> None:
        self._crowd = crowd
        self._make = make
        self._context = context
        self._handshake_ms = handshake_ms
        #: What came with the last word of the handshake, and whether the other end has left meanwhile.
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
        # It begins before anything can be read: the loop runs what is ready before it looks at sockets again.
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
        except (OSError, asyncio.CancelledError):  # whoever it was has left, speaks no TLS, or is not believed
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
