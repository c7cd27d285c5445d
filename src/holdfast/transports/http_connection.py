"""One client's connection to a process that serves: uvicorn's parser, with bounds that uvicorn does not have.

- A request has so long to arrive in full, its first byte included; a connection without one has so long to get another.
- The head of a request has a size, beyond one read of the socket; and what is kept of requests that are not whole, and
  of answers that nobody reads, is bounded for each caller, and for strangers together.
- Who is at the other end is read from the certificate, once, when the connection is made, and counts until that ends;
  with a token it is known once a request has proven it. Until then it has a stranger's place
  (`connection_registry`).

A socket's transport on which what belongs together is one write.

A write is a system call and a packet, and the dearest part of a small answer by far. uvicorn writes the head of an
answer and its body one after the other; a stream writes each message by itself, a thousand of them in a turn.

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

#: Under which name a request's scope holds its connection.
CONNECTION = "holdfast.connection"

#: That there are too many connections is said so often at the most.
WARN_INTERVAL_S = 10.0

#: The calendar clock, in seconds: certificates end by that.
wall = time.time

# What uvicorn warns of is what clients do wrong, and they are told. Its errors go where those of the carrier go.
_quiet = logging.getLogger("holdfast.transport.uvicorn")
_quiet.setLevel(logging.ERROR)


class ConnectionLimits(Struct, frozen=True):
    """What a serving process bears from each client. A body of a whole mebibyte fits, with what is around it."""

    body_bytes: int = (1 << 20) + (64 << 10)
    head_bytes: int = 32 << 10
    #: How long a request may take to arrive.
    request_ms: int = 30_000
    #: How long a connection stays open without a request: longer than those who ask keep theirs, so that they end it.
    idle_ms: int = 75_000
    #: How long requests under way may take when the process closes.
    drain_ms: int = 5_000
    #: How long a TLS handshake may take.
    handshake_ms: int = 10_000
    most: ConnectionCaps = ConnectionCaps()


class ConnectionSet(ServerState):
    """All connections to one process, and the tasks that answer them."""

    def __init__(self, most: ConnectionCaps, logger: Logger) -> None:
        super().__init__()
        self.places = ConnectionRegistry(most)
        #: Nobody waits for these when the process closes.
        self.handshakes: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._logger = logger
        self._told, self._told_at = (0, 0), -WARN_INTERVAL_S

    def tell(self, now: float) -> None:
        """Say that somebody had to leave or was turned away: at most once in a while."""
        counts = (self.places.ended, self.places.refused)
        if counts != self._told and now >= self._told_at + WARN_INTERVAL_S:
            self._told, self._told_at = counts, now
            self._logger.warning("too-many-connections", open=len(self.places), ended=counts[0], refused=counts[1])

    def leave(self) -> None:
        """A connection is gone."""
        self._left.set()

    async def rest(self) -> None:
        """Return when nobody is answered any more, and everybody is gone."""
        while self.tasks or self.connections:
            if self.tasks:
                await asyncio.wait(list(self.tasks))
            else:
                self._left.clear()
                await self._left.wait()


class ServerConnection(HttpToolsProtocol):
    """What uvicorn calls a protocol."""

    def __init__(self, config: Config, crowd: ConnectionSet, limits: ConnectionLimits, slot: ConnectionSlot) -> None:
        super().__init__(config, crowd, {})
        self._crowd = crowd
        self._place = slot
        self.logger = _quiet
        self.timeout_keep_alive = limits.idle_ms / 1000  # type: ignore[assignment]  # uvicorn's is in whole seconds
        #: Whom its certificate names, and until when that counts.
        self._principal, self._proof_ends = "", math.inf
        #: Called when the other end is gone, by whoever sends to it for longer.
        self.when_lost: Callable[[], object] | None = None
        self._limits = limits
        self._head_bytes = 0
        self._in_head = True
        #: Since when the rest of a request is waited for; None: it is here, or none is expected.
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
            return  # it was told why already
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        # After the parser: what completes a head may be the beginning of a large body.
        if self._in_head and self._head_bytes > self._limits.head_bytes:
            self._turn_away(431, "head-too-large", f"the head of a request has {self._limits.head_bytes} bytes at most")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaited_since = self.loop.time()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[CONNECTION] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a body is no header: it would come in any number, and after everybody has looked at them.
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
        # Whoever has not read the last answer by now never will: a mere close would wait for that.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    @property
    def proven(self) -> str:
        """The principal of its certificate; empty where there is none, or it has ended since."""
        return self._principal if self._principal and wall() < self._proof_ends else ""

    def arriving(self, size: int) -> None:
        """So much of a request is kept until the rest of it is here; 0: all of it is, or nobody waits for it."""
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
        """This is who asks on it: it was proven."""
        if not self._place.caller:
            self._crowd.places.know(self._place, caller)

    def hang_up(self) -> None:
        """End it in the middle of an answer, after what was sent of it: the other end sees that it is not whole."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # uvicorn need not complain of it
        self.transport.close()

    def _watch(self) -> None:
        limit = self._limits.request_ms / 1000
        since, was_closing, self._was_closing = self._awaited_since, self._was_closing, self.transport.is_closing()
        if was_closing:
            self.transport.abort()  # whoever has not read the end by now never will
        elif wall() >= self._proof_ends:
            self.transport.abort()  # what it has asked for goes on as long as it is proven, and no longer
        elif since is not None and self.loop.time() - since >= limit and not self.flow.read_paused:
            self._turn_away(408, "too-slow", "the request did not arrive in time")
        else:
            # One timer for each connection, not for each request: whoever is too slow is found within twice the limit.
            self._alarm = self.loop.call_later(limit, self._watch)

    def _turn_away(self, status: int, code: str, why: str) -> None:
        reply = problem_reply(status, code, why)
        head = f"HTTP/1.1 {status} \r\nconnection: close\r\ncontent-length: {len(reply.body)}\r\n"
        names = "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
        self.transport.write(f"{head}{names}\r\n".encode() + reply.body)
        self.transport.close()


class CoalescingTransport(asyncio.Transport):
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
