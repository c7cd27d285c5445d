"""The transport port over HTTP/1.1: a process listens at one address, and calls any peer by its URL.

A new connection until it speaks HTTP: it is counted, then the TLS handshake runs, if any.

The count comes before the handshake: an unfinished handshake takes more memory than any other connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from uvicorn import Config

from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Reply, Request, RequestHandler, Unreachable
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger
from holdfast.transports.connection_registry import ConnectionSlot
from holdfast.transports.http_client import HttpClient
from holdfast.transports.http_connection import ConnectionLimits, ConnectionSet, ServerConnection
from holdfast.transports.http_server import HttpServerApp
from holdfast.transports.tls import TlsConfig
from holdfast.transports.tls_reloader import TlsReloader

BACKLOG = 2_048
#: Connections accepted in one turn; otherwise, asyncio would accept all that wait before it serves open ones.
AT_ONCE = 64


class HttpTransport:
    """Server and client. Without `listen` it is a client only. Beyond this machine it uses https, unless `insecure`.

    `start` and `close` belong to one running loop.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        listen: str = "",
        tls: TlsConfig | None = None,
        limits: ConnectionLimits | None = None,
        insecure: bool = False,
    ) -> None:
        self.address = ""
        self._clock = clock
        self._listen = listen
        self._tls = tls
        self._insecure = insecure
        self._limits = limits or ConnectionLimits()
        self._logger = Logger("transport", listens=listen)
        self._answering = HttpServerApp(self._logger, self._limits.body_bytes)
        self._crowd = ConnectionSet(self._limits.most, self._logger)
        self._listener: asyncio.Server | None = None
        self._asking: HttpClient | None = None
        self._files: TlsReloader | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Listen, from when this returns; `address` has the port. Raise OSError if it cannot listen."""
        files = self._files = TlsReloader(self._tls, self._clock.wall, self._logger)
        if self._listen:
            await self._open(files)
        files.start()
        self._asking = HttpClient(lambda: files.contexts.client, insecure=self._insecure)

    def last_error(self) -> str:
        """Return what is wrong with the certificates, or will be soon; empty: nothing."""
        return self._files.last_error() if self._files is not None else ""

    async def _open(self, files: TlsReloader) -> None:
        # Without uvicorn's own `Server`: it handles the signals of the process, ends the process if it cannot listen,
        # and polls ten times a second.
        config = Config(
            self._answering,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # they would be trusted
        )
        config.load()
        # With authorities only, it is a client over TLS and a server without.
        is_plain = files.contexts.server is None

        def make(slot: ConnectionSlot) -> ServerConnection:
            return ServerConnection(config, self._crowd, self._limits, slot)

        sock = _bound(self._listen)
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Acceptor(self._crowd, make, files.contexts.server, self._limits.handshake_ms),
            sock=sock,
            backlog=AT_ONCE,
        )
        sock.listen(BACKLOG)  # the backlog above is the number accepted in one turn
        host, port = self._listen.rpartition(":")[0], sock.getsockname()[1]
        self.address = f"{'http' if is_plain else 'https'}://{host}:{port}"
        self._logger.info("listening", address=self.address)

    def serve(self, serving: RequestHandler) -> None:
        self._answering.serving = serving

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        return await self._client().call(peer, request, timeout_ms)

    async def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        async with aclosing(self._client().stream(peer, request, idle_ms)) as messages:
            async for message in messages:
                yield message

    async def close(self) -> None:
        """Accept no more connections, end streams, and wait for active requests up to `drain_ms`. All have ended on
        return."""
        self._is_closed = True
        if self._files is not None:
            self._files.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            await self._drain()
        if self._asking is not None:
            await self._asking.close()

    def _client(self) -> HttpClient:
        if self._is_closed:
            raise Unreachable("this process has closed its transport")
        assert self._asking is not None, "the transport was not started"
        return self._asking

    async def _drain(self) -> None:
        crowd = self._crowd
        for connection in list(crowd.connections):
            connection.shutdown()  # now, or after the current reply
        for task in (*self._answering.pouring, *crowd.handshakes):
            task.cancel()
        try:
            await within(self._clock, self._limits.drain_ms, crowd.rest())
        except DeadlinePassed:
            self._logger.warning("cut-off", requests=len(crowd.tasks), connections=len(crowd.connections))
            for task in list(crowd.tasks):
                task.cancel()
            for connection in list(crowd.connections):
                connection.transport.abort()
            await crowd.rest()


def _bound(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    # With its protocol named: asyncio checks it before it disables Nagle's algorithm, which costs 40 ms a reply.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by every connection: detects a lost client machine, also where the server only sends.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.bind((host.strip("[]"), int(port)))
    except BaseException:
        sock.close()
        raise
    return sock


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
