"""Messages from a region's leader to an agent. Frames of msgpack.

An agent requests `GET /v1/bindings` for its own node. Every message contains all bindings of the node, and is sent when
one has changed: a node has few slots, and complete messages cannot be combined wrongly. A template precedes the first
message that names it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.structs import Instant, Revision, Row

BINDINGS = "/v1/bindings"
SESSION = "session"


class TemplateMessage(Row, frozen=True, tag="template"):
    """The template of the slots that name this digest."""

    digest: str
    template: Template


class NodeBindings(Row, frozen=True, tag="bindings"):
    """All bindings of the node, as of this revision, in this term of the leader."""

    log_id: str
    term: int
    revision: Revision
    at: Instant
    slots: tuple[BoundSlot, ...]


class BindingsHeartbeat(Row, frozen=True, tag="quiet"):
    """Nothing has changed. With `over` the stream ends: the leadership or the session has ended."""

    over: bool = False


Message = TemplateMessage | NodeBindings | BindingsHeartbeat

#: Returns the message in a frame, or raises `msgspec.MsgspecError`. `codec.encode` returns the frame of a message.
read_message: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode
