"""Something that waits to be ended or put right. It is told from state when somebody asks, and stored nowhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from heapq import nsmallest

from msgspec import Struct

from holdfast.core.model.values.structs import Instant, Row

PLATFORM_ESCROW = "platform.escrow"

PLATFORM_DISRUPTION = "platform.disruption"

PLATFORM_RESIDENCY = "platform.residency"

REGION_CAPACITY = "region.capacity"

REGION_ALLOWED = "region.allowed"

REGION_RESIDENCY = "region.residency"

REGION_RIGHT = "region.right"


#: So much is looked at in one bit.
BIT = 500


class Repair(Struct, frozen=True, rename="camel"):
    """What it is and which one, whose turn it is, since when, what it waits for, and what a person can do.

    `since` and `deadline` are unset where nobody knows or expects one. `tenant` is whose it is; empty: nobody's.
    """

    what: str
    key: str
    owner: str
    since: Instant = 0
    deadline: Instant = 0
    overdue: bool = False
    waits_for: str = ""
    todo: str = ""
    tenant: str = ""


def breach_repair(breach: Breach, subject: str, tenant: str, now: Instant, region: str = "") -> Repair:
    """A promise that is broken: its owner has until its deadline. `region` is the one that keeps it."""
    there = f" --region {region}" if region else ""
    return Repair(
        what="breach",
        key=f"{breach.invariant}/{subject}",
        owner=breach.owner,
        since=breach.opened,
        deadline=breach.deadline,
        overdue=now >= breach.deadline,
        waits_for=f"{breach.owner} to bring {breach.overshoot} too much back within its limit",
        todo=f"`holdfast describe breach {breach.invariant}/{breach.key}{there}`",
        tenant=tenant,
    )


def by_urgency(found: Iterable[Repair | None]) -> list[Repair]:
    """What is overdue first, then what waits longest; what has no time comes last."""
    return sorted((one for one in found if one is not None), key=_urgency)


def most_urgent(
    found: Iterable[Repair | None], most: int, is_told: Callable[[Repair], bool]
) -> Generator[None, None, tuple[list[Repair], int]]:
    """Of those that are told the most urgent, and how many there are, bit by bit: there may be very many.

    None stands for something that was looked at and waits for nothing.
    """
    best: list[Repair] = []
    part: list[Repair] = []
    total = 0
    for number, one in enumerate(found, 1):
        if one is not None and is_told(one):
            part.append(one)
            total += 1
        if number % BIT == 0:
            best, part = nsmallest(most, [*best, *part], key=_urgency) if part else best, []
            yield
    return nsmallest(most, [*best, *part], key=_urgency), total


def _urgency(one: Repair) -> tuple[object, ...]:
    return not one.overdue, not one.since, one.since, one.what, one.key, one.owner


class Breach(Row, frozen=True):
    """An invariant of the second kind that a fact from outside has broken: it may shrink, never grow (RULES 18)."""

    invariant: str
    key: str
    overshoot: int
    owner: str
    opened: Instant
    deadline: Instant
