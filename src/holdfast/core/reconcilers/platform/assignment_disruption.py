"""A workload's disruption budget, shared over the regions that have replicas of it.

If it suffices, each region gets one and the rest by its count. If not, it goes first to regions that still run an older
template, then to present holders, then to the largest. A region acts on the last share that it received, however old. A
share therefore moves only after its old holder has acknowledged the smaller one.

Shares count units, as the split does: a gang is stopped as a whole, so a part of one is of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from holdfast.core.reconcilers.platform.assignment_candidates import CandidateRegion
from holdfast.core.reconcilers.platform.assignment_split import SplitRegion, by_weight

#: Time after which a missing acknowledgement is checked. It arrives without a change of the workload.
ACKNOWLEDGED_MS = 1_000


class BudgetHolder(Struct, frozen=True):
    """A region with replicas: its share, and whether it has acknowledged that it has no more, or may soon.

    If `left`, it is lost and its replicas are replaced: it needs no share.
    """

    name: str
    count: int
    holds: int
    is_rolling: bool = False
    is_settled: bool = True
    is_heard: bool = True
    left: bool = False


class BudgetShares(NamedTuple):
    """The next share of each region, and whether one waits for an acknowledgement that may arrive any time.

    An unhealthy region's acknowledgement triggers the controller by itself.
    """

    told: dict[str, int]
    waits: bool


def budget_holder(site: CandidateRegion, count: int, digest: str, unit: int = 1) -> BudgetHolder:
    old, seen = site.old, site.seen
    rolling = seen is not None and any(one.bound and one.template != digest for one in seen.counts)
    first = old is None or old.revision == old.uid
    settled = first or site.left or (old is not None and site.region.status.cursor >= old.revision)
    return BudgetHolder(
        site.name, count, old.disruption // unit if old is not None else 0, rolling, settled, site.is_healthy, site.left
    )


def due(holders: Sequence[BudgetHolder], most: int) -> dict[str, int]:
    """Return the share that each region should have."""
    wanted = {one.name: 0 for one in holders}
    having = [one for one in holders if one.count]
    if having and len(having) <= most:
        places = [SplitRegion(one.name, weight=one.count, turn=turn) for turn, one in enumerate(having)]
        for one, part in zip(having, by_weight(places, most - len(having)), strict=True):
            wanted[one.name] = 1 + part
        return wanted

    def order(one: BudgetHolder) -> tuple[bool, bool, bool, int, str]:
        return one.left, not one.is_rolling, not one.holds, -one.count, one.name

    for one in sorted(having, key=order)[:most]:
        wanted[one.name] = 0 if one.left else 1
    return wanted


def budget_shares(holders: Sequence[BudgetHolder], most: int) -> BudgetShares:
    """Return the next share of each region. It shrinks at once, and grows only by what no region can still act on."""
    wanted = due(holders, most)
    told = {one.name: min(one.holds, wanted[one.name]) for one in holders}
    left = most - sum(one.holds for one in holders)
    waits = False
    for one in holders:
        lacking = wanted[one.name] - told[one.name]
        if lacking > 0:
            if all(other.is_settled for other in holders if other is not one):
                given = max(0, min(lacking, left))
                told[one.name] += given
                left -= given
            else:
                waits = any(one.is_heard and not one.is_settled for one in holders)
    return BudgetShares(told, waits)
