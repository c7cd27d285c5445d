"""How what a quota protects is spread over regions: in proportion to what is asked for there, else evenly.

Nowhere more than the slice, and together never more than the whole: what one region is to protect less is lowered
first, and only what is free by then is added elsewhere. What a region that is not heard protects stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.model.resources import Resources, amount_of, exceeded, least, names_in, of_amounts, total
from holdfast.core.reconcilers.slices import parts


class Shield(NamedTuple):
    """What a region protects now, what it is asked for there, and the slice that it is to have."""

    asked: Resources
    target: Resources
    protected: Resources
    is_well: bool
    has_answered: bool


def spread(whole: Resources, shields: Sequence[Shield]) -> list[Resources]:
    """What each region is to protect, if it is offered anything."""
    found: list[dict[str, int]] = [{} for _ in shields]
    for name in names_in(whole, *(one.protected for one in shields)):
        for mine, amount in zip(found, _spread_one(name, amount_of(whole, name), shields), strict=True):
            mine[name] = amount
    amounts = [of_amounts(one) for one in found]
    if exceeded(total(one.protected for one in shields), whole):
        return [least(amount, one.protected) for amount, one in zip(amounts, shields, strict=True)]
    return amounts


def _spread_one(name: str, whole: int, shields: Sequence[Shield]) -> list[int]:
    known = [amount_of(one.protected, name) for one in shields]
    gone = sum(mine for one, mine in zip(shields, known, strict=True) if not one.is_well)
    asked = [amount_of(one.asked, name) if one.is_well else 0 for one in shields]
    ideals = parts(max(0, whole - gone), asked if any(asked) else [int(one.is_well) for one in shields])
    room = max(0, whole - sum(known))
    found = []
    for one, mine, ideal in zip(shields, known, ideals, strict=True):
        most = amount_of(one.target, name)
        if one.is_well and one.has_answered:
            new = min(ideal, most, mine + room)
            room -= max(0, new - mine)
        else:
            new = min(mine, most)
        found.append(new)
    return found


def is_far(old: Resources, new: Resources) -> bool:
    """Whether they differ by more than a quarter of any resource."""
    both = [(amount_of(old, name), amount_of(new, name)) for name in names_in(old, new)]
    return any(4 * abs(mine - other) > max(mine, other) for mine, other in both)
