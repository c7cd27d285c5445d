"""Decisions as they are kept: what a scheduler found for requests of one tenant, and what became of it.

They are told from the log (`region.decided`) and outlive what they are about. Which ordinals went to which nodes is
packed: a decision may place a thousand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from holdfast.core.model.evidence import Pass
from holdfast.core.model.placement import PendingReason
from holdfast.core.model.shapes import Instant, Revision, Row

#: So much a packed number takes.
NUMBER_BYTES = 8
#: What was refused: a code, the first detail of that code, how many.
Refusals = tuple[tuple[str, str, int], ...]


class Outcome(StrEnum):
    """What became of the requests of a decision."""

    PLACED = "placed"
    IN_PART = "placed-in-part"
    REFUSED = "refused"
    WAITING = "waiting"
    NEVER_FITS = "never-fits"


class Part(Row, frozen=True):
    """One request of a decision, and which of its ordinals went to which nodes: packed, both in one order."""

    assignment: Revision
    workload: Revision
    generation: int = 0
    ordinals: bytes = b""
    nodes: bytes = b""


class Decided(Row, frozen=True):
    """A decision for requests of one tenant. `number` is its place in the log, `revision` that of its record.

    `found` is what the scheduler found, without its requests, which are the parts; None: it did not say. `refused` is
    what the ledger refused of it: by code, the first detail and how many.
    """

    number: Revision
    revision: Revision
    at: Instant
    actor: str
    tenant: str
    outcome: Outcome
    view: Revision = 0
    policy: Revision = 0
    in_flight: int = 0
    plugins: tuple[tuple[str, str], ...] = ()
    found: Pass | None = None
    refused: Refusals = ()
    reasons: tuple[PendingReason, ...] = ()


class Found(Struct, frozen=True):
    """A decision and its parts, one for each request."""

    decided: Decided
    parts: tuple[Part, ...]


def pack(numbers: Sequence[int]) -> bytes:
    """Numbers of a part, one after the other."""
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpack(packed: bytes) -> tuple[int, ...]:
    """The numbers of a part, in their order."""
    return struct.unpack(f"<{len(packed) // NUMBER_BYTES}q", packed)
