"""What a decision was based on, what people did, and what they were denied.

The first two are the second section of a batch: durable with it and never folded into state. Together with the record
beside them they are what one needs to reconstruct one decision from one workload generation. Denials have no accepted
command to lie beside, so they come in records of their own (`ledger.denials`), and are not folded either.

Decisions as they are kept: what a scheduler found for requests of one tenant, and what became of it.

They are told from the log (`region.queries.decisions`) and outlive what they are about. Which ordinals went to which
nodes is packed: a decision may place a thousand.
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

#: So much a packed number takes.
NUMBER_BYTES = 8

#: What was refused: a code, the first detail of that code, how many.
Refusals = tuple[tuple[str, str, int], ...]


class Candidate(Row, frozen=True):
    """A node that could have been chosen, its score and the parts of it, in fixed point."""

    node: Revision
    score: int
    parts: tuple[tuple[str, int], ...] = ()


class QuotaSnapshot(Row, frozen=True):
    """What an account was charged, and could be, when the scheduler looked."""

    account: str
    charged: Resources
    target: Resources


class SchedulingPass(Row, frozen=True):
    """What a scheduler found for equal requests: what it rejected and why, what was best, and who acts next.

    `requests` are assignments with the generation that was looked at. In a proposal its groups are these, in this
    order. `rejected` says by code and detail how many of the nodes that were examined it kept out.
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


class DecisionEvidence(Row, frozen=True, tag="decision"):
    """One attempt of a scheduler. Which slot went where is in the record beside it.

    Its inputs are exactly: state at `view`, its own proposals in flight, `policy`, `plugins` with their versions, the
    seed of each pass, and the version of the hints.
    """

    view: Revision
    policy: Revision
    passes: tuple[SchedulingPass, ...]
    in_flight: tuple[int, ...] = ()
    plugins: tuple[tuple[str, str], ...] = ()
    hints: int = 0


class AuditEvent(Row, frozen=True, tag="audit"):
    """What a person did: the command as it was sent, so that nothing of it is lost, what its sender expected, and which
    server acted for it, if one did."""

    actor: str
    at: Instant
    command: str
    body: bytes
    expect: Revision = 0
    via: str = ""

    ADDED: ClassVar[Mapping[str, int]] = {"expect": 2, "via": 2}


class Denial(Row, frozen=True):
    """Who was denied what, and why: so often between two instants.

    `what` is a command's tag, or a verb with the path and the kind that was asked for.
    """

    actor: str
    what: str
    code: str
    tenant: str
    count: int
    first: Instant
    last: Instant


class DecisionOutcome(StrEnum):
    """What became of the requests of a decision."""

    PLACED = "placed"
    IN_PART = "placed-in-part"
    REFUSED = "refused"
    WAITING = "waiting"
    NEVER_FITS = "never-fits"


class DecisionPart(Row, frozen=True):
    """One request of a decision, and which of its ordinals went to which nodes: packed, both in one order."""

    assignment: Revision
    workload: Revision
    generation: int = 0
    ordinals: bytes = b""
    nodes: bytes = b""


class StoredDecision(Row, frozen=True):
    """A decision for requests of one tenant. `number` is its place in the log, `revision` that of its record.

    `found` is what the scheduler found, without its requests, which are the parts; None: it did not say. `refused` is
    what the ledger refused of it: by code, the first detail and how many.
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
    """Numbers of a part, one after the other."""
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpack(packed: bytes) -> tuple[int, ...]:
    """The numbers of a part, in their order."""
    return struct.unpack(f"<{len(packed) // NUMBER_BYTES}q", packed)
