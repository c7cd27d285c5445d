"""The HTTP client of the command line, without an event loop: a command may take a quarter of a second in all.

It imports neither asyncio nor a framework. It keeps one connection to each peer, and opens a new one only if nothing of
the request was sent. Errors are those of the port, and nothing is sent twice. It belongs to one thread.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from holdfast.core.model.values.addresses import is_cleartext
from holdfast.host.ports.transport import NoAnswer, Pairs, Reply, Request, StreamDeclined, Unreachable
from holdfast.transports import http_framing
from holdfast.transports.tls import TlsConfig, client_context, connect_error_text

READ_BYTES = 1 << 16


class BlockingHttpTransport:
    """The client of one process, one request at a time. Beyond this machine it uses https, unless `insecure`."""

    def __init__(self, tls: TlsConfig | None = None, *, insecure: bool = False) -> None:
        self._tls = tls
        self._insecure = insecure
        self._kept: dict[str, HTTPConnection] = {}

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """Send a request and return its reply within the time; raise a `TransportError` otherwise."""
        call = _BlockingRequest(peer, request, time.monotonic() + timeout_ms / 1000)
        connection = self._kept.pop(peer, None)
        if connection is not None and _is_stale(connection):
            connection.close()
            connection = None
        if connection is None:
            connection = call.connect(self._tls, self._insecure)
        try:
            response = call.send(connection)
            reply = call.read(response)
        except BaseException:
            connection.close()
            raise
        response.close()
        if connection.sock is not None:  # None if the peer announced that it closes
            self._kept[peer] = connection
        return reply

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        """Yield what the peer sends, each message once and in order, until it ends; on a connection of its own."""
        call = _BlockingRequest(peer, request, time.monotonic() + idle_ms / 1000)
        connection = call.connect(self._tls, self._insecure)
        try:
            response = call.send(connection)
            headers = _headers_of(response)
            framing = http_framing.framing_of(headers) if response.status == 200 else None
            if framing is None:
                raise StreamDeclined(call.read(response))
            unframing = http_framing.StreamDecoder(framing)
            while data := call.read_some(response, idle_ms / 1000):
                yield from unframing.feed(data)
            if not unframing.is_between:
                raise NoAnswer(f"{call.what}: the stream ended within a message")
        except ValueError as error:
            raise NoAnswer(f"{call.what}: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._kept.values():
            connection.close()
        self._kept.clear()


class _BlockingRequest:
    """One active request, and its deadline."""

    def __init__(self, peer: str, request: Request, deadline: float) -> None:
        self.what = f"{request.verb} {request.path} at {peer}"
        self._peer = peer
        self._request = request
        self._deadline = deadline
        # Stored here: a connection that the peer closes drops its socket while the reply is still being read.
        self._sock: socket.socket | None = None

    def connect(self, tls: TlsConfig | None, insecure: bool) -> HTTPConnection:
        """Open a new connection. On any error, nothing was sent."""
        try:
            parts = urlsplit(self._peer)
            assert parts.scheme in ("http", "https"), f"a peer is named by its URL: {self._peer}"
            host, port = parts.hostname or "", parts.port
            if not insecure and is_cleartext(parts.scheme, host):
                raise Unreachable(f"{self.what}: {http_framing.PLAINTEXT_REFUSED}")
            if parts.scheme == "https":
                connection: HTTPConnection = HTTPSConnection(host, port, context=client_context(tls))
            else:
                connection = HTTPConnection(host, port)
            connection.timeout = self._left()
            connection.auto_open = 0  # otherwise it would reconnect in the middle of a request
            connection.connect()
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"{self.what}: {connect_error_text(error)}") from error
        return connection

    def send(self, connection: HTTPConnection) -> HTTPResponse:
        """Send the request and return the head of the reply."""
        request, self._sock = self._request, connection.sock
        connection.putrequest(request.verb, http_framing.request_target(request), skip_accept_encoding=True)
        for name, value in http_framing.strip_hop_headers(request.headers):
            connection.putheader(name, value.encode())
        if request.body or request.verb not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            connection.putheader("content-length", str(len(request.body)))
        try:
            self._sock.settimeout(self._left())
            connection.endheaders(request.body or None)
            self._sock.settimeout(self._left())
            response = connection.getresponse()
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"{self.what}: {error or type(error).__name__}") from error
        if response.length is None and not response.chunked:
            # `http.client` takes a truncated head for a complete one, and all that follows for the body.
            raise NoAnswer(f"{self.what}: the reply has no known length")
        return response

    def read(self, response: HTTPResponse) -> Reply:
        headers = _headers_of(response)
        if response.status == 200 and response.length is None and http_framing.framing_of(headers) is not None:
            response.close()
            raise StreamDeclined(Reply(406, body=b"this is answered with a stream"))
        parts, size = [], 0
        while data := self.read_some(response, self._left()):
            size += len(data)
            if size > http_framing.MESSAGE_MAX_BYTES:
                response.close()
                raise NoAnswer(f"{self.what}: an answer of more than {http_framing.MESSAGE_MAX_BYTES} bytes")
            parts.append(data)
        return Reply(response.status, headers, b"".join(parts))

    def read_some(self, response: HTTPResponse, within_s: float) -> bytes:
        """Return the next data; empty at the end."""
        assert self._sock is not None, "nothing was sent"
        try:
            if response.isclosed():
                return b""
            self._sock.settimeout(within_s)
            data = response.read1(READ_BYTES)
            if not data and response.length:
                raise NoAnswer(f"{self.what}: {response.length} bytes of the answer did not come")
        except (OSError, HTTPException) as error:
            response.close()
            raise NoAnswer(f"{self.what}: {error or type(error).__name__}") from error
        return data

    def _left(self) -> float:
        """Return seconds until the deadline; almost none after it, since zero would mean non-blocking."""
        return max(0.001, self._deadline - time.monotonic())


def _headers_of(response: HTTPResponse) -> Pairs:
    return http_framing.parse_headers(
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in response.getheaders()
    )


def _is_stale(connection: HTTPConnection) -> bool:
    """Whether the peer has closed an idle connection: it is readable then."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
