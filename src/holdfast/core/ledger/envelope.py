"""What carries a command to a ledger."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.core.model.values.structs import Instant, Revision

C = TypeVar("C")

#: Expected of an object that must not exist, and of one that must, whatever its revision.
ABSENT: Revision = -1
PRESENT: Revision = -2


class Envelope(Struct, Generic[C], frozen=True, array_like=True, forbid_unknown_fields=True):
    """A command with its sender and its reasons.

    Machines name their session and a sequence number in it; people name an idempotency key. `cause` is the revision
    that made the command necessary: from any event one walks back to the workload's generation. `sent` is when it was
    first sent, and stays the same in a repeat. `view` and `policy` are the revisions it was based on; `evidence` is
    kept beside the log and never folded. `expect` is the revision at which the sender read the object that the command
    changes or follows from, `ABSENT` or `PRESENT`; 0: whatever is there. The ledger judges it with the command (see
    `commit.preconditions`). `via` is the server that acted for the actor; empty: the actor itself asked. The server
    that takes an envelope says so, never its sender. It makes no difference to what is decided, and a repeat may come
    another way.
    """

    actor: str
    command: C
    sent: Instant
    session: Revision = 0
    sequence: int = 0
    key: str = ""
    cause: Revision = 0
    view: Revision = 0
    policy: Revision = 0
    evidence: bytes = b""
    expect: Revision = 0
    via: str = ""


class Stamp(Struct, frozen=True, gc=False):
    """Where and when an event stands in the log, and who caused it."""

    revision: Revision
    at: Instant
    actor: str
