"""One accepted connection: uvicorn's parser, with limits that uvicorn does not have.

- A request must arrive in full within `request_ms`, its first byte included; a connection without a request is closed
  after `idle_ms`.
- The head of a request has a size limit, beyond one read of the socket. Buffers of incomplete requests and unread
  replies are limited for each caller, and for all unauthenticated connections together.
- The principal of a certificate is read once, when the connection is made, and counts until the certificate ends. With
  a token, the caller is known after the first authenticated request. Until then the connection counts as
  unauthenticated (`connection_registry`).

The class `CoalescingTransport` combines writes to a socket. A write is a system call and a packet, and by far the
largest cost of a small reply. uvicorn writes the head and the body of a reply separately; a stream writes each message
by itself, up to a thousand in a turn.

Size: a connection and its write buffer, which nobody else uses.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.host.protocol.problem import problem_reply
from holdfast.host.runtime.telemetry import Logger
from holdfast.transports.connection_registry import ConnectionCaps, ConnectionRegistry, ConnectionSlot
from holdfast.transports.tls import certificate_expiry, principal_of

#: Key of the connection in a request's scope.
CONNECTION = "holdfast.connection"

#: Shortest time between two warnings of too many connections.
WARN_INTERVAL_S = 10.0

#: The calendar clock, in seconds: certificates end by it.
wall = time.time

# uvicorn's warnings are errors of clients, which get a reply. Its errors go where those of the transport go.
_quiet = logging.getLogger("holdfast.transport.uvicorn")
_quiet.setLevel(logging.ERROR)


class ConnectionLimits(Struct, frozen=True):
    """Limits of one server for each client. A body of one mebibyte fits, with its envelope."""

    body_bytes: int = (1 << 20) + (64 << 10)
    head_bytes: int = 32 << 10
    request_ms: int = 30_000
    #: Longest idle time of a connection: longer than clients keep theirs, so that the clients close them.
    idle_ms: int = 75_000
    #: Time for active requests when the process closes.
    drain_ms: int = 5_000
    handshake_ms: int = 10_000
    most: ConnectionCaps = ConnectionCaps()


class ConnectionSet(ServerState):
    """All connections to one process, and the tasks that answer them."""

    def __init__(self, most: ConnectionCaps, logger: Logger) -> None:
        super().__init__()
        self.places = ConnectionRegistry(most)
        #: Not awaited when the process closes.
        self.handshakes: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._logger = logger
        self._told, self._told_at = (0, 0), -WARN_INTERVAL_S

    def tell(self, now: float) -> None:
        """Warn of connections that were closed or rejected for lack of space: at most every `WARN_INTERVAL_S`."""
        counts = (self.places.ended, self.places.refused)
        if counts != self._told and now >= self._told_at + WARN_INTERVAL_S:
            self._told, self._told_at = counts, now
            self._logger.warning("too-many-connections", open=len(self.places), ended=counts[0], refused=counts[1])

    def leave(self) -> None:
        """Note that a connection has closed."""
        self._left.set()

    async def rest(self) -> None:
        """Return when no request is active and all connections are closed."""
        while self.tasks or self.connections:
            if self.tasks:
                await asyncio.wait(list(self.tasks))
            else:
                self._left.clear()
                await self._left.wait()


class ServerConnection(HttpToolsProtocol):
    """The protocol, in the sense of uvicorn, of one connection."""

    def __init__(self, config: Config, crowd: ConnectionSet, limits: ConnectionLimits, slot: ConnectionSlot) -> None:
        super().__init__(config, crowd, {})
        self._crowd = crowd
        self._place = slot
        self.logger = _quiet
        self.timeout_keep_alive = limits.idle_ms / 1000  # type: ignore[assignment]  # uvicorn's is in whole seconds
        #: The principal of its certificate, and the end of that certificate.
        self._principal, self._proof_ends = "", math.inf
        #: Called when the connection is lost; set by the sender of a stream.
        self.when_lost: Callable[[], object] | None = None
        self._limits = limits
        self._head_bytes = 0
        self._in_head = True
        #: Since when the rest of a request is awaited; None: it is complete, or none is expected.
        self._awaited_since: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._was_closing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.outgoing = CoalescingTransport(transport, self.loop)
        super().connection_made(self.outgoing)
        shaken = transport.get_extra_info("ssl_object")
        self._principal, self._proof_ends = principal_of(shaken), certificate_expiry(shaken)
        if self._principal:
            self.know(self._principal)
        self._awaited_since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._crowd.places.leave(self._place)
        if self._alarm is not None:
            self._alarm.cancel()
        if self.when_lost is not None:
            self.when_lost()
        self._crowd.leave()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # the client has been sent the reason already
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        # After the parser: the data that completes a head may contain the beginning of a large body.
        if self._in_head and self._head_bytes > self._limits.head_bytes:
            self._turn_away(431, "head-too-large", f"the head of a request has at most {self._limits.head_bytes} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaited_since = self.loop.time()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[CONNECTION] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers after a body are ignored: their number has no limit, and headers are checked before.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._awaited_since, self._in_head, self._head_bytes = None, True, 0

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - for uvicorn's plain text, which we do not send
        self._turn_away(400, "malformed", "this is not an HTTP request")

    def timeout_keep_alive_handler(self) -> None:
        # A client that has not read the last reply by now never will: a mere close would wait for it.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    @property
    def proven(self) -> str:
        """The principal of its certificate; empty if there is none, or it has expired."""
        return self._principal if self._principal and wall() < self._proof_ends else ""

    def arriving(self, size: int) -> None:
        """Set the buffered bytes of an incomplete request; 0: it is complete or abandoned."""
        self._place.coming = size
        self._crowd.places.weigh(self._place)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._place.going = self.transport.get_write_buffer_size()
        self._crowd.places.weigh(self._place)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._place.going = 0
        self._crowd.places.weigh(self._place)

    def know(self, caller: str) -> None:
        """Set the authenticated caller of the connection."""
        if not self._place.caller:
            self._crowd.places.know(self._place, caller)

    def hang_up(self) -> None:
        """Close in the middle of a reply, after what was sent of it, so that the peer sees an incomplete reply."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # suppresses uvicorn's complaint
        self.transport.close()

    def _watch(self) -> None:
        limit = self._limits.request_ms / 1000
        since, was_closing, self._was_closing = self._awaited_since, self._was_closing, self.transport.is_closing()
        if was_closing:
            self.transport.abort()  # a client that has not read the end by now never will
        elif wall() >= self._proof_ends:
            self.transport.abort()  # its requests last only as long as its certificate
        elif since is not None and self.loop.time() - since >= limit and not self.flow.read_paused:
            self._turn_away(408, "too-slow", "the request did not arrive in time")
        else:
            # One timer for each connection, not for each request: a slow client is found within twice the limit.
            self._alarm = self.loop.call_later(limit, self._watch)

    def _turn_away(self, status: int, code: str, why: str) -> None:
        reply = problem_reply(status, code, why)
        head = f"HTTP/1.1 {status} \r\nconnection: close\r\ncontent-length: {len(reply.body)}\r\n"
        names = "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
        self.transport.write(f"{head}{names}\r\n".encode() + reply.body)
        self.transport.close()


class CoalescingTransport(asyncio.Transport):
    """Passes everything on, but buffers writes between `gather` and `flush`."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._kept: list[bytes] | None = None
        # Called for every request, so they are the inner methods themselves.
        self.is_closing = inner.is_closing  # type: ignore[method-assign]
        self.get_extra_info = inner.get_extra_info  # type: ignore[method-assign]
        self.get_write_buffer_size = inner.get_write_buffer_size  # type: ignore[method-assign]
        self.pause_reading = inner.pause_reading  # type: ignore[method-assign]
        self.resume_reading = inner.resume_reading  # type: ignore[method-assign]
        self.abort = inner.abort  # type: ignore[method-assign]

    def gather(self) -> None:
        """Buffer writes from now on."""
        self._kept = []

    def gather_turn(self) -> None:
        """Buffer writes until the end of this turn of the loop."""
        if self._kept is None:
            self._kept = []
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the buffer in one piece."""
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
