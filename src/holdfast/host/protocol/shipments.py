"""Messages on a region's stream: the known position of the region's log, shipments, and heartbeats.

Frames of msgpack. The stream resumes at the cursor that the region has logged: `GET
/v1/shipments?region=NAME&log=LOG_ID&term=TERM&cursor=41.1048575&session=7.0`. With `list=yes`, without a log, or with
cursor `0.0` it starts with a full list in parts. `proof=TEXT` is the newest proof shipped to the region (see
`evidence`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.structs import Instant, Revision, Row
from holdfast.core.region.commands import Ship

SHIPMENTS = "/v1/shipments"


class KnownPosition(Row, frozen=True, tag="known"):
    """The first message of a stream: the newest position of the region's log that the platform has.

    The start of that batch's digest is in text form. Position 0: none.
    """

    position: Revision
    digest: str


class Shipment(Row, frozen=True, tag="shipment"):
    """A step, or a part of a full list, with the platform's ledger time and position when it was made.

    With `complete` the region has everything as of that time.
    """

    ship: Ship
    at: Instant
    token: RevisionToken
    complete: bool = True


class LinkHeartbeat(Row, frozen=True, tag="beat"):
    """There was nothing to ship. Ledger time, position and `complete` as in a shipment.

    Without `leads` the sender cannot prove that it leads, and the stream ends.
    """

    at: Instant
    token: RevisionToken
    complete: bool = True
    leads: bool = True


Message = KnownPosition | Shipment | LinkHeartbeat

#: Returns the message in a frame, or raises `msgspec.MsgspecError`. `codec.encode` returns the frame of a message.
read_message: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode
