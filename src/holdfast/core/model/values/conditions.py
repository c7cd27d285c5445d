"""Conditions of an object: type, status, reason from a closed list, message, since when."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from holdfast.core.model.values.structs import Document, Instant


class ConditionReason(StrEnum):
    """Why a condition has its status: the closed list. Codes are for programs, messages for operators and tenants."""

    AS_DESIRED = "as-desired"
    PROGRESSING = "progressing"
    WAITING_FOR_QUOTA = "waiting-for-quota"
    WAITING_FOR_ROOM = "waiting-for-room"
    WAITING_FOR_REGION = "waiting-for-region"
    MAY_NOT_DISRUPT = "may-not-disrupt"
    NEVER_FITS = "never-fits"
    NOT_YET_EXAMINED = "not-yet-examined"
    NOT_YET_KNOWN = "not-yet-known"
    STALE_VIEW = "stale-view"
    PLUGIN_FAILED = "plugin-failed"
    SESSION_ENDED = "session-ended"
    PROBE_FAILED = "probe-failed"
    CRASHED = "crashed"
    CANNOT_START = "cannot-start"
    OVER_LIMIT = "over-limit"
    STARTING_SLOWLY = "starting-slowly"
    PROBE_NOT_PASSED = "probe-not-passed"
    OVERCOMMITTED = "overcommitted"
    NO_LONGER_ALLOWED = "no-longer-allowed"
    NOT_COVERED = "not-covered"
    SUSPECT = "suspect"
    LOST = "lost"
    RETIRED = "retired"
    CORDONED = "cordoned"
    DRAINING = "draining"
    MACHINE_REPLACED = "machine-replaced"
    REBOOTED = "rebooted"
    TIMES_NOT_KEPT = "times-not-kept"
    USER_SHARED = "user-shared"
    TOKEN_READABLE = "token-readable"
    OVERRIDDEN = "overridden"
    DEADLINE_MISSED = "deadline-missed"
    STORE_FULL = "store-full"
    STORE_FILLING = "store-filling"
    STORE_SILENT = "store-silent"
    NOT_LEADING = "not-leading"
    STOPPED = "stopped"


class ConditionStatus(StrEnum):
    """A condition is true, false, or not known."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Condition(Document, frozen=True):
    """One aspect of an object's state, as of a generation of its spec."""

    type: str
    status: ConditionStatus
    reason: ConditionReason
    message: str = ""
    since: Instant = 0
    observed_generation: int = 0


class Status(Document, frozen=True):
    """The report of controllers: the generation they reconciled and the resulting conditions."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with `new` replacing its type, sorted by type. `since` changes only with the status."""
    old = next((c for c in conditions if c.type == new.type), None)
    if old is not None and old.status is new.status:
        new = Condition(
            type=new.type,
            status=new.status,
            reason=new.reason,
            message=new.message,
            since=old.since,
            observed_generation=new.observed_generation,
        )
    others = [c for c in conditions if c.type != new.type]
    return tuple(sorted([*others, new], key=lambda c: c.type))


class ConditionValue(NamedTuple):
    """Status, reason and message of a condition."""

    status: ConditionStatus
    reason: ConditionReason
    message: str = ""
