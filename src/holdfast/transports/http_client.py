"""The HTTP client, on aiohttp. It keeps the guarantee of the port: `Unreachable` only if nothing was sent.

aiohttp retries once by itself if the connection breaks before a reply: GET, HEAD, OPTIONS and TRACE, but also PUT and
DELETE, on reused connections as well as on new ones. It also follows redirects. Here every request is sent once, since
only the caller can tell whether a retry is safe. The middleware `SingleAttempt` turns a broken connection into an error
that aiohttp does not retry. The cost is an occasional `NoAnswer`, if a server closes an idle connection just when it is
reused. Servers keep idle connections longer than `KEEPALIVE_S` to make that rare.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Callable
from typing import Any

from aiohttp import (
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from holdfast.core.model.values.addresses import is_cleartext
from holdfast.host.ports.transport import NoAnswer, Reply, Request, StreamDeclined, TransportError, Unreachable
from holdfast.transports import http_framing
from holdfast.transports.tls import connect_error_text

KEEPALIVE_S = 30.0
#: A larger body is sent in pieces.
_WHOLE_BYTES = 1 << 20

_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_NOT_SET = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class SingleAttempt:
    """One attempt of a request: it is sent once."""

    def __init__(self, peer: str, request: Request) -> None:
        self.what = f"{request.verb} {request.path} at {peer}"
        self._sent: TrackedRequest | None = None

    async def __call__(self, sent: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        assert isinstance(sent, TrackedRequest), sent
        self._sent = sent
        try:
            return await handler(sent)
        except (ClientError, OSError) as error:
            raise self.failed(error) from error

    def failed(self, why: object) -> TransportError:
        """Return the error to raise: it depends on whether the peer may have received the request."""
        was_sent = self._sent is not None and self._sent.has_begun
        told = connect_error_text(why) if isinstance(why, Exception) else why
        return (NoAnswer if was_sent else Unreachable)(f"{self.what}: {told}")


class TrackedRequest(ClientRequest):
    """aiohttp's request, which records whether any of it may have been sent."""

    has_begun = False

    async def send(self, conn: Any) -> ClientResponse:
        self.has_begun = True
        return await super().send(conn)


class CancellableTimeout:
    """A wait for a peer: up to a timeout, or until this process closes.

    It uses a timer of the loop, not the host's clock: sockets have real time only, and a timer costs no task.
    """

    def __init__(self, waits: dict[CancellableTimeout, None], ms: int) -> None:
        self._waits = waits
        self._timeout = asyncio.timeout(ms / 1000)

    async def __aenter__(self) -> None:
        self._waits[self] = None
        await self._timeout.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        del self._waits[self]
        await self._timeout.__aexit__(*raised)  # raises TimeoutError if it ended the wait

    def end(self) -> None:
        """End the wait as if the time had passed."""
        if not self._timeout.expired():
            self._timeout.reschedule(0)


class HttpClient:
    """Connections to all peers, reused for the next request. To be created within a running loop.

    Beyond this machine it uses https only, unless `insecure`. `context` returns the TLS context of new connections;
    connections with an older context are not used again.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext], *, insecure: bool = False) -> None:
        self._context = context
        self._insecure = insecure
        self._waits: dict[CancellableTimeout, None] = {}
        self.arriving = http_framing.PeerBuffers()
        connector = TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=KEEPALIVE_S)
        self._session = ClientSession(
            connector=connector,
            request_class=TrackedRequest,
            cookie_jar=DummyCookieJar(),
            timeout=_NO_TIMEOUT,
            skip_auto_headers=_NOT_SET,
            auto_decompress=False,
        )

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """Send a request and return the reply, as the port defines."""
        attempt = SingleAttempt(peer, request)
        try:
            async with (
                CancellableTimeout(self._waits, timeout_ms),
                await self._begin(peer, request, attempt) as response,
            ):
                return await _read_reply(response, peer, self.arriving)
        except TimeoutError:
            raise attempt.failed(f"no answer within {timeout_ms} ms") from None
        except (ClientError, OSError, ValueError) as error:
            raise attempt.failed(error) from error

    async def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncGenerator[bytes, None]:
        """Stream, as the port defines. Only waiting for data counts as idle, not a slow reader."""
        attempt = SingleAttempt(peer, request)
        response: ClientResponse | None = None
        kept = 0
        try:
            async with CancellableTimeout(self._waits, idle_ms):
                response = await self._begin(peer, request, attempt)
            headers = http_framing.parse_headers(response.raw_headers)
            framing = http_framing.framing_of(headers) if response.status == 200 else None
            if framing is None:
                async with CancellableTimeout(self._waits, idle_ms):
                    raise StreamDeclined(
                        Reply(response.status, headers, await _read_body(response, peer, self.arriving))
                    )
            unframing = http_framing.StreamDecoder(framing)
            while data := await self._next(response, idle_ms):
                messages = unframing.feed(data)
                self.arriving.keep(peer, unframing.kept - kept)
                kept = unframing.kept
                for message in messages:
                    yield message
            if not unframing.is_between:
                raise attempt.failed("the stream ended within a message")
        except TimeoutError:
            raise attempt.failed(f"no data for {idle_ms} ms") from None
        except (ClientError, OSError, ValueError) as error:
            raise attempt.failed(error) from error
        finally:
            self.arriving.keep(peer, -kept)
            if response is not None:
                response.close()

    async def close(self) -> None:
        """Close. All waits end with an error."""
        for wait in self._waits:
            wait.end()  # aiohttp would let them wait until their deadlines
        await self._session.close()

    async def _next(self, response: ClientResponse, idle_ms: int) -> bytes:
        """Return the next data; empty at the end."""
        async with CancellableTimeout(self._waits, idle_ms):
            return await response.content.readany()

    async def _begin(self, peer: str, request: Request, attempt: SingleAttempt) -> ClientResponse:
        body = request.body
        try:
            url = URL(peer.rstrip("/") + http_framing.request_target(request), encoded=True)
            _ = url.port  # parsed only here; the port may be invalid
        except ValueError as error:
            raise attempt.failed(error) from error
        # Check the parsed URL, not its text: another parser might find another host in the text.
        if not self._insecure and is_cleartext(url.scheme, url.host or ""):
            raise attempt.failed(http_framing.PLAINTEXT_REFUSED)
        response = await self._session.request(
            request.verb,
            url,
            headers=http_framing.strip_hop_headers(request.headers),
            data=(body if len(body) <= _WHOLE_BYTES else io.BytesIO(body)) if body else None,
            allow_redirects=False,
            ssl=self._context(),
            middlewares=(attempt,),
        )
        if not _has_known_length(response):
            response.close()
            raise attempt.failed("the reply has no known length")
        return response


async def _read_reply(response: ClientResponse, peer: str, arriving: http_framing.PeerBuffers) -> Reply:
    headers = http_framing.parse_headers(response.raw_headers)
    if (
        response.status == 200
        and http_framing.framing_of(headers) is not None
        and "Content-Length" not in response.headers
    ):
        response.close()
        raise StreamDeclined(Reply(406, body=b"this is answered with a stream"))
    return Reply(response.status, headers, await _read_body(response, peer, arriving))


async def _read_body(response: ClientResponse, peer: str, arriving: http_framing.PeerBuffers) -> bytes:
    """Return the complete body. Raise `ValueError` above the size limit, since a peer may send without end."""
    parts, size = list[bytes](), 0
    try:
        while data := await response.content.readany():
            if size + len(data) > http_framing.MESSAGE_MAX_BYTES:
                raise ValueError(f"an answer of more than {http_framing.MESSAGE_MAX_BYTES} bytes")
            arriving.keep(peer, len(data))
            size += len(data)
            parts.append(data)
    except ValueError:
        response.close()
        raise
    finally:
        arriving.keep(peer, -size)
    return b"".join(parts)


def _has_known_length(response: ClientResponse) -> bool:
    """Whether a truncated reply can be distinguished from a complete one."""
    headers = response.headers
    return "Content-Length" in headers or "Transfer-Encoding" in headers or response.status in (204, 304)
