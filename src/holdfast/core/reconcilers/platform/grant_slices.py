"""How an account is cut into slices, one for each region. Pure arithmetic, one resource at a time.

The ideal slice is the demand on a region, plus an even part of half of the surplus; the other half stays free. If
demand exceeds the limit, it is cut in proportion, and no region gets less than it uses.

                    half              ideal                twice
    slice:  ..........|.................|....................|..........
            too small: raised           unchanged            too large: shrunk

A slice is offered again only when it is far from the ideal, or its region lacks something. It is then raised beyond the
demand, so that growing demand needs few offers. What the free rest cannot cover is called back from regions above their
ideal, and granted once they have released it. An unhealthy region is not raised, and its grant is unavailable. A slice
with an unacknowledged offer does not change, unless the account was lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.model.values import resources

#: A slice within 1/8 below its ideal is near enough when cut in proportion.
NEAR_ENOUGH = 8


class GrantSlice(NamedTuple):
    """A region's slice: its demand and usage, its last target, and its charge."""

    asked: resources.Resources
    uses: resources.Resources
    target: resources.Resources
    offered: resources.Resources
    is_well: bool
    has_answered: bool


class _One(NamedTuple):
    """The slice of one resource."""

    asked: int
    uses: int
    target: int
    offered: int
    is_well: bool
    has_answered: bool


def slice_targets(limit: resources.Resources, slices: Sequence[GrantSlice]) -> list[resources.Resources]:
    """Return the targets that the slices should have now; most stay the same."""
    is_over = resources.first_exceeded(resources.total(one.offered for one in slices), limit)
    found: list[dict[str, int]] = [{} for _ in slices]
    held = resources.total(one.target for one in slices)
    for name in resources.names_in(limit, held):
        if not resources.amount_of(limit, name) and not resources.amount_of(held, name):
            continue  # there is none, and no region has any
        ones = [_of(one, name) for one in slices]
        for mine, target in zip(found, _cut_one(resources.amount_of(limit, name), ones), strict=True):
            mine[name] = target
    targets = [resources.from_amounts(one) for one in found]
    # While any resource is granted beyond its limit, no resource is raised.
    return [
        resources.elementwise_min(new, one.target) if is_over else new for new, one in zip(targets, slices, strict=True)
    ]


def turns_on_uses(limit: resources.Resources, slices: Sequence[GrantSlice]) -> bool:
    """Check whether usage alone may change targets.

    It may if usage or demand exceeds the limit, or a healthy region has too little or too much.
    """
    return any(
        _turns_on_uses(resources.amount_of(limit, name), [_of(one, name) for one in slices])
        for name in resources.names_in(limit)
    )


def _turns_on_uses(limit: int, ones: Sequence[_One]) -> bool:
    if sum(max(one.target, one.uses) for one in ones) > limit:
        return True
    well = [one for one in ones if one.is_well]
    left = max(0, limit - sum(one.offered for one in ones if not one.is_well))
    if sum(one.asked for one in well) > left:
        return True
    ideals = zip(well, _ideal_slices(left, well), strict=True)
    return any(one.asked > one.target or not ideal <= 2 * one.target <= 4 * ideal for one, ideal in ideals)


def _of(one: GrantSlice, name: str) -> _One:
    asked, uses, target, offered = (resources.amount_of(amount, name) for amount in one[:4])
    return _One(asked, uses, target, offered, one.is_well, one.has_answered)


def _cut_one(limit: int, ones: Sequence[_One]) -> list[int]:
    # A region keeps what it uses above its target, also after it claimed more than its known grant.
    if sum(max(one.target, one.uses) for one in ones) > limit:
        return [min(one.target, ideal) for one, ideal in zip(ones, _ideal_slices(limit, ones), strict=True)]
    well = [one for one in ones if one.is_well]
    gone = sum(one.offered for one in ones if not one.is_well)
    left = max(0, limit - gone)
    free = max(0, limit - sum(one.offered for one in ones))
    changed = iter(_Cutting(left, free, well).targets())
    return [next(changed) if one.is_well else one.target for one in ones]


class _Cutting:
    """One resource among healthy regions: what they may have together, and what of it is free."""

    def __init__(self, left: int, free: int, ones: Sequence[_One]) -> None:
        self.free = free
        self.ones = ones
        self.is_enough = sum(one.asked for one in ones) <= left
        self.ideals = _ideal_slices(left, ones)
        #: What each must have, and the most that it is raised to.
        self.musts = [one.asked for one in ones] if self.is_enough else self.ideals
        self.lacks = [self._lacks(one, ideal) for one, ideal in zip(ones, self.ideals, strict=True)]
        needs = [max(0, must - one.offered) for one, must in zip(ones, self.musts, strict=True)]
        self.needs = [need if lacks else 0 for need, lacks in zip(needs, self.lacks, strict=True)]

    def _lacks(self, one: _One, ideal: int) -> bool:
        return one.asked > one.target if self.is_enough else ideal - one.target > ideal // NEAR_ENOUGH

    def targets(self) -> list[int]:
        raised, returned = self._raised(), self._returned()
        return [
            one.target if not one.has_answered else returned[place] if place in returned else raised[place]
            for place, one in enumerate(self.ones)
        ]

    def _raised(self) -> list[int]:
        """Distribute the free amount: to regions that lack something, then to slices that are too small, then half of
        the rest to growing demand."""
        reach = [one.offered for one in self.ones]
        small = [lacks or 2 * one.target < ideal for one, ideal, lacks in self._each()]
        grown = [one.asked * 3 // 2 if lacks and self.is_enough else 0 for one, _, lacks in self._each()]
        free = _raise_levels(
            self.free, reach, [one.offered + need for one, need in zip(self.ones, self.needs, strict=True)]
        )
        free = _raise_levels(
            free, reach, [ideal * is_small for ideal, is_small in zip(self.ideals, small, strict=True)]
        )
        _raise_levels(free // 2, reach, grown)
        found = []
        for place, (one, ideal, lacks) in enumerate(self._each()):
            new = max(one.target, min(reach[place], max(ideal, grown[place])))
            is_worth_it = lacks or (small[place] and 2 * new >= ideal)
            found.append(new if is_worth_it else one.target)
        return found

    def _each(self) -> list[tuple[_One, int, bool]]:
        return list(zip(self.ones, self.ideals, self.lacks, strict=True))

    def _returned(self) -> dict[int, int]:
        """Return the regions that give back, with what they keep: those far above their ideal, and those holding what
        others lack."""
        large = [place for place, one in enumerate(self.ones) if one.has_answered and one.target > self.ideals[place]]
        found = [place for place in large if self.is_enough and self.ones[place].target > 2 * self.ideals[place]]
        coming = sum(max(0, one.offered - one.target) for one in self.ones if not one.has_answered)
        coming += sum(map(self._gain, found))
        for place in sorted(large, key=lambda place: (self.ideals[place] - self.ones[place].target, place)):
            if sum(self.needs) <= self.free + coming:
                break
            if place not in found:
                found.append(place)
                coming += self._gain(place)
        return {place: self.ideals[place] for place in found}

    def _gain(self, place: int) -> int:
        return max(0, self.ones[place].offered - max(self.ideals[place], self.ones[place].uses))


def _raise_levels(free: int, levels: list[int], wanted: Sequence[int]) -> int:
    """Raise levels towards their wanted values, in proportion to what they lack; return what is left."""
    lacking = [max(0, most - level) for level, most in zip(levels, wanted, strict=True)]
    given = lacking if sum(lacking) <= free else apportion(free, lacking)
    levels[:] = [level + mine for level, mine in zip(levels, given, strict=True)]
    return free - sum(given)


def _ideal_slices(whole: int, ones: Sequence[_One]) -> list[int]:
    asked = [one.asked for one in ones]
    if not ones or sum(asked) <= whole:
        ease = (whole - sum(asked)) // (2 * len(ones)) if ones else 0
        return [amount + ease for amount in asked]
    return _in_proportion(whole, asked, [min(one.uses, one.asked) for one in ones])


def _in_proportion(whole: int, asked: Sequence[int], uses: Sequence[int]) -> list[int]:
    """Cut demand in proportion. A region that uses more than its part keeps its usage; if all usage exceeds the limit,
    cut by usage."""
    if sum(uses) >= whole:
        return apportion(whole, uses)
    kept: dict[int, int] = {}
    while True:
        weights = [0 if place in kept else amount for place, amount in enumerate(asked)]
        found = apportion(whole - sum(kept.values()), weights)
        small = {place: used for place, used in enumerate(uses) if place not in kept and found[place] < used}
        if not small:
            return [kept.get(place, amount) for place, amount in enumerate(found)]
        kept.update(small)


def apportion(whole: int, weights: Sequence[int]) -> list[int]:
    """Split a whole number in proportion to the weights, to the last unit; the first ones get the remainder."""
    weight = sum(weights)
    if not weight:
        return [0] * len(weights)
    found = [whole * mine // weight for mine in weights]
    left = whole - sum(found)
    for place, mine in enumerate(weights):
        if left and mine:
            found[place] += 1
            left -= 1
    return found
