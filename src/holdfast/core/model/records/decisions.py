"""Evidence of decisions, audit events, denials, and decisions as they are stored.

Evidence and audit events are in the second section of a batch: durable with it and never folded into state. With the
record they belong to, they suffice to reconstruct a decision from a workload generation. A denial has no accepted
command, so denials are recorded by a command of their own (`ledger.builtin.audit`), and are not folded either.

A stored decision has what a scheduler found for requests of one tenant, and the outcome. Stored decisions are derived
from the log (`region.queries.decisions`) and outlive their objects. Ordinals and nodes are packed: one decision may
place a thousand.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Instant, Revision, Row

#: Size of a packed number.
NUMBER_BYTES = 8

#: Refusals: a code, the first detail of that code, a count.
Refusals = tuple[tuple[str, str, int], ...]


class Candidate(Row, frozen=True):
    """A feasible node, its score and the parts of the score, in fixed point."""

    node: Revision
    score: int
    parts: tuple[tuple[str, int], ...] = ()


class QuotaSnapshot(Row, frozen=True):
    """Charge and target of an account at the time of the pass."""

    account: str
    charged: Resources
    target: Resources


class SchedulingPass(Row, frozen=True):
    """The result of one pass for equal requests: rejected nodes and reasons, candidates, and the next owner.

    The `requests` are assignments with the examined generation; groups of a proposal are in the same order. `rejected`
    counts examined nodes by code and detail. `preempted` is the number of slots that stop for the placements.
    """

    requests: tuple[tuple[Revision, int], ...]
    template: str
    queued_since: Instant
    outcome: str
    next_owner: str
    seed: int = 0
    quota: tuple[QuotaSnapshot, ...] = ()
    examined: int = 0
    rejected: tuple[tuple[str, str, int], ...] = ()
    nearest: str = ""
    candidates: tuple[Candidate, ...] = ()
    preempted: int = 0

    ADDED: ClassVar[Mapping[str, int]] = {"preempted": 3}


class DecisionEvidence(Row, frozen=True, tag="decision"):
    """The evidence of one scheduling attempt. The record it belongs to shows which slot went where.

    Its inputs are exactly: state at `view`, the scheduler's proposals in flight, `policy`, `plugins` with their
    versions, the seed of each pass, and the version of the hints.
    """

    view: Revision
    policy: Revision
    passes: tuple[SchedulingPass, ...]
    in_flight: tuple[int, ...] = ()
    plugins: tuple[tuple[str, str], ...] = ()
    hints: int = 0


class AuditEvent(Row, frozen=True, tag="audit"):
    """An action of an operator or tenant: the complete command, the expected revision, and the server that acted for
    the sender, if any."""

    actor: str
    at: Instant
    command: str
    body: bytes
    expect: Revision = 0
    via: str = ""

    ADDED: ClassVar[Mapping[str, int]] = {"expect": 2, "via": 2}


class Denial(Row, frozen=True):
    """Denied requests of one actor: reason, count, and the first and last time.

    The field `what` is a command's tag, or a verb with the path and the requested kind.
    """

    actor: str
    what: str
    code: str
    tenant: str
    count: int
    first: Instant
    last: Instant


class DecisionOutcome(StrEnum):
    """The outcome of a decision's requests."""

    PLACED = "placed"
    IN_PART = "placed-in-part"
    REFUSED = "refused"
    WAITING = "waiting"
    NEVER_FITS = "never-fits"


class DecisionPart(Row, frozen=True):
    """One request of a decision, and which of its ordinals went to which nodes: both packed, in the same order."""

    assignment: Revision
    workload: Revision
    generation: int = 0
    ordinals: bytes = b""
    nodes: bytes = b""


class StoredDecision(Row, frozen=True):
    """A decision for requests of one tenant. `number` is its position in the log, `revision` that of its record.

    The result of the pass is `found`, without its requests, which are the parts; None: not recorded. `refused` is what
    the ledger refused: code, first detail and count.
    """

    number: Revision
    revision: Revision
    at: Instant
    actor: str
    tenant: str
    outcome: DecisionOutcome
    view: Revision = 0
    policy: Revision = 0
    in_flight: int = 0
    plugins: tuple[tuple[str, str], ...] = ()
    found: SchedulingPass | None = None
    refused: Refusals = ()
    reasons: tuple[PendingReason, ...] = ()


class DecisionWithParts(Struct, frozen=True):
    """A decision and its parts, one for each request."""

    decided: StoredDecision
    parts: tuple[DecisionPart, ...]


def pack(numbers: Sequence[int]) -> bytes:
    """Return the numbers of a part as bytes."""
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpack(packed: bytes) -> tuple[int, ...]:
    """Return the numbers of a part, in order."""
    return struct.unpack(f"<{len(packed) // NUMBER_BYTES}q", packed)
