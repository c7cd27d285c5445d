"""Whose turn it is in one look: the most urgent level, in it the tenant that has least, of its groups the oldest.

    level: priority and deadline ──▶ tenants by their share, as it was when last asked ──▶ groups by age

A tenant's share grows while its groups are placed. It is asked for again when its turn comes, and goes back if others
have less by then: only who got something is moved, however many groups wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from holdfast.core.scheduling.groups import Aged, Group, GroupKey, Lane, Level


class Turns:
    """The groups of one look, in their order. `share` is what a tenant has now."""

    def __init__(self, groups: Iterable[Group], share: Callable[[str], int]) -> None:
        self._share = share
        lanes: defaultdict[Lane, list[Aged]] = defaultdict(list)
        for group in groups:
            lanes[group.lane].append(group.aged())
        self._aged: dict[Level, dict[str, list[Aged]]] = {}
        for (level, tenant), aged in lanes.items():
            self._aged.setdefault(level, {})[tenant] = aged
        self._levels = sorted(self._aged, reverse=True)
        self._tenants: list[tuple[int, Aged, str]] = []
        self._begin_level()

    def _begin_level(self) -> None:
        if self._levels:
            tenants = self._aged[self._levels[-1]]
            for aged in tenants.values():
                heapify(aged)
            self._tenants = [(self._share(tenant), aged[0], tenant) for tenant, aged in tenants.items()]
            heapify(self._tenants)

    def take(self) -> GroupKey | None:
        """The next group; None: that was all."""
        while self._levels:
            if not self._tenants:
                self._levels.pop()
                self._begin_level()
                continue
            share, _, tenant = heappop(self._tenants)
            aged = self._aged[self._levels[-1]][tenant]
            now = self._share(tenant)
            if now > share:
                heappush(self._tenants, (now, aged[0], tenant))  # it has got more meanwhile
                continue
            *_, key = heappop(aged)
            if aged:
                heappush(self._tenants, (now, aged[0], tenant))
            return key
        return None
