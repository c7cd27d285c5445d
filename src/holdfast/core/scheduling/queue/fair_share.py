"""The order of groups in one cycle: the most urgent level, in it the tenant with the smallest share, its oldest group.

    level: priority and deadline ──▶ tenants by their weighted share ──▶ groups by age
    one placement of sixty-four   ──▶ the group of the region that has waited longest, and longer than a minute

A tenant's share grows while its groups are placed. So a group gets a quantum, and returns to its place if it still has
open slots: then shares are compared again. A tenant that is alone in its level has no such limit.

The second line is aging. It bounds the wait of every request, whoever else keeps coming, and moves one of sixty-four
placements at most. It follows from the view alone: the count of placements in the region's state, and since when
requests wait.

Places are kept between cycles, so a cycle costs what it takes and what changed, not what waits. A stale place (its
group left, changed its age, is blocked, or has nothing to propose) is dropped at its turn, or once most are stale.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace

from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.region.queries.accounts import UNLIMITED
from holdfast.core.scheduling.queue.request_groups import Level, RequestGroup, RequestKey

#: Stale places, beyond the number of valid ones.
STALE_MAX = 64

#: Of so many placements, the last goes to the group that has waited longest.
AGED_EACH = 64
#: Time after which a group has a claim to it.
PATIENCE_MS: Duration = 60_000

#: Age of a group, a unique number, and the group.
Place = tuple[Instant, RequestKey, int, RequestGroup]


class FairOrder:
    """Groups with open slots, in order. `waits` returns whether a group still has some."""

    def __init__(self, waits: Callable[[RequestGroup], bool]) -> None:
        self._waits = waits
        self._lanes: dict[Level, dict[str, list[Place]]] = {}
        #: Levels, most urgent last. Each deadline is one, so there may be many.
        self._order: list[Level] = []
        #: The places of all lanes, the longest wait first.
        self._ages: list[Place] = []
        #: The current number of places, and the number ever given.
        self._count = self._number = 0
        #: Levels of this cycle, most urgent last; and the tenants of that one, but for the one whose turn it is.
        self._levels: list[Level] = []
        self._tenants: list[tuple[int, Place, str]] = []
        self._turn = ""
        #: The shares of tenants, each until its next turn ends.
        self._share: Callable[[str], int] = lambda _: 0
        self._shares: dict[str, int] = {}
        #: Groups are aged that wait since this time or longer.
        self._aged: Instant = 0
        #: The number of placements before this turn; negative while no group is aged.
        self._placed = -1
        #: Whether the group of this turn was taken for its age.
        self.is_aged = False

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
        heappush(self._ages, place)

    def begin(
        self, share: Callable[[str], int], groups: int, now: Instant = 0, placed: Callable[[], int] = lambda: 0
    ) -> None:
        """Start a cycle. `share` returns a tenant's current share, `placed` the number of placements until now."""
        if max(self._count, len(self._ages)) > 2 * groups + STALE_MAX:
            self._compact()
        self._share, self._shares, self._turn = share, {}, ""
        self._levels = self._order.copy()
        self._aged, self.is_aged = now - PATIENCE_MS, False
        self._placed = placed() if self._has_aged() else -1
        self._begin_level()

    def take(self) -> RequestGroup | None:
        """Remove and return the next group; None at the end."""
        self._end_turn()
        self.is_aged = self._left_to_aged() == 0
        if self.is_aged:
            group = _taken(heappop(self._ages))
            self._shares.pop(group.lane[1], None)
            return group
        while self._levels:
            if not self._tenants:
                self._end_level()
                self._begin_level()
                continue
            self._next_share()
            if not self._tenants:
                continue
            _, _, self._turn = heappop(self._tenants)
            self._count -= 1
            return _taken(heappop(self._lanes[self._levels[-1]][self._turn]))
        return None

    def most(self, quantum: Callable[[int], int]) -> int:
        """Return how many slots of the group just taken may be placed in this turn. `quantum` returns how many its
        tenant may place until its share passes another one."""
        if self.is_aged:
            return 1
        other, left = self._next_share(), self._left_to_aged()
        most = quantum(other) if other is not None else UNLIMITED
        return most if left is None else min(most, left)

    def served(self, placed: int) -> None:
        """Count the placements of this turn."""
        if self._placed >= 0:
            self._placed += placed

    def _has_aged(self) -> bool:
        """Whether a group waits that is aged."""
        while self._ages and not self._holds(self._ages[0]):
            heappop(self._ages)
        return bool(self._ages) and self._ages[0][0] <= self._aged

    def _left_to_aged(self) -> int | None:
        """Return how many placements come before that of an aged group; None if there is no such group."""
        if self._placed < 0 or not self._has_aged():
            return None
        return AGED_EACH - 1 - self._placed % AGED_EACH

    def _next_share(self) -> int | None:
        """Bring the tenant with the smallest share to the front, and return that share; None if no other waits."""
        while self._tenants:
            share, _, tenant = self._tenants[0]
            lane = self._clean(tenant)
            if lane is None:
                heappop(self._tenants)
                continue
            now = self._share_of(tenant)
            if now <= share:
                return now
            heapreplace(self._tenants, (now, lane[0], tenant))  # its share has grown meanwhile
        return None

    def _share_of(self, tenant: str) -> int:
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = self._share(tenant)
        return share

    def _begin_level(self) -> None:
        self._tenants = []
        if self._levels:
            for tenant in list(self._lanes[self._levels[-1]]):
                self._offer(tenant)

    def _end_turn(self) -> None:
        """Queue the tenant of the last turn again, with its share of now."""
        if self._turn:
            self._shares.pop(self._turn, None)
            self._offer(self._turn)
            self._turn = ""

    def _end_level(self) -> None:
        level = self._levels.pop()
        if not self._lanes[level]:
            self._drop(level)

    def _drop(self, level: Level) -> None:
        # Usually it is the most urgent.
        place = -1 if self._order[-1] == level else bisect_left(self._order, _later(level), key=_later)
        del self._lanes[level], self._order[place]

    def _offer(self, tenant: str) -> None:
        """Queue a tenant with its oldest waiting group, if it has one."""
        lane = self._clean(tenant)
        if lane is not None:
            heappush(self._tenants, (self._share_of(tenant), lane[0], tenant))

    def _clean(self, tenant: str) -> list[Place] | None:
        """Drop the stale places at the front of a tenant's lane, and the lane if nothing waits in it."""
        lanes = self._lanes[self._levels[-1]]
        lane = lanes.get(tenant)
        if lane is None:
            return None
        while lane and not self._holds(lane[0]):
            self._count -= 1
            heappop(lane)
        if not lane:
            del lanes[tenant]
        return lane or None

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
        self._ages = [place for lanes in self._lanes.values() for lane in lanes.values() for place in lane]
        heapify(self._ages)


def _taken(place: Place) -> RequestGroup:
    """Return the group of a place, which it loses."""
    place[-1].listed = None
    return place[-1]


def _later(level: Level) -> Level:
    """Sort key with the most urgent level last."""
    return -level[0], -level[1]
