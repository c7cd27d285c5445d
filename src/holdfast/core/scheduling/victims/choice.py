"""The victims on one node for one slot: the best set by a fixed order, from which none can be left out.

Of two sets, the better one has, in this order:

    1. the lower highest tier: what is leaving anyway, then reclaimable work, then work that stays, each by priority
    2. fewer slots that are stopped for it
    3. the smaller sum of their priorities
    4. fewer slots in all
    5. the later starts, of its oldest slot first
    6. the lower keys

Slots that free the same are interchangeable, so the search counts over groups of them. It is exact within `STEPS_MAX`;
beyond that it returns the best set found so far, from which none can be left out either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.scheduling.nodes.victims import LEAVING, Tier

#: Steps of the search on one node.
STEPS_MAX = 3_000
#: The order of sets; smaller is better.
Cost = tuple[Tier, int, int, int, tuple[Instant, ...], tuple[SlotKey, ...]]


class Victim(NamedTuple):
    """A slot that may be a victim, and what it frees: of each resource that is needed, for all and for firm work.

    `budget` is its assignment if it costs disruption budget, else 0. `limited`: it counts for the limit per minute.
    """

    key: SlotKey
    tier: Tier
    amounts: tuple[int, ...]
    firm: tuple[int, ...]
    bound_at: Instant
    devices: tuple[int, ...] = ()
    milli: int = 0
    is_firm: bool = True
    ports: tuple[int, ...] = ()
    need: Resources = ZERO
    budget: Revision = 0
    limited: bool = True

    @property
    def alike(self) -> tuple[object, ...]:
        """What it has in common with slots that can take its place."""
        devices = (self.devices, self.milli, self.is_firm) if self.devices else ()
        return self.tier, self.amounts, self.firm, self.budget, self.limited, devices, len(self.ports)


class Lack(NamedTuple):
    """What a node lacks for the slot, by resource, for all and for firm work.

    `budgets` are the serving replicas that may still be stopped, by assignment, and `most` the slots per minute.
    `suits` checks the rest: devices, ports and protected capacity.
    """

    amounts: tuple[int, ...]
    firm: tuple[int, ...]
    budgets: Mapping[Revision, int]
    most: int
    suits: Callable[[list[Victim]], bool]


def cost_of(victims: list[Victim]) -> Cost:
    """Return the place of a set in the order of sets."""
    stopped = [victim for victim in victims if victim.tier[0] != LEAVING]
    highest = max([victim.tier for victim in victims], default=(LEAVING, 0))
    starts = tuple([-start for start in sorted([victim.bound_at for victim in victims])])
    priorities = sum([victim.tier[1] for victim in stopped])
    return highest, len(stopped), priorities, len(victims), starts, tuple(sorted([victim.key for victim in victims]))


def choose_victims(victims: list[Victim], lack: Lack) -> list[Victim] | None:
    """Return the best set that frees enough, sorted by key; None if there is none."""
    for tier in sorted({victim.tier for victim in victims}):
        pool = [victim for victim in victims if victim.tier <= tier]
        if _frees(pool, lack):
            found = _Search(pool, lack).run()
            if found is not None:
                return sorted(found, key=lambda victim: victim.key)
    return None


def _frees(victims: list[Victim], lack: Lack) -> bool:
    """Whether a set frees enough of each resource."""
    for place, (amount, firm) in enumerate(zip(lack.amounts, lack.firm, strict=True)):
        if amount > 0 and sum([victim.amounts[place] for victim in victims]) < amount:
            return False
        if firm > 0 and sum([victim.firm[place] for victim in victims]) < firm:
            return False
    return True


def is_enough(victims: list[Victim], lack: Lack) -> bool:
    """Whether a set may be stopped and frees enough of everything."""
    return _frees(victims, lack) and is_allowed(victims, lack) and lack.suits(victims)


def is_allowed(victims: list[Victim], lack: Lack) -> bool:
    """Whether a set is within the budgets and the limit per minute."""
    if sum([victim.limited for victim in victims]) > lack.most:
        return False
    spent: dict[Revision, int] = {}
    for victim in victims:
        if victim.budget:
            spent[victim.budget] = spent.get(victim.budget, 0) + 1
    return all(lack.budgets.get(assignment, 0) >= count for assignment, count in spent.items())


class _Search:
    """The search over how many slots of each group of equal ones are taken."""

    def __init__(self, pool: list[Victim], lack: Lack) -> None:
        self._lack = lack
        groups: dict[tuple[object, ...], list[Victim]] = {}
        for victim in sorted(pool, key=lambda one: (-one.bound_at, one.key)):
            groups.setdefault(victim.alike, []).append(victim)
        # What frees most comes first, so that a good set is found early.
        self._groups = sorted(groups.values(), key=lambda group: (-self._use(group[0]), group[0].tier, group[0].key))
        self._best: tuple[Cost, list[Victim]] | None = None
        self._steps = STEPS_MAX
        #: By group: it and all groups after it; and whether some of these are leaving anyway.
        self._rest = [[one for group in self._groups[at:] for one in group] for at in range(len(self._groups) + 1)]
        self._leaves = [any(one.tier[0] == LEAVING for one in rest) for rest in self._rest]

    def _use(self, victim: Victim) -> int:
        """How much of what is lacking a victim frees, in thousandths."""
        pairs = zip((*victim.amounts, *victim.firm), (*self._lack.amounts, *self._lack.firm), strict=True)
        return sum([min(freed, lacking) * 1_000 // lacking for freed, lacking in pairs if lacking > 0])

    def run(self) -> list[Victim] | None:
        found: list[Victim] = []
        for victim in self._rest[0]:
            found = [*found, victim]
            if is_enough(found, self._lack):
                self._note(self._without_needless(found))
                break
        self._take(0, [])
        return None if self._best is None else self._without_needless(self._best[1])

    def _note(self, taken: list[Victim]) -> None:
        cost = cost_of(taken)
        if self._best is None or cost < self._best[0]:
            self._best = cost, taken

    def _without_needless(self, found: list[Victim]) -> list[Victim]:
        """Leave out what need not end, the dearest first."""
        for victim in sorted(found, key=lambda one: (one.tier, -one.bound_at, one.key), reverse=True):
            without = [one for one in found if one is not victim]
            if is_enough(without, self._lack):
                found = without
        return found

    def _take(self, at: int, taken: list[Victim]) -> bool:
        """Try all numbers of slots of the group at this index, fewest first. Return whether none need be added."""
        self._steps -= 1
        if is_enough(taken, self._lack):
            self._note(taken)
            return True
        if self._steps <= 0 or not _frees(taken + self._rest[at], self._lack) or at == len(self._groups):
            return False
        if self._best is not None and not self._leaves[at]:
            stopped = sum([one.tier[0] != LEAVING for one in taken])
            if stopped >= self._best[0][1]:
                return False
        group = self._groups[at]
        for count in range(len(group) + 1):
            more = taken + group[:count]
            if count and (not is_allowed(more, self._lack) or self._take(at + 1, more)):
                break
            if not count:
                self._take(at + 1, more)
        return False
