"""The port to other processes: one request with one answer, or one ordered stream. Peers have names, not addresses.

What a deadline or a broken connection leaves open is `NoAnswer`: the peer may have acted. `Unreachable` is a promise
that it has not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

#: Answers one request of a named peer.
Answering = Callable[[str, bytes], Awaitable[bytes]]
#: Streams to a named peer, from what it asked with; ends when the iterator does.
Streaming = Callable[[str, bytes], AsyncIterator[bytes]]


class TransportError(Exception):
    """A peer could not be talked to."""


class Unreachable(TransportError):
    """Nothing reached the peer: it has done nothing."""


class NoAnswer(TransportError):
    """It may have reached the peer, and no answer came in time: whatever was asked may have been done."""


class NoSuchMethod(TransportError):
    """The peer was reached and does not know what was asked for."""


class Transport(Protocol):
    """One process's way to all others."""

    async def ask(self, peer: str, method: str, body: bytes, timeout_ms: int) -> bytes:
        """One request, one answer, within the time. Raises a `TransportError` otherwise."""

    def stream(self, peer: str, method: str, body: bytes, idle_ms: int) -> AsyncIterator[bytes]:
        """What the peer sends, each once and in order, until it ends. `NoAnswer` when it breaks or nothing comes for
        `idle_ms`; close the iterator to end it from this side."""

    def serve(self, method: str, *, answer: Answering | None = None, stream: Streaming | None = None) -> None:
        """Answer this method when peers ask for it: either with one answer or with a stream."""
