"""Answers of a ledger. An expected answer is a value: accepted, refused with a code and facts, or a duplicate."""

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
    # The objects that the command names
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
    GANG = "gang"
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


#: Refusals of one node that another node might accept: the slot, or its gang, does not fit there.
NO_ROOM = (
    Code.CAPACITY, Code.DEVICE, Code.PORT, Code.SPREAD, Code.APART, Code.NEAR, Code.GANG, Code.PROTECTED, Code.LABELS,
    Code.TAINT, Code.TENANCY, Code.ONE_TENANT, Code.ISOLATION, Code.NODE_UNAVAILABLE,
)  # fmt: skip


class Refused(Struct, frozen=True):
    """Nothing has changed. The facts name the object, the revision seen, and the revision to wait for."""

    code: Code
    message: str
    facts: Mapping[str, Any] = {}


class Accepted(Struct, frozen=True, gc=False):
    """The events of an accepted command, in effect once durable. `answer` is returned to the sender with the revision.

    `rows`: how many numbers its ranges contain. In a batch each number weighs as much as if it were listed.
    """

    events: tuple[Any, ...]
    answer: bytes = b""
    rows: int = 0


class Repeated(Struct, frozen=True, gc=False):
    """A duplicate: the command was accepted before, at this revision. The sender gets the first answer again."""

    revision: Revision
    answer: bytes


Answer = Accepted | Refused | Repeated


def stale(key: str, seen: Revision, catch_up_to: Revision, because: str) -> Refused:
    """Refuse a command whose view is stale. The sender should wait for `catch_up_to` and decide again."""
    facts = {"key": key, "seen": seen, "catch_up_to": catch_up_to, "because": because}
    return Refused(Code.STALE, f"{key} has changed since the sender's view: {because}", facts)


def too_large(what: str, size: int, most: int) -> Refused:
    """Refuse a size above its limit."""
    facts = {"what": what, "size": size, "most": most}
    return Refused(Code.TOO_LARGE, f"{size} {what}; at most {most} are accepted", facts)


def not_found(kind: str, name: object) -> Refused:
    """Refuse a command that names an object that does not exist."""
    return Refused(Code.NOT_FOUND, f"there is no {kind} {name}", {"kind": kind, "name": name})


def malformed(message: str, **facts: Any) -> Refused:
    """Refuse a command with an invalid value."""
    return Refused(Code.MALFORMED, message, facts)


def contradictory(message: str, **facts: Any) -> Refused:
    """Refuse a command whose parts contradict each other or the state."""
    return Refused(Code.CONTRADICTORY, message, facts)


def in_use(message: str, **facts: Any) -> Refused:
    """Refuse a change of an object that others still depend on."""
    return Refused(Code.IN_USE, message, facts)


def already(key: str, revision: Revision) -> Refused:
    """Refuse a command that would change nothing: the state is as requested since that revision."""
    return Refused(Code.ALREADY, f"{key} already has the requested state", {"key": key, "revision": revision})
