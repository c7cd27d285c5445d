"""Who pays, how often an account can still afford something, and what is kept for protected tenants.

A placement of many equal slots asks once how many of them an account affords and how many leave the protected room
alone; each placement then only counts down.
"""

from __future__ import annotations

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.values.resources import ZERO, Resources, amount_of, subtract
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.state.account_usage import owed
from holdfast.core.region.state.tables import RegionState

#: More than any command can ask for.
UNLIMITED = 1 << 30


def charged(state: RegionState, account: str) -> Resources:
    """What the account is charged now."""
    use = state.account_usage.get(account)
    return ZERO if use is None else use.charged


def is_emergency(account: str) -> bool:
    """Whether it is of an emergency quota."""
    return account.startswith("emergency/")


def has_emergencies(state: RegionState) -> bool:
    """Whether anything is charged to an emergency quota: seldom."""
    return any(is_emergency(account) for account, _ in state.account_usage.unordered())


def paid_until(state: RegionState, account: str) -> Instant | None:
    """When what the account has paid for ends with its grant; None: it does not (RULES 7)."""
    if not is_emergency(account):
        return None
    allowance = state.accepted_grants.get(account)
    return allowance.ends if allowance is not None else 0


#: What `affordable_count` says of an account whose grant has ended.
GRANT_ENDED = -1


def affordable_count(state: RegionState, account: str, at: Instant, need: Resources, spent: Resources = ZERO) -> int:
    """How many slots of this need the account can still pay after `spent`, or `GRANT_ENDED`.

    Nothing is added above the target (RULES 7).
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
    """How many slots of this need can be placed, after `spent`, before other protected tenants are crowded out.

    Only resources that somebody else is still owed are asked about. `paid_off` is what others are owed no more.
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
        return PARTS_MAX  # the usual case: enough for the largest command, whoever asks
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
