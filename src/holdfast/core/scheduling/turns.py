"""Whose turn it is in one look: the most urgent level, in it the tenant that has least, of its groups the oldest.

    level: priority and deadline ──▶ tenants by their share, as it was when last asked ──▶ groups by age

A tenant's share grows while its groups are placed. It is asked for again when its turn comes, and goes back if others
have less by then: only who got something is moved, however many groups wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from holdfast.core.model.shapes import Instant
from holdfast.core.scheduling.groups import Group, GroupKey, RequestKey

#: Priority, highest first, and deadline.
Level = tuple[int, Instant]
_Aged = tuple[Instant, RequestKey, GroupKey]


class Turns:
    """The groups of one look, in their order. `share` is what a tenant has now."""

    def __init__(self, groups: Iterable[Group], share: Callable[[str], int]) -> None:
        self._share = share
        self._aged: dict[Level, dict[str, list[_Aged]]] = {}
        for group in groups:
            level = self._aged.setdefault(group.key[:2], {})
            level.setdefault(group.tenant, []).append((*group.oldest(), group.key))
        self._levels = sorted(self._aged, reverse=True)
        self._tenants: list[tuple[int, _Aged, str]] = []
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
