"""Whose turn it is in one look: the most urgent level, in it the tenant that has least, of its groups the oldest.

    level: priority and deadline ──▶ tenants by their share, as it was when last asked ──▶ groups by age

A tenant's share grows while its groups are placed. It is asked for again when its turn comes, and goes back if others
have less by then: only who got something is moved, however many groups wait.

Places are kept from one look to the next, so that a look costs what it takes and what has changed, not what waits. One
that does not hold any more (its group is gone, has got another age, sleeps, or has nothing to propose) is left where it
is until its turn comes, or until most are such.

In which order requests are looked at: priority class, then deadline, then the tenant's share, then age.

A tenant's share is the part of the region that it has of the resource of which it has most (dominant resource): whoever
has least of theirs comes first. In parts of a million, so that every machine says the same. A deadline that has passed
hurries nobody any more: such work comes after all that can still be in time. Nor does one that is far away: else one in
ten years would come before everybody who has none, whatever they have and however long they wait.
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

#: After every deadline that there is.
NEVER = 1 << 62

WHOLE = 1_000_000

#: So long before it a deadline begins to hurry.
HURRY_MS = 3_600_000


#: So many places that do not hold any more are left, beside as many as do.
STALE_MAX = 64

#: The age of a group, a number that no other place has, and the group.
Place = tuple[Instant, RequestKey, int, RequestGroup]


class FairOrder:
    """Groups that have something to propose, in their order. `waits` says whether one still has."""

    def __init__(self, waits: Callable[[RequestGroup], bool]) -> None:
        self._waits = waits
        self._lanes: dict[Level, dict[str, list[Place]]] = {}
        #: Its levels, the most urgent last: every deadline is one, and there may be as many as groups.
        self._order: list[Level] = []
        #: How many places there are, and how many were ever given.
        self._count = self._number = 0
        self._share: Callable[[str], int] = lambda _: 0
        #: Levels of this look, the most urgent last; and the tenants of that one.
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
        """A new look, in which `dominant_share` is what a tenant has now, and of so many groups."""
        if self._count > 2 * groups + STALE_MAX:
            self._compact()
        self._share = share
        self._levels = self._order.copy()
        self._begin_level()

    def take(self) -> RequestGroup | None:
        """The next group; None: that was all. It has no place any more."""
        while self._levels:
            if not self._tenants:
                self._end_level()
                self._begin_level()
                continue
            share, _, tenant = heappop(self._tenants)
            lane = self._lanes[self._levels[-1]][tenant]
            now = self._share(tenant)
            if now > share:
                heappush(self._tenants, (now, lane[0], tenant))  # it has got more meanwhile
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
        # Mostly it is the most urgent.
        place = -1 if self._order[-1] == level else bisect_left(self._order, _later(level), key=_later)
        del self._lanes[level], self._order[place]

    def _offer(self, tenant: str, share: int) -> None:
        """Let a tenant take part with its oldest group that waits; one without any has no lane."""
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
        """Whether a place is its group's, which waits; one that does not wait has none from now on."""
        group = place[-1]
        if group.listed is not place:
            return False
        if not self._waits(group):
            group.listed = None
            return False
        return True

    def _compact(self) -> None:
        """Leave out the places that do not hold any more."""
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
    """By which the most urgent level is the last."""
    return -level[0], -level[1]


def urgency(state: RegionState, assignment: int, now: Instant) -> tuple[int, Instant]:
    """What of the order does not depend on others: the priority, highest first, and the deadline, if one is near."""
    known = state.assignments[assignment]
    cls = state.priority_classes.get(known.priority_class)
    hurries = known.deadline and known.deadline - HURRY_MS <= now and not is_late(known, now)
    return -(cls.spec.priority if cls is not None else 0), known.deadline if hurries else NEVER


def turns_at(known: Assignment, now: Instant) -> Instant | None:
    """When its deadline next begins to hurry, or passes; None: neither is ahead."""
    return (
        next((at for at in (known.deadline - HURRY_MS, known.deadline) if now < at), None) if known.deadline else None
    )


def dominant_share(sums: RegionTotals, used: Resources) -> int:
    """The dominant share that so much is of the region."""
    has, most = sums.capacity, 0
    plain = (used.cpu, has.cpu), (used.memory, has.memory), (used.disk, has.disk), (used.gpu, has.gpu)
    extended = [(amount, amount_of(has, name)) for name, amount in used.extended] if used.extended else ()
    for amount, all_ in (*plain, *extended):
        if all_ and amount * WHOLE // all_ > most:
            most = amount * WHOLE // all_
    return most


def tenant_usage(state: RegionState, tenant: str, more: Resources = ZERO) -> Resources:
    """What a tenant is charged here on its own account, and what is on its way."""
    use: AccountUsage | None = state.account_usage.get(f"quota/{tenant}")
    return add(use.charged, more) if use is not None else more
