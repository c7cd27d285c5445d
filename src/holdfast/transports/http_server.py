"""The ASGI application: from uvicorn's requests to those of the port, and back.

It uses no web framework: routes are above the transports and the same for all of them, so a framework would be a second
router. The path of a small request is short on purpose: no task, no lock and no copy of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

from holdfast.host.ports.transport import Pairs, Reply, Request, RequestHandler, StreamReply, serve_nothing
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.runtime.telemetry import Logger
from holdfast.transports.http_connection import CONNECTION, ServerConnection
from holdfast.transports.http_framing import FRAME_ENCODERS, HOP_HEADERS, MEDIA

Headers = list[tuple[bytes, bytes]]

#: Bytes of a stream until other tasks run: a source that never waits must not block the loop.
TURN_BYTES = 64 << 10
#: Bytes that a message counts for in addition to its own.
MESSAGE_BYTES = 256

#: Statuses of replies without a body and without its length.
_BODILESS = (204, 304)


class HttpServerApp:
    """The ASGI application of a server's connections."""

    def __init__(self, logger: Logger, body_most: int) -> None:
        self.serving: RequestHandler = serve_nothing
        #: Active streams. They end when the process closes; requests are given time.
        self.pouring: dict[asyncio.Task[Any], None] = {}
        self._logger = logger
        self._body_most = body_most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        connection: ServerConnection = scope[CONNECTION]
        try:
            found = await self._found(scope, receive, connection)
            if found is not None and found.known:
                connection.know(found.known)
            if isinstance(found, Reply):
                await _send(found, connection, send)
            elif found is not None:
                await self._stream(found, connection, scope["method"] == "HEAD", send)
        except asyncio.CancelledError:
            # The reader of the stream has disconnected, or this process closes. Nothing after this point can be lost.
            connection.hang_up()
        except Exception as error:
            self._logger.error("sending-failed", error, verb=scope["method"], path=scope["path"])
            connection.hang_up()

    async def _found(self, scope: Any, receive: Any, connection: ServerConnection) -> Reply | StreamReply | None:
        """Return the reply; None if the client disconnected before its request was complete."""
        message = await receive()
        body = message.get("body")
        if body is not None and message["more_body"] and len(body) <= self._body_most:
            body = await self._rest(body, receive, connection)
        if body is None:
            return None
        if len(body) > self._body_most:
            # The connection stays open and uvicorn discards the rest: closing now could destroy the reply.
            return problem_reply(413, "too-large", f"a request body has at most {self._body_most} bytes")
        request = _request_of(scope, body, connection.proven)
        try:
            return await self.serving(request)
        except Exception as error:
            self._logger.error("serving-raised", error, verb=request.verb, path=request.path)
            return problem_reply(500, "internal", "the server failed to answer; its log has the reason")

    async def _rest(self, first: bytes, receive: Any, connection: ServerConnection) -> bytes | None:
        """Return the complete body, or a part that is already too large. Until the body is complete it counts for the
        caller of the connection or, before authentication, for all unauthenticated connections."""
        parts, size, more = [first], len(first), True
        try:
            while more and size <= self._body_most:
                connection.arriving(size)
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message["body"])
                size += len(parts[-1])
                more = message["more_body"]
        finally:
            connection.arriving(0)
        return b"".join(parts)

    async def _stream(self, flow: StreamReply, connection: ServerConnection, head_only: bool, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.pouring[task] = None
        connection.when_lost = task.cancel
        try:
            headers = [(b"content-type", MEDIA[flow.framing].encode()), *_encoded(flow.headers, "content-type")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if not head_only:
                await _pour(flow, connection, send)
            await send({"type": "http.response.body"})
        finally:
            connection.when_lost = None
            del self.pouring[task]
            if isinstance(flow.messages, AsyncGenerator):
                await flow.messages.aclose()


async def _pour(flow: StreamReply, connection: ServerConnection, send: Any) -> None:
    frame, in_turn = FRAME_ENCODERS[flow.framing], 0
    async for message in flow.messages:
        connection.outgoing.gather_turn()
        # send() waits while the connection buffers too much: a slow reader slows its sender.
        await send({"type": "http.response.body", "body": frame(message), "more_body": True})
        in_turn += len(message) + MESSAGE_BYTES
        if in_turn > TURN_BYTES:
            in_turn = 0
            await asyncio.sleep(0)


def _request_of(scope: Any, body: bytes, proven: str) -> Request:
    """Return the port's request. Handlers see a HEAD as a GET; uvicorn omits the body."""
    raw, verb = scope["query_string"], scope["method"]
    return Request(
        "GET" if verb == "HEAD" else verb,
        scope["path"],
        tuple(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)) if raw else (),
        tuple([(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in scope["headers"]]),
        body,
        proven,
    )


def _encoded(headers: Pairs, *without: str) -> Headers:
    return [
        (name.encode(), value.encode()) for name, value in headers if name not in HOP_HEADERS and name not in without
    ]


async def _send(reply: Reply, connection: ServerConnection, send: Any) -> None:
    headers, body = _encoded(reply.headers), reply.body
    if reply.status in _BODILESS:
        body = b""
    else:
        headers.append((b"content-length", b"%d" % len(body)))
    connection.outgoing.gather()
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    connection.outgoing.flush()
