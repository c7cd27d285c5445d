"""What a leader sends to a mirror of its ledger. Frames of msgpack.

`GET /v1/log?since=LOG:TERM:SEQ:DIGEST` goes on after that batch. Without `since` it begins with the newest snapshot.
A place that the log does not have, or no longer reaches back to, is declined: `diverged`, `gone`.
"""

from __future__ import annotations

import msgspec

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.structs import Instant, Row

LOG = "/v1/log"
SINCE = "since"


class SnapshotBegin(Row, frozen=True, tag="begin"):
    """Begin anew: with a snapshot, whose manifest this is and whose chunks follow in its order; without one, with the
    first batch of the log. What a `SnapshotBegin` before this one said counts no more."""

    manifest: bytes = b""


class SnapshotChunk(Row, frozen=True, tag="piece"):
    """The next chunk of the snapshot."""

    raw: bytes


class LogBatch(Row, frozen=True, tag="step"):
    """The next batch, as it stands in the log; the leader's ledger time when it was sent.

    `whole`: there was no later one then. Otherwise more is being read.
    """

    raw: bytes
    digest: bytes
    at: Instant
    complete: bool = True


class LogHeartbeat(Row, frozen=True, tag="beat"):
    """At this ledger time there was no batch after this place.

    `leads`: the sender can show that it leads. One that cannot says so once, and its stream ends.
    """

    at: Instant
    token: RevisionToken
    leads: bool = True


Message = SnapshotBegin | SnapshotChunk | LogBatch | LogHeartbeat

_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """The frame of a message."""
    return encode(message)


def read_message(frame: bytes) -> Message:
    """The message in a frame. `msgspec.MsgspecError` when it holds what this version does not know."""
    return _messages.decode(frame)
