"""Something that waits to be ended or put right. It is told from state when somebody asks, and stored nowhere."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast.core.model.placement import Breach
from holdfast.core.model.shapes import Instant


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


def of_breach(breach: Breach, subject: str, tenant: str, now: Instant, region: str = "") -> Repair:
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


def in_order(found: Iterable[Repair]) -> list[Repair]:
    """What is overdue first, then what waits longest; what has no time comes last."""
    return sorted(found, key=lambda one: (not one.overdue, not one.since, one.since, one.what, one.key, one.owner))
