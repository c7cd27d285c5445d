"""What a reason from below is called at the platform, which is the gravest, and how it is told in few words."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.answers import NO_ROOM, Code
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus, ConditionValue
from holdfast.core.reconcilers.platform.status_progress import RegionFailing, RegionWaiting

#: So much of what a region says is repeated, and so many regions are named of those where some wait.
MESSAGE_MAX = 160
REGIONS_MAX = 3

#: What a reason from below is called here. A code that is a reason itself stays what it is.
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
#: The gravest first: what waits for a person, for others, for the next look.
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
    """What the code of a reason from below is called here."""
    return REASONS.get(code, ConditionReason.PROGRESSING)


def condition_true(message: str = "") -> ConditionValue:
    """As desired."""
    return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED, message)


def condition_false(reason: ConditionReason, message: str) -> ConditionValue:
    """Not so, and why."""
    return ConditionValue(ConditionStatus.FALSE, reason, message)


def fails(failing: Sequence[RegionFailing], share: str = "") -> ConditionValue:
    """What is gravest of what fails, in the words of its agent."""
    region, one = min(failing, key=_failing_gravity)
    where = f"{', one' if one.count > 1 else ''} on {one.node}" if one.node else ""
    said = f"{region}: {one.count}{where}: {one.detail or one.code}"
    return condition_false(reason_of(one.code), short("; ".join(filter(None, (share, said)))))


def _failing_gravity(one: RegionFailing) -> tuple[int, int, str, str]:
    return _place(reason_of(one.failing.code)), -one.failing.count, one.region, one.failing.code


def reason_held(held: RegionWaiting) -> ConditionReason:
    """Why these wait."""
    return reason_of(held.waiting.code)


def format_waiting(held: RegionWaiting) -> str:
    """How many wait where, and why, in the words of the region."""
    said = f": {held.waiting.message}" if held.waiting.message else ""
    return f"{held.region}: {held.waiting.count} wait{said}"


def by_region(waiting: tuple[RegionWaiting, ...]) -> list[RegionWaiting]:
    """The gravest reason of each region where some wait, the gravest first."""
    found: dict[str, RegionWaiting] = {}
    for held in sorted(waiting, key=gravity):
        found.setdefault(held.region, held)
    return list(found.values())


def named(others: list[RegionWaiting]) -> str:
    """Where else some wait, and by which code: in their own words those would change far more often."""
    named = [f"{held.region}: {held.waiting.count} wait: {held.waiting.code}" for held in others[: REGIONS_MAX - 1]]
    more = len(others) - len(named)
    return "; ".join([*named, f"and {more} more"] if more else named)


def gravity(held: RegionWaiting) -> tuple[int, int, str, str]:
    """By what those that wait are ordered: the gravest reason first."""
    return _place(reason_held(held)), -held.waiting.count, held.region, held.waiting.code


def _place(reason: ConditionReason) -> int:
    return GRAVITY.index(reason) if reason in GRAVITY else len(GRAVITY)


def short(text: str) -> str:
    """As much of it as is told."""
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 3]}..."
