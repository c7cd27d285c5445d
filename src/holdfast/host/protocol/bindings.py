"""What a region's leader tells an agent. Frames of msgpack.

`GET /v1/bindings` is asked by an agent, and tells of its node. The first message says everything that stands there;
each later one says everything, too, whenever something of it has changed: a node holds few slots, and what is told
whole cannot be put together wrongly. A template comes before the first message that names it.
"""

from __future__ import annotations

import msgspec

from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.ledger.codec import encode
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.structs import Instant, Revision, Row

BINDINGS = "/v1/bindings"
SESSION = "session"


class TemplateMessage(Row, frozen=True, tag="template"):
    """What runs in slots that name this digest."""

    digest: str
    template: Template


class NodeBindings(Row, frozen=True, tag="bindings"):
    """Everything that stands on the node, by the state up to this revision of this log, in this term of its leader."""

    log_id: str
    term: int
    revision: Revision
    at: Instant
    slots: tuple[BoundSlot, ...]


class BindingsHeartbeat(Row, frozen=True, tag="quiet"):
    """Nothing has changed. `over`: the stream ends, because this server leads no more or the session is over."""

    over: bool = False


Message = TemplateMessage | NodeBindings | BindingsHeartbeat

_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """The frame of a message."""
    return encode(message)


def read_message(frame: bytes) -> Message:
    """The message in a frame. `msgspec.MsgspecError` when it holds what this version does not know."""
    return _messages.decode(frame)
