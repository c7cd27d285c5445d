"""Messages from a leader to a mirror of its ledger. Frames of msgpack.

With `GET /v1/log?since=LOG:TERM:SEQ:DIGEST` the stream continues after that batch. Without `since` it starts with the
newest snapshot. A position that is not in the log, or is trimmed, is declined: `diverged`, `gone`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.values.structs import Instant, Row

LOG = "/v1/log"
SINCE = "since"


class SnapshotBegin(Row, frozen=True, tag="begin"):
    """Start over with the snapshot of this manifest, whose chunks follow in order, or without one from the first batch.

    It cancels any earlier `SnapshotBegin`.
    """

    manifest: bytes = b""


class SnapshotChunk(Row, frozen=True, tag="piece"):
    """The next chunk of the snapshot."""

    raw: bytes


class LogBatch(Row, frozen=True, tag="step"):
    """The next stored batch, and the leader's ledger time when it was sent.

    With `complete` there was no later batch then.
    """

    raw: bytes
    digest: bytes
    at: Instant
    complete: bool = True


class LogHeartbeat(Row, frozen=True, tag="beat"):
    """At this ledger time there was no batch after this position.

    Without `leads` the sender cannot prove that it leads, and the stream ends.
    """

    at: Instant
    token: RevisionToken
    leads: bool = True


Message = SnapshotBegin | SnapshotChunk | LogBatch | LogHeartbeat

#: Returns the message in a frame, or raises `msgspec.MsgspecError`. `codec.encode` returns the frame of a message.
read_message: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode
