"""The half of HTTP that asks, on aiohttp, with the port's promise kept: `Unreachable` only where nothing was sent.

aiohttp sends a request again by itself, once, when the connection breaks before an answer: GET, HEAD, OPTIONS and
TRACE, but PUT and DELETE too, and not only on a kept connection that may have gone stale, but on a fresh one as well.
It also follows redirects. Here every request is sent once: what a second try would do is for the caller to know, who
alone can tell that it is safe. `SingleAttempt` stands between, as a middleware, and turns what broke into an error that
aiohttp does not take for a reason to try again. What it costs is a `NoAnswer` now and then, where a server closed a
kept connection in the moment in which it was used; those who serve keep theirs longer than `KEEPALIVE_S` to make it
rare.
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
from holdfast.transports.http_framing import (
    MESSAGE_MAX_BYTES,
    PLAINTEXT_REFUSED,
    PeerBuffers,
    StreamDecoder,
    framing_of,
    parse_headers,
    request_target,
    strip_hop_headers,
)
from holdfast.transports.tls import connect_error_text

#: How long a connection without a request is kept.
KEEPALIVE_S = 30.0
#: A larger body is handed over piece by piece.
_WHOLE_BYTES = 1 << 20

_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_NOT_SET = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class SingleAttempt:
    """One request on its way, which is sent once."""

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
        """What is raised for it: whether the peer may have acted on it."""
        was_sent = self._sent is not None and self._sent.has_begun
        told = connect_error_text(why) if isinstance(why, Exception) else why
        return (NoAnswer if was_sent else Unreachable)(f"{self.what}: {told}")


class TrackedRequest(ClientRequest):
    """What aiohttp sends. It knows whether any of it may have gone out."""

    has_begun = False

    async def send(self, conn: Any) -> ClientResponse:
        self.has_begun = True
        return await super().send(conn)


class CancellableTimeout:
    """A wait for a peer: so long at most, or until this process closes.

    On a timer of the loop, and not on the host's clock: sockets know no other time, and it costs no task.
    """

    def __init__(self, waits: dict[CancellableTimeout, None], ms: int) -> None:
        self._waits = waits
        self._timeout = asyncio.timeout(ms / 1000)

    async def __aenter__(self) -> None:
        self._waits[self] = None
        await self._timeout.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        del self._waits[self]
        await self._timeout.__aexit__(*raised)  # it raises TimeoutError where it ended the wait

    def end(self) -> None:
        """Wait no longer: it is as if the time had passed."""
        if not self._timeout.expired():
            self._timeout.reschedule(0)


class HttpClient:
    """Connections to all peers, kept for the next request. It is made within a running loop.

    Beyond this machine it asks over https only, unless it is `insecure`. `context` gives what new connections are made
    with; those that were made with another are not used again.
    """

    def __init__(self, context: Callable[[], ssl.SSLContext], *, insecure: bool = False) -> None:
        self._context = context
        self._insecure = insecure
        self._waits: dict[CancellableTimeout, None] = {}
        self.arriving = PeerBuffers()
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
        """As the port says."""
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
        """As the port says. Only waiting counts as idle: a reader may take its time."""
        attempt = SingleAttempt(peer, request)
        response: ClientResponse | None = None
        kept = 0
        try:
            async with CancellableTimeout(self._waits, idle_ms):
                response = await self._begin(peer, request, attempt)
            headers = parse_headers(response.raw_headers)
            framing = framing_of(headers) if response.status == 200 else None
            if framing is None:
                async with CancellableTimeout(self._waits, idle_ms):
                    raise StreamDeclined(
                        Reply(response.status, headers, await _read_body(response, peer, self.arriving))
                    )
            unframing = StreamDecoder(framing)
            while data := await self._next(response, idle_ms):
                messages = unframing.feed(data)
                self.arriving.keep(peer, unframing.kept - kept)
                kept = unframing.kept
                for message in messages:
                    yield message
            if not unframing.is_between:
                raise attempt.failed("the stream ended within a message")
        except TimeoutError:
            raise attempt.failed(f"nothing came for {idle_ms} ms") from None
        except (ClientError, OSError, ValueError) as error:
            raise attempt.failed(error) from error
        finally:
            self.arriving.keep(peer, -kept)
            if response is not None:
                response.close()

    async def close(self) -> None:
        """Whatever is waited for breaks."""
        for wait in self._waits:
            wait.end()  # aiohttp would leave them to their deadlines
        await self._session.close()

    async def _next(self, response: ClientResponse, idle_ms: int) -> bytes:
        """What came since, or nothing at the end."""
        async with CancellableTimeout(self._waits, idle_ms):
            return await response.content.readany()

    async def _begin(self, peer: str, request: Request, attempt: SingleAttempt) -> ClientResponse:
        body = request.body
        try:
            url = URL(peer.rstrip("/") + request_target(request), encoded=True)
            _ = url.port  # looked at only now, and it may be no number of a port
        except ValueError as error:
            raise attempt.failed(error) from error
        # Of the URL as it is connected to, and not of the text: another parser might find another host in that.
        if not self._insecure and is_cleartext(url.scheme, url.host or ""):
            raise attempt.failed(PLAINTEXT_REFUSED)
        response = await self._session.request(
            request.verb,
            url,
            headers=strip_hop_headers(request.headers),
            data=(body if len(body) <= _WHOLE_BYTES else io.BytesIO(body)) if body else None,
            allow_redirects=False,
            ssl=self._context(),
            middlewares=(attempt,),
        )
        if not _has_known_length(response):
            response.close()
            raise attempt.failed("nothing says how long the answer is")
        return response


async def _read_reply(response: ClientResponse, peer: str, arriving: PeerBuffers) -> Reply:
    headers = parse_headers(response.raw_headers)
    if response.status == 200 and framing_of(headers) is not None and "Content-Length" not in response.headers:
        response.close()
        raise StreamDeclined(Reply(406, body=b"this is answered with a stream"))
    return Reply(response.status, headers, await _read_body(response, peer, arriving))


async def _read_body(response: ClientResponse, peer: str, arriving: PeerBuffers) -> bytes:
    """All of it, if it is no larger than an answer may be: whoever answers may never come to an end."""
    parts, size = list[bytes](), 0
    try:
        while data := await response.content.readany():
            if size + len(data) > MESSAGE_MAX_BYTES:
                raise ValueError(f"an answer of more than {MESSAGE_MAX_BYTES} bytes")
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
    """Whether an answer that was cut off can be told from a whole one."""
    headers = response.headers
    return "Content-Length" in headers or "Transfer-Encoding" in headers or response.status in (204, 304)
