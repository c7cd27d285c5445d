"""Charges of accounts, how many slots they can still pay, and the capacity protected for tenants.

A placement of many equal slots computes once how many of them an account can pay and how many leave protected capacity
free; each placement then counts down.
"""

from __future__ import annotations

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.values.resources import ZERO, Resources, amount_of, subtract
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.account_usage import owed
from holdfast.core.region.state.tables import RegionState

#: More than any command can request.
UNLIMITED = 1 << 30


def charged(state: RegionState, account: str) -> Resources:
    """Return the present charge of the account."""
    use = state.account_usage.get(account)
    return ZERO if use is None else use.charged


def is_emergency(account: str) -> bool:
    return account.startswith("emergency/")


def has_emergencies(state: RegionState) -> bool:
    """Return whether an emergency quota is charged; rarely true."""
    return any(is_emergency(account) for account, _ in state.account_usage.unordered())


def paid_until(state: RegionState, account: str) -> Instant | None:
    """Return when the slots charged to the account end with its grant; None: they do not (RULES 7)."""
    if not is_emergency(account):
        return None
    allowance = state.accepted_grants.get(account)
    return allowance.ends if allowance is not None else 0


#: Result of `affordable_count` for an account whose grant has ended.
GRANT_ENDED = -1


def affordable_count(state: RegionState, account: str, at: Instant, need: Resources, spent: Resources = ZERO) -> int:
    """Return how many slots of this need the account can pay after `spent`, or `GRANT_ENDED`.

    No charge is added above the target (RULES 7).
    """
    allowance = state.accepted_grants.get(account)
    if allowance is None:
        return 0
    if allowance.ends <= at:
        return GRANT_ENDED
    use = state.account_usage.get(account)
    target, charged = allowance.target, use.charged if use is not None else ZERO
    most = UNLIMITED
    if need.cpu:
        most = (target.cpu - charged.cpu - spent.cpu) // need.cpu
    if need.memory:
        most = min(most, (target.memory - charged.memory - spent.memory) // need.memory)
    if need.disk:
        most = min(most, (target.disk - charged.disk - spent.disk) // need.disk)
    if need.gpu:
        most = min(most, (target.gpu - charged.gpu - spent.gpu) // need.gpu)
    for name, amount in need.extended:
        most = min(most, (amount_of(target, name) - amount_of(charged, name) - amount_of(spent, name)) // amount)
    return max(most, 0)


def unprotected_count(
    state: RegionState, account: str, spent: Resources, need: Resources, paid_off: Resources = ZERO
) -> int:
    """Return how many slots of this need can be placed, after `spent`, with the capacity of other protected tenants
    free.

    Only resources that are owed to another account count. `paid_off` is the amount no longer owed to others.
    """
    sums = state.totals
    shield = sums.shield if paid_off is ZERO else subtract(sums.shield, paid_off)
    if shield == ZERO:
        return UNLIMITED
    capacity, taken = sums.capacity, sums.taken
    if (
        spent is ZERO
        and not need.extended
        and capacity.cpu - taken.cpu - shield.cpu >= PARTS_MAX * need.cpu
        and capacity.memory - taken.memory - shield.memory >= PARTS_MAX * need.memory
        and capacity.disk - taken.disk - shield.disk >= PARTS_MAX * need.disk
        and capacity.gpu - taken.gpu - shield.gpu >= PARTS_MAX * need.gpu
    ):
        return PARTS_MAX  # the usual case: enough for the largest command of any account
    mine = owed(state, account)
    most = UNLIMITED
    if need.cpu and shield.cpu > mine.cpu:
        most = (capacity.cpu - taken.cpu - spent.cpu - shield.cpu + mine.cpu) // need.cpu
    if need.memory and shield.memory > mine.memory:
        free = capacity.memory - taken.memory - spent.memory - shield.memory + mine.memory
        most = min(most, free // need.memory)
    if need.disk and shield.disk > mine.disk:
        most = min(most, (capacity.disk - taken.disk - spent.disk - shield.disk + mine.disk) // need.disk)
    if need.gpu and shield.gpu > mine.gpu:
        most = min(most, (capacity.gpu - taken.gpu - spent.gpu - shield.gpu + mine.gpu) // need.gpu)
    for name, amount in need.extended:
        kept = amount_of(shield, name) - amount_of(mine, name)
        free = amount_of(capacity, name) - amount_of(taken, name) - amount_of(spent, name)
        if kept > 0:
            most = min(most, (free - kept) // amount)
    return max(most, 0)
