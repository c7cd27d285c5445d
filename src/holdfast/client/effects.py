"""What a call may want done. A call yields these and is resumed with what came of them.

Send   -> resumed with the `Reply`, or a `TransportError` is thrown into it
Pause  -> resumed with None, that much later
Open   -> resumed with None; the stream that was open before is closed
Next   -> resumed with the next line of the open stream, or None at its end, or a `TransportError` is thrown
Emit   -> resumed with None, once whoever reads the watch has taken the event
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.host.ports.transport import Request, TransportError

T = TypeVar("T")

#: A document as people write it: `apiVersion`, `kind`, `metadata`, `spec`, `status`.
Document = dict[str, Any]


class WatchEvent(Struct, frozen=True):
    """A change that a watch saw. `type` is ADDED, MODIFIED, DELETED or BOOKMARK; `token` is where to resume after it.

    A BOOKMARK carries no object: everything up to its token has been handed out.
    """

    type: str
    object: Document
    token: str


class SendRequest(Struct, frozen=True):
    """One request to one server."""

    server: str
    request: Request
    timeout_ms: int


class Sleep(Struct, frozen=True):
    """Nothing, for a while."""

    ms: int


class OpenStream(Struct, frozen=True):
    """A stream from one server."""

    server: str
    request: Request
    idle_ms: int


class ReadMessage(Struct, frozen=True):
    """The next line of that stream."""


class EmitEvent(Struct, frozen=True):
    """Hand out an event."""

    event: WatchEvent


ClientEffect = SendRequest | Sleep | OpenStream | ReadMessage | EmitEvent
#: A call under way: it yields steps and returns a result. What it is resumed with depends on the step.
Operation = Generator[ClientEffect, Any, T]


def resume(call: Operation[Any], came: Any) -> ClientEffect:
    """Resume a call with what came of its step, an error as one. Its next step; `StopIteration` with its result."""
    return call.throw(came) if isinstance(came, TransportError) else call.send(came)
