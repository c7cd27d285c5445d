"""Envelopes, which carry commands to a ledger, and stamps, which locate events in its log."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.core.model.values.structs import Instant, Revision

C = TypeVar("C")

#: Values of `expect`: the object must not exist, or must exist at any revision.
ABSENT: Revision = -1
PRESENT: Revision = -2


class Envelope(Struct, Generic[C], frozen=True, array_like=True, forbid_unknown_fields=True):
    """A command with its sender, its cause and its evidence.

    A machine names its session and a sequence number in it; an operator or tenant names an idempotency key. `cause` is
    the revision that made the command necessary: from any event, causes lead back to the workload's generation. `sent`
    is the time of the first attempt; a retry repeats it. `view` and `policy` are the revisions that the command was
    based on. `evidence` is stored with the batch and never folded. `expect` is the revision at which the sender read
    the object that the command changes or follows from, `ABSENT` or `PRESENT`; 0: any. The ledger checks it together
    with the command (see `commit.authorization`). `via` is the server that acted for the actor; empty: the actor sent
    the request itself. The receiving server sets `via`, never the sender. `via` does not affect the decision, and a
    retry may come through another server.
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
    """The revision and time of an event in the log, and its actor."""

    revision: Revision
    at: Instant
    actor: str
