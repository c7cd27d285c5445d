"""The platform's names for the regions' reasons, their order of gravity, and short messages."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.answers import NO_ROOM, Code
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus, ConditionValue
from holdfast.core.reconcilers.platform.status_progress import RegionFailing, RegionWaiting

#: Longest part of a region's message that is repeated, and most regions with waiting replicas that are named.
MESSAGE_MAX = 160
REGIONS_MAX = 3

#: The platform's reason for each code of a region. A code that is itself a reason stays.
REASONS: dict[str, ConditionReason] = {
    **dict.fromkeys((Code.OVER_GRANT.value, Code.GRANT_ENDED.value), ConditionReason.WAITING_FOR_QUOTA),
    **{code.value: ConditionReason.WAITING_FOR_ROOM for code in NO_ROOM},
    Code.PAUSED.value: ConditionReason.OVERRIDDEN,
    Code.POLICY.value: ConditionReason.STALE_VIEW,
    Code.STALE.value: ConditionReason.STALE_VIEW,
    **dict.fromkeys((Code.NOT_ASSIGNED.value, Code.NOT_FOUND.value), ConditionReason.WAITING_FOR_REGION),
    **dict.fromkeys(("exit", "gone"), ConditionReason.CRASHED),
    "declined": ConditionReason.CANNOT_START,
    **{reason.value: reason for reason in ConditionReason},
}
#: The gravest first: reasons that need an operator, others, or only time.
GRAVITY = (
    ConditionReason.NEVER_FITS, ConditionReason.DEADLINE_MISSED, ConditionReason.CANNOT_START,
    ConditionReason.OVER_LIMIT, ConditionReason.CRASHED,
    ConditionReason.PROBE_FAILED, ConditionReason.PROBE_NOT_PASSED, ConditionReason.STARTING_SLOWLY,
    ConditionReason.WAITING_FOR_QUOTA,
    ConditionReason.WAITING_FOR_ROOM, ConditionReason.PLUGIN_FAILED, ConditionReason.OVERRIDDEN,
    ConditionReason.SESSION_ENDED,
    ConditionReason.STALE_VIEW, ConditionReason.NOT_YET_EXAMINED, ConditionReason.PROGRESSING,
)  # fmt: skip


def reason_of(code: str) -> ConditionReason:
    """Return the platform's reason for a code of a region."""
    return REASONS.get(code, ConditionReason.PROGRESSING)


def condition_true(message: str = "") -> ConditionValue:
    return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED, message)


def condition_false(reason: ConditionReason, message: str) -> ConditionValue:
    """Return a condition that does not hold, with its reason."""
    return ConditionValue(ConditionStatus.FALSE, reason, message)


def fails(failing: Sequence[RegionFailing], share: str = "") -> ConditionValue:
    """Return the gravest failure, with its agent's message."""
    region, one = min(failing, key=_failing_gravity)
    where = f"{', one' if one.count > 1 else ''} on {one.node}" if one.node else ""
    said = f"{region}: {one.count}{where}: {one.detail or one.code}"
    return condition_false(reason_of(one.code), short("; ".join(filter(None, (share, said)))))


def _failing_gravity(one: RegionFailing) -> tuple[int, int, str, str]:
    return _place(reason_of(one.failing.code)), -one.failing.count, one.region, one.failing.code


def reason_held(held: RegionWaiting) -> ConditionReason:
    """Return why these replicas wait."""
    return reason_of(held.waiting.code)


def format_waiting(held: RegionWaiting) -> str:
    """Return how many replicas wait in a region, with the region's message."""
    said = f": {held.waiting.message}" if held.waiting.message else ""
    return f"{held.region}: {held.waiting.count} wait{said}"


def by_region(waiting: tuple[RegionWaiting, ...]) -> list[RegionWaiting]:
    """Return the gravest reason of each region with waiting replicas, the gravest first."""
    found: dict[str, RegionWaiting] = {}
    for held in sorted(waiting, key=gravity):
        found.setdefault(held.region, held)
    return list(found.values())


def named(others: list[RegionWaiting]) -> str:
    """Return further regions with waiting replicas by code; their messages would change far more often."""
    named = [f"{held.region}: {held.waiting.count} wait: {held.waiting.code}" for held in others[: REGIONS_MAX - 1]]
    more = len(others) - len(named)
    return "; ".join([*named, f"and {more} more"] if more else named)


def gravity(held: RegionWaiting) -> tuple[int, int, str, str]:
    """Return the sort key of waiting replicas: the gravest reason first."""
    return _place(reason_held(held)), -held.waiting.count, held.region, held.waiting.code


def _place(reason: ConditionReason) -> int:
    return GRAVITY.index(reason) if reason in GRAVITY else len(GRAVITY)


def short(text: str) -> str:
    """Return the text, cut to its longest length."""
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 3]}..."
