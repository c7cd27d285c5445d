"""Breaches, and repairs: open operations with an owner. Repairs are computed from state on request and not stored."""

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

#: Repairs examined per step.
BIT = 500


class Repair(Struct, frozen=True, rename="camel"):
    """One open operation: kind, key, owner, start, what it waits for, and what an operator can do.

    The fields `since` and `deadline` are 0 if unknown. `tenant` is the tenant it concerns; empty: none.
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
    """Return the repair of a breach: its owner has until its deadline. `region` is the region that has the breach."""
    there = f" --region {region}" if region else ""
    return Repair(
        what="breach",
        key=f"{breach.invariant}/{subject}",
        owner=breach.owner,
        since=breach.opened,
        deadline=breach.deadline,
        overdue=now >= breach.deadline,
        waits_for=f"{breach.owner} to reduce the overshoot of {breach.overshoot} to zero",
        todo=f"`holdfast describe breach {breach.invariant}/{breach.key}{there}`",
        tenant=tenant,
    )


def by_urgency(found: Iterable[Repair | None]) -> list[Repair]:
    """Sort overdue repairs first, then by the longest wait; those without a time come last."""
    return sorted((one for one in found if one is not None), key=_urgency)


def most_urgent(
    found: Iterable[Repair | None], most: int, is_told: Callable[[Repair], bool]
) -> Generator[None, None, tuple[list[Repair], int]]:
    """Return the most urgent visible repairs and the number of all visible ones, in steps: there may be very many.

    None stands for an examined object that needs no repair.
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
    """An at-commit invariant that a fact from outside broke: it may shrink, never grow (RULES 18)."""

    invariant: str
    key: str
    overshoot: int
    owner: str
    opened: Instant
    deadline: Instant
