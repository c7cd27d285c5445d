"""The port to other processes: one request with one answer, or one ordered stream. Peers have names, not addresses.

A request reads as HTTP does (verb, path, query, headers, body), so that one function answers it whoever carries it:
sockets, the network of a simulation, or a call within one process. What a deadline or a broken connection leaves open
is `NoAnswer`: the peer may have acted. `Unreachable` is a promise that it has not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True):
    """What is asked. Path and query are decoded, names of headers are lower case.

    `proven` is the principal that the carrier itself has proven, by a client's certificate; empty where it has not. A
    carrier sets it anew on every request that it receives, whatever the sender wrote there.
    """

    verb: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""
    proven: str = ""


class Reply(Struct, frozen=True):
    """One answer. `known` is the principal that the request has proven, for the carrier; empty: nobody's."""

    status: int = 200
    headers: Pairs = ()
    body: bytes = b""
    known: str = ""


class Framing(StrEnum):
    """How a carrier that knows only bytes keeps the messages of a stream apart."""

    LINES = "lines"
    FRAMES = "frames"


class StreamReply(Struct, frozen=True):
    """An answer that goes on: messages in order. Lines hold no newline; frames hold anything."""

    messages: AsyncIterator[bytes]
    framing: Framing = Framing.LINES
    headers: Pairs = ()
    known: str = ""


#: Answers whatever is asked of a process. It never raises: what it cannot do is a reply too.
RequestHandler = Callable[[Request], Awaitable[Reply | StreamReply]]


class TransportError(Exception):
    """A peer could not be talked to."""


class Unreachable(TransportError):
    """Nothing reached the peer: it has done nothing."""


class NoAnswer(TransportError):
    """It may have reached the peer, and no answer came in time: whatever was asked may have been done."""


class StreamDeclined(TransportError):
    """A stream was asked for, and the peer said something else: what it said."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"no stream: {reply.status} {reply.body[:200].decode(errors='replace')}")
        self.reply = reply


class Transport(Protocol):
    """One process's way to all others."""

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        """One request, one answer, within the time. Raises a `TransportError` otherwise."""

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        """What the peer sends, each message once and in order, until it ends. `StreamDeclined` when it answers once
        instead; `NoAnswer` when it breaks or nothing comes for `idle_ms`; close the iterator to end it from this
        side."""

    def serve(self, serving: RequestHandler) -> None:
        """Answer what others ask of this process from now on."""


async def serve_nothing(request: Request) -> Reply:
    """What a process answers that serves nothing."""
    return Reply(404, body=b"nothing is served here")


def first_value(pairs: Pairs, name: str, otherwise: str = "") -> str:
    """The first value of this name in a query or in headers."""
    for key, value in pairs:  # asked several times for every request: a generator would cost more than it reads
        if key == name:
            return value
    return otherwise
