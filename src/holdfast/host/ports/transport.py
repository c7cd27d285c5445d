"""The port to other processes: one request with one reply, or one ordered stream. Peers have names, not addresses.

A request has the form of HTTP (verb, path, query, headers, body), so that one request handler serves every transport:
sockets, a simulated network, or a call in one process. After `NoAnswer` (a deadline, a broken connection) the peer may
have acted; after `Unreachable` it has not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True):
    """One request. Path and query are decoded, names of headers are lower case.

    The transport sets `proven` on every received request: the principal of the client certificate; empty: none.
    """

    verb: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""
    proven: str = ""


class Reply(Struct, frozen=True):
    """One reply. `known` is the authenticated principal, for the transport; empty: none."""

    status: int = 200
    headers: Pairs = ()
    body: bytes = b""
    known: str = ""


class Framing(StrEnum):
    """How a transport of bytes separates the messages of a stream."""

    LINES = "lines"
    FRAMES = "frames"


class StreamReply(Struct, frozen=True):
    """A reply that continues: messages in order. Lines contain no newline; frames contain any bytes."""

    messages: AsyncIterator[bytes]
    framing: Framing = Framing.LINES
    headers: Pairs = ()
    known: str = ""


#: Serves requests. It never raises: a failure is a reply too.
RequestHandler = Callable[[Request], Awaitable[Reply | StreamReply]]


class TransportError(Exception):
    """A peer could not be reached, or did not reply."""


class Unreachable(TransportError):
    """Nothing reached the peer: it has done nothing."""


class NoAnswer(TransportError):
    """No reply arrived in time: the peer may have acted."""


class StreamDeclined(TransportError):
    """The peer sent a reply instead of the requested stream."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"no stream: {reply.status} {reply.body[:200].decode(errors='replace')}")
        self.reply = reply


class Transport(Protocol):
    """Sends requests from one process to others, and serves theirs."""

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """Send one request and return its reply within the time. Raises a `TransportError` otherwise."""

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        """Yield the peer's messages, each once and in order, until the stream ends.

        Raises `StreamDeclined` if the peer sends a single reply, and `NoAnswer` if the stream breaks or is silent for
        `idle_ms`. Close the iterator to end the stream from this side.
        """

    def serve(self, serving: RequestHandler) -> None:
        """Serve requests to this process from now on."""


async def serve_nothing(request: Request) -> Reply:
    """Reply to a request to a process that serves nothing."""
    return Reply(404, body=b"nothing is served here")


def first_value(pairs: Pairs, name: str, otherwise: str = "") -> str:
    """Return the first value of this name in a query or in headers."""
    for key, value in pairs:  # called several times per request: a generator would be slower
        if key == name:
            return value
    return otherwise
