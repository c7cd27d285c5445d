"""The effects that an operation yields, and the value with which each resumes it.

SendRequest -> the `Reply`; a `TransportError` is thrown into the operation Sleep       -> None, after the given time
OpenStream  -> None; a stream that was open before is closed ReadMessage -> the next message of the open stream, or None
at its end; a `TransportError` is thrown EmitEvent   -> None, after the reader of the watch has taken the event
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.host.ports.transport import Request, TransportError

T = TypeVar("T")

#: A document: `apiVersion`, `kind`, `metadata`, `spec`, `status`.
Document = dict[str, Any]


class WatchEvent(Struct, frozen=True):
    """A change that a watch received. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; resume it after `token`.

    A BOOKMARK carries no object: all events up to its token have been emitted.
    """

    type: str
    object: Document
    token: str


class SendRequest(Struct, frozen=True):
    """Send one request to one server."""

    server: str
    request: Request
    timeout_ms: int


class Sleep(Struct, frozen=True):
    """Wait."""

    ms: int


class OpenStream(Struct, frozen=True):
    """Open a stream from one server."""

    server: str
    request: Request
    idle_ms: int


class ReadMessage(Struct, frozen=True):
    """Read the next message of the open stream."""


class EmitEvent(Struct, frozen=True):
    """Emit an event to the reader of the watch."""

    event: WatchEvent


ClientEffect = SendRequest | Sleep | OpenStream | ReadMessage | EmitEvent
#: A running operation: it yields effects and returns a result. Each effect's result resumes it.
Operation = Generator[ClientEffect, Any, T]


def resume(call: Operation[Any], came: Any) -> ClientEffect:
    """Resume an operation with the result of its effect (an error is thrown) and return its next effect. At the end it
    raises `StopIteration` with the operation's result.
    """
    return call.throw(came) if isinstance(came, TransportError) else call.send(came)
