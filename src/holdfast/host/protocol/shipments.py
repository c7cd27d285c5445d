"""What the platform sends on a region's stream: what it knows of the region's log, then steps of its own, and beats
while there are none. Frames of msgpack.

`GET /v1/shipments?region=NAME&log=LOG_ID&term=TERM&cursor=41.1048575&session=7.0`, with the cursor that the region has
logged: the stream goes on from there. With `list=yes`, without a log, or with a cursor of `0.0`, it begins with a full
list, which comes in parts. `proof=TEXT` is the newest proof that the region was shipped (see `evidence`).
"""

from __future__ import annotations

import msgspec

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.structs import Instant, Revision, Row
from holdfast.core.region.commands import Ship

SHIPMENTS = "/v1/shipments"


class KnownPosition(Row, frozen=True, tag="known"):
    """The first message of every stream: how far the region's own log is known here, and how the digest of that batch
    begins, as people read it; position 0: nothing is known."""

    position: Revision
    digest: str


class Shipment(Row, frozen=True, tag="shipment"):
    """A step, or a part of a full list, to be applied; the platform's ledger time and place when it was made.

    `whole`: with it the region has everything there is for it at that time. Otherwise more is being read.
    """

    ship: Ship
    at: Instant
    token: RevisionToken
    complete: bool = True


class LinkHeartbeat(Row, frozen=True, tag="beat"):
    """There was nothing to ship; the platform's ledger time and place, and `whole` as in a shipment.

    `leads`: the sender can show that it leads. One that cannot says so once, and its stream ends.
    """

    at: Instant
    token: RevisionToken
    complete: bool = True
    leads: bool = True


Message = KnownPosition | Shipment | LinkHeartbeat

_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """The frame of a message."""
    return encode(message)


def read_message(frame: bytes) -> Message:
    """The message in a frame. `msgspec.MsgspecError` when it holds what this version does not know."""
    return _messages.decode(frame)
