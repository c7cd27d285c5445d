"""The order of groups in one cycle: the most urgent level, in it the tenant with the smallest share, its oldest group.

    level: priority and deadline ──▶ tenants by their share when last computed ──▶ groups by age

A tenant's share grows while its groups are placed. It is computed again at the tenant's turn; if others have less, the
tenant moves back. So only tenants that were served are moved, however many groups wait.

Places are kept between cycles, so a cycle costs what it takes and what changed, not what waits. A stale place (its
group left, changed its age, is blocked, or has nothing to propose) is dropped at its turn, or once most are stale.

Requests are ordered by priority class, then deadline, then the tenant's dominant share, then age.

The dominant share is a tenant's largest part of any resource of the region, in millionths, so that every machine
computes the same. A missed deadline is not urgent: such work comes after all that can still be in time. Nor is a
distant one: a deadline in ten years must not outrank all work without one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.node_usage import RegionTotals
from holdfast.core.model.values.resources import ZERO, Resources, add, amount_of
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.assignments import is_late
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.request_groups import Level, RequestGroup, RequestKey

#: Later than every deadline.
NEVER = 1 << 62

WHOLE = 1_000_000

#: Time before a deadline at which it becomes urgent.
HURRY_MS = 3_600_000


#: Stale places, beyond the number of valid ones.
STALE_MAX = 64

#: Age of a group, a unique number, and the group.
Place = tuple[Instant, RequestKey, int, RequestGroup]


class FairOrder:
    """Groups with open slots, in order. `waits` returns whether a group still has some."""

    def __init__(self, waits: Callable[[RequestGroup], bool]) -> None:
        self._waits = waits
        self._lanes: dict[Level, dict[str, list[Place]]] = {}
        #: Levels, most urgent last. Each deadline is one, so there may be many.
        self._order: list[Level] = []
        #: The current number of places, and the number ever given.
        self._count = self._number = 0
        self._share: Callable[[str], int] = lambda _: 0
        #: Levels of this cycle, most urgent last; and the tenants of that one.
        self._levels: list[Level] = []
        self._tenants: list[tuple[int, Place, str]] = []

    def put(self, group: RequestGroup) -> None:
        """Give a group the place of its age, unless it has it."""
        since, first = group.oldest()
        known: Place | None = group.listed  # type: ignore[assignment]
        if known is not None and known[:2] == (since, first):
            return
        self._number += 1
        self._count += 1
        group.listed = place = (since, first, self._number, group)
        level, tenant = group.lane
        lanes = self._lanes.get(level)
        if lanes is None:
            lanes = self._lanes[level] = {}
            insort(self._order, level, key=_later)
        heappush(lanes.setdefault(tenant, []), place)

    def begin(self, share: Callable[[str], int], groups: int) -> None:
        """Start a cycle. `share` returns a tenant's current dominant share."""
        if self._count > 2 * groups + STALE_MAX:
            self._compact()
        self._share = share
        self._levels = self._order.copy()
        self._begin_level()

    def take(self) -> RequestGroup | None:
        """Remove and return the next group; None at the end."""
        while self._levels:
            if not self._tenants:
                self._end_level()
                self._begin_level()
                continue
            share, _, tenant = heappop(self._tenants)
            lane = self._lanes[self._levels[-1]][tenant]
            now = self._share(tenant)
            if now > share:
                heappush(self._tenants, (now, lane[0], tenant))  # its share has grown meanwhile
                continue
            group = heappop(lane)[-1]
            group.listed = None
            self._count -= 1
            self._offer(tenant, now)
            return group
        return None

    def _begin_level(self) -> None:
        self._tenants = []
        if self._levels:
            for tenant in list(self._lanes[self._levels[-1]]):
                self._offer(tenant, self._share(tenant))

    def _end_level(self) -> None:
        level = self._levels.pop()
        if not self._lanes[level]:
            self._drop(level)

    def _drop(self, level: Level) -> None:
        # Usually it is the most urgent.
        place = -1 if self._order[-1] == level else bisect_left(self._order, _later(level), key=_later)
        del self._lanes[level], self._order[place]

    def _offer(self, tenant: str, share: int) -> None:
        """Queue a tenant with its oldest waiting group. Without one, its lane is dropped."""
        lanes = self._lanes[self._levels[-1]]
        lane = lanes[tenant]
        while lane and not self._holds(lane[0]):
            self._count -= 1
            heappop(lane)
        if lane:
            heappush(self._tenants, (share, lane[0], tenant))
        else:
            del lanes[tenant]

    def _holds(self, place: Place) -> bool:
        """Whether a place is valid and its group waits. Otherwise the group loses the place."""
        group = place[-1]
        if group.listed is not place:
            return False
        if not self._waits(group):
            group.listed = None
            return False
        return True

    def _compact(self) -> None:
        """Drop stale places."""
        self._count = 0
        for level, lanes in list(self._lanes.items()):
            for tenant, lane in list(lanes.items()):
                lanes[tenant] = left = [place for place in lane if self._holds(place)]
                heapify(left)
                self._count += len(left)
                if not left:
                    del lanes[tenant]
            if not lanes:
                self._drop(level)


def _later(level: Level) -> Level:
    """Sort key with the most urgent level last."""
    return -level[0], -level[1]


def urgency(state: RegionState, assignment: int, now: Instant) -> tuple[int, Instant]:
    """Return the level of an assignment: negated priority, and the deadline if it is near."""
    known = state.assignments[assignment]
    cls = state.priority_classes.get(known.priority_class)
    hurries = known.deadline and known.deadline - HURRY_MS <= now and not is_late(known, now)
    return -(cls.spec.priority if cls is not None else 0), known.deadline if hurries else NEVER


def turns_at(known: Assignment, now: Instant) -> Instant | None:
    """Return when its deadline next becomes urgent, or passes; None if neither is ahead."""
    return (
        next((at for at in (known.deadline - HURRY_MS, known.deadline) if now < at), None) if known.deadline else None
    )


def dominant_share(sums: RegionTotals, used: Resources) -> int:
    """Return the dominant share of an amount in the region."""
    has, most = sums.capacity, 0
    plain = (used.cpu, has.cpu), (used.memory, has.memory), (used.disk, has.disk), (used.gpu, has.gpu)
    extended = [(amount, amount_of(has, name)) for name, amount in used.extended] if used.extended else ()
    for amount, all_ in (*plain, *extended):
        if all_ and amount * WHOLE // all_ > most:
            most = amount * WHOLE // all_
    return most


def tenant_usage(state: RegionState, tenant: str, more: Resources = ZERO) -> Resources:
    """Return the charges of a tenant's own account, and what is in flight."""
    use: AccountUsage | None = state.account_usage.get(f"quota/{tenant}")
    return add(use.charged, more) if use is not None else more
