"""Who pays, how often an account can still afford something, and what is kept for protected tenants.

A placement of many equal slots asks once how many of them an account affords and how many leave the protected room alone;
each placement then only counts down.
"""

from __future__ import annotations

from holdfast.core.model.placement import Use
from holdfast.core.model.resources import NOTHING, Resources, add, amount_of, subtract
from holdfast.core.model.shapes import Instant
from holdfast.core.region.index import owed
from holdfast.core.region.state import RegionState

#: More than any command can ask for.
PLENTY = 1 << 30


def how_often(room: Resources, need: Resources) -> int:
    """How many times `need` fits into `room`; none when something needed is overdrawn already."""
    most = PLENTY
    if need.cpu:
        most = room.cpu // need.cpu
    if need.memory:
        most = min(most, room.memory // need.memory)
    if need.disk:
        most = min(most, room.disk // need.disk)
    if need.gpu:
        most = min(most, room.gpu // need.gpu)
    for name, amount in need.extended:
        most = min(most, amount_of(room, name) // amount)
    return max(most, 0)


def charged(state: RegionState, account: str) -> Resources:
    """What the account is charged now."""
    use = state.uses.get(account)
    return NOTHING if use is None else use.charged


class Purse:
    """What one account can still pay within one command. Nothing is added above the target (RULES 7)."""

    __slots__ = ("account", "ended", "exists", "left")

    def __init__(self, state: RegionState, account: str, at: Instant, spent: Resources = NOTHING) -> None:
        allowance = state.allowances.get(account)
        self.account = account
        self.exists = allowance is not None
        self.ended = allowance is not None and allowance.ends <= at
        self.left = NOTHING
        if allowance is not None and not self.ended:
            self.left = subtract(allowance.target, add(charged(state, account), spent))

    def affords(self, need: Resources) -> int:
        """How many slots of this need it can pay."""
        return how_often(self.left, need) if self.exists and not self.ended else 0


def unprotected(state: RegionState, account: str, spent: Resources) -> tuple[Resources, Resources]:
    """What other protected tenants are still owed, and the free room beyond it once `spent` more is taken."""
    sums = state.sums
    others = subtract(sums.shield, owed(state, account))
    free = subtract(subtract(sums.capacity, sums.taken), spent)
    return others, subtract(free, others)


def only_where(amounts: Resources, mask: Resources) -> Resources:
    """The amounts of those resources of which `mask` has any."""
    kept = {name for name, amount in mask.extended if amount > 0}
    return Resources(
        amounts.cpu if mask.cpu > 0 else 0,
        amounts.memory if mask.memory > 0 else 0,
        amounts.disk if mask.disk > 0 else 0,
        amounts.gpu if mask.gpu > 0 else 0,
        tuple((name, amount) for name, amount in amounts.extended if name in kept),
    )


def leaves_protected(state: RegionState, account: str, spent: Resources, need: Resources) -> int:
    """How many slots of this need can be placed before protected tenants would be crowded out.

    Only resources that somebody is still owed are asked about.
    """
    if state.sums.shield == NOTHING:
        return PLENTY
    others, room = unprotected(state, account, spent)
    return how_often(room, only_where(need, others))


def use_of(state: RegionState, account: str) -> Use:
    """What an account is charged and what of it stands."""
    return state.uses.get(account) or Use()
