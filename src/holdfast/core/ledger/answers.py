"""Answers of a ledger. An expected answer is a value: accepted, refused with a code and the facts, or a repeat."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from holdfast.core.model.values.structs import Revision


class Code(StrEnum):
    """Why a command was refused: the closed list, for both ledgers."""

    # The envelope
    MALFORMED = "malformed"
    TOO_LARGE = "too-large"
    TOO_OLD_TO_RETRY = "too-old-to-retry"
    TOO_MANY_IN_FLIGHT = "too-many-in-flight"
    TOO_MANY_KEYS = "too-many-keys"
    KEY_REUSED = "key-reused"
    NO_SESSION = "no-session"
    NO_RIGHT = "no-right"
    WRONG_SCOPE = "wrong-scope"
    EXPIRED = "expired"
    LEVEL = "level"
    # What the command names
    NOT_FOUND = "not-found"
    EXISTS = "exists"
    STALE = "stale"
    IN_USE = "in-use"
    CONTRADICTORY = "contradictory"
    WRONG_PHASE = "wrong-phase"
    NOT_OWNER = "not-owner"
    TOO_EARLY = "too-early"
    ALREADY = "already"
    # Placement
    NOT_ASSIGNED = "not-assigned"
    NODE_UNAVAILABLE = "node-unavailable"
    LABELS = "labels"
    TAINT = "taint"
    TENANCY = "tenancy"
    ONE_TENANT = "one-tenant"
    ISOLATION = "isolation"
    RESIDENCY = "residency"
    LATENCY = "latency"
    CAPACITY = "capacity"
    DEVICE = "device"
    PORT = "port"
    SPREAD = "spread"
    APART = "apart"
    NEAR = "near"
    OVER_GRANT = "over-grant"
    GRANT_ENDED = "grant-ended"
    PROTECTED = "protected"
    POLICY = "policy"
    PRIORITY = "priority"
    DISRUPTION = "disruption"
    FENCE = "fence"
    PAUSED = "paused"
    DEADLINE_MISSED = "deadline-missed"
    # Between the ledgers
    OVER_QUOTA = "over-quota"
    TOO_MANY_PENDING = "too-many-pending"
    REGION_UNAVAILABLE = "region-unavailable"
    RIGHT_HELD = "right-held"
    GAP = "gap"
    DIVERGED = "diverged"
    TOMBSTONED = "tombstoned"


#: Why something is not placed that another place might not say: there is no room for it here.
NO_ROOM = (
    Code.CAPACITY, Code.DEVICE, Code.PORT, Code.SPREAD, Code.APART, Code.NEAR, Code.PROTECTED, Code.LABELS,
    Code.TAINT, Code.TENANCY, Code.ONE_TENANT, Code.ISOLATION, Code.NODE_UNAVAILABLE,
)  # fmt: skip


class Refused(Struct, frozen=True):
    """Nothing has changed. The facts say which object, what was seen, and what to wait for."""

    code: Code
    message: str
    facts: Mapping[str, Any] = {}


class Accepted(Struct, frozen=True, gc=False):
    """What becomes true when these events are durable. `answer` is what the sender is told besides the revision.

    `rows`: how many numbers its ranges stand for. In a batch they weigh as much as if each were named.
    """

    events: tuple[Any, ...]
    answer: bytes = b""
    rows: int = 0


class Repeated(Struct, frozen=True, gc=False):
    """The command was accepted before, at this revision: the first answer again."""

    revision: Revision
    answer: bytes


Answer = Accepted | Refused | Repeated


def stale(key: str, seen: Revision, catch_up_to: Revision, because: str) -> Refused:
    """The sender's view is behind: it should wait for `catch_up_to` and look again."""
    facts = {"key": key, "seen": seen, "catch_up_to": catch_up_to, "because": because}
    return Refused(Code.STALE, f"{key} has changed since the view this was based on: {because}", facts)


def too_large(what: str, size: int, most: int) -> Refused:
    """More than is taken: of what, how much there is, and the most."""
    facts = {"what": what, "size": size, "most": most}
    return Refused(Code.TOO_LARGE, f"{size} {what}; at most {most} are taken", facts)


def not_found(kind: str, name: object) -> Refused:
    """There is no such object."""
    return Refused(Code.NOT_FOUND, f"there is no {kind} {name}", {"kind": kind, "name": name})


def malformed(message: str, **facts: Any) -> Refused:
    """It is not what it should be."""
    return Refused(Code.MALFORMED, message, facts)


def contradictory(message: str, **facts: Any) -> Refused:
    """It cannot all be meant."""
    return Refused(Code.CONTRADICTORY, message, facts)


def in_use(message: str, **facts: Any) -> Refused:
    """Something still depends on it."""
    return Refused(Code.IN_USE, message, facts)


def already(key: str, revision: Revision) -> Refused:
    """Nothing to do: it is so, since that revision."""
    return Refused(Code.ALREADY, f"{key} is so already", {"key": key, "revision": revision})
