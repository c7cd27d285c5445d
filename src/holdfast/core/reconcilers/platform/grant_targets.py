"""The amount that each region should hold of an account, and the protected part of it.

    quota/T          by demand, with some reserve; the rest stays free (see `grant_slices`)
    recovery/B       all of it in each region that it names
    reclaimable/T    the share of the region's last reported capacity, once it differs by a twentieth
    emergency/UID    to its region, or evenly to all healthy ones, until it ends
    deleted account  nothing: its grants are called back

Where a region is nearly full, a tenant that has used more than its part of all regions in the last hour is granted its
demand in inverse proportion, and never less than it uses: what ends there is left to others.

Protected quota is spread in proportion to demand, else evenly: at most the slice in each region, and the quota in all.
Reductions come first, and only what they free is added elsewhere. An unhealthy region's part does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.ledger.answers import Refused
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.fairness import WHOLE
from holdfast.core.model.records.grants import Grant, grant_key
from holdfast.core.model.records.region_reports import capacity_of
from holdfast.core.model.records.usage_windows import recent_share
from holdfast.core.model.values.resources import (
    ZERO,
    Resources,
    amount_of,
    elementwise_min,
    first_exceeded,
    from_amounts,
    names_in,
    total,
)
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.queries.accounts import AccountLimit, account_limit, quota_demand
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform import grant_slices
from holdfast.core.reconcilers.platform.grant_slices import GrantSlice, apportion, slice_targets

#: A region is nearly full while less than 1/16 of a resource is free.
NEARLY_FULL = 16
#: A share of a region's capacity is updated when it differs by more than 1/20.
TWENTIETH = 20


class RegionLoan(NamedTuple):
    """An account in one region: its limit, its grant, and whether the region is healthy."""

    region: str
    limit: AccountLimit | None
    grant: Grant | None
    is_well: bool

    @property
    def target(self) -> Resources:
        """Target of the last offer."""
        return self.grant.target if self.grant is not None else ZERO

    @property
    def offered(self) -> Resources:
        """The amount that the region may be acting on."""
        return self.grant.offered if self.grant is not None else ZERO

    @property
    def protected(self) -> Resources:
        """The part of it that other tenants must leave free."""
        return self.grant.protected if self.grant is not None else ZERO

    @property
    def has_answered(self) -> bool:
        """Whether every offer is acknowledged."""
        return self.grant is None or self.grant.acknowledged == self.grant.version


def loans_of(state: PlatformState, account: str, now: Instant) -> list[RegionLoan]:
    """Return the account in every region that has joined."""
    found = []
    for name, region in state.regions.items():
        if region.status.log_id and region.status.health is not RegionHealth.RETIRED:
            limit = account_limit(state, account, name, now)
            grant = state.grants.get(grant_key(name, account))
            is_well = region.status.health is RegionHealth.HEALTHY
            found.append(RegionLoan(name, None if isinstance(limit, Refused) else limit, grant, is_well))
    return found


def loan_targets(state: PlatformState, account: str, lent: Sequence[RegionLoan], now: Instant) -> list[Resources]:
    """Return what each region should have; most often what it has."""
    kind, _, name = account.partition("/")
    match kind:
        case "quota" if name in state.quotas:
            asked = [quota_demand(state, name, one.region) for one in lent]
            slices = _slices(state, account, lent, asked)
            found = slice_targets(state.quotas[name].spec.hard, slices)
            return _held_back(state, name, lent, slices, found, now)
        case "recovery" | "reclaimable":
            return [_followed(one, kind) for one in lent]
        case "emergency":
            return _evenly(state, account, lent)
    return [ZERO for _ in lent]


def _held_back(
    state: PlatformState,
    tenant: str,
    lent: Sequence[RegionLoan],
    slices: Sequence[GrantSlice],
    targets: list[Resources],
    now: Instant,
) -> list[Resources]:
    """Lower the targets of a tenant that has used more than its part, in regions that are nearly full."""
    window = state.usage_windows.get(tenant)
    recent = recent_share(window, now) if window is not None else 0
    weights = {name: one.spec.weight for name, one in state.quotas.items() if name in state.usage_windows}
    entitled = WHOLE * weights.get(tenant, 1) // max(1, sum(weights.values()))
    if recent <= entitled:
        return targets
    found = []
    for one, slice_, target in zip(lent, slices, targets, strict=True):
        full = _full_resources(state, one.region) if one.is_well and one.has_answered else ()
        amounts = {name: amount_of(target, name) for name in names_in(target)}
        for name in full:
            part = amount_of(slice_.asked, name) * entitled // recent
            least = max(part, amount_of(slice_.uses, name), amount_of(one.protected, name))
            amounts[name] = _toward(amount_of(one.target, name), amounts.get(name, 0), least)
        found.append(from_amounts(amounts) if full else target)
    return found


def _toward(known: int, target: int, most: int) -> int:
    """Return a target of at most `most`; one that is a little above it is not lowered."""
    return min(target, known) if most < known <= most * 9 // 8 else min(target, most)


def _full_resources(state: PlatformState, region: str) -> list[str]:
    """Return the resources of which a region has reported that little is free."""
    told = state.summaries.get(region)
    if told is None:
        return []
    whole, free = capacity_of(told.summary), total(nodes.free for nodes in told.summary.nodes)
    return [name for name in names_in(whole) if amount_of(free, name) * NEARLY_FULL < amount_of(whole, name)]


def turns_on_uses(state: PlatformState, account: str, lent: Sequence[RegionLoan]) -> bool:
    """Check whether usage of a quota may change the targets."""
    kind, _, name = account.partition("/")
    quota = state.quotas.get(name) if kind == "quota" else None
    if quota is None:
        return False
    asked = [quota_demand(state, name, one.region) for one in lent]
    return grant_slices.turns_on_uses(quota.spec.hard, _slices(state, account, lent, asked))


def _slices(
    state: PlatformState, account: str, lent: Sequence[RegionLoan], asked: Sequence[Resources]
) -> list[GrantSlice]:
    return [
        GrantSlice(mine, _uses(state, account, one), one.target, one.offered, one.is_well, one.has_answered)
        for one, mine in zip(lent, asked, strict=True)
    ]


def _uses(state: PlatformState, account: str, one: RegionLoan) -> Resources:
    """Return the reported charge of the account; before the first report, the settled value."""
    told = state.summaries.get(one.region)
    if told is not None:
        return dict(told.summary.uses).get(account, ZERO)
    return one.grant.settled if one.grant is not None else ZERO


def _followed(one: RegionLoan, kind: str) -> Resources:
    """Return a target that follows a regional limit. A grant above the limit must shrink before anything is added."""
    if one.limit is None:
        return ZERO
    limit = one.limit.amount
    if limit != ZERO and (not one.has_answered or (kind == "reclaimable" and _is_near(one.target, limit))):
        return one.target
    return limit if one.is_well and not first_exceeded(one.offered, limit) else elementwise_min(one.target, limit)


def _is_near(target: Resources, limit: Resources) -> bool:
    pairs = [(amount_of(target, name), amount_of(limit, name)) for name in names_in(target, limit)]
    return all(abs(mine - most) * TWENTIETH <= max(mine, most) for mine, most in pairs)


def _evenly(state: PlatformState, account: str, lent: Sequence[RegionLoan]) -> list[Resources]:
    """Split an emergency as if demand were equal in every healthy region that may use it."""
    may = [one for one in lent if one.limit is not None]
    whole = next((one.limit.amount for one in may if one.limit is not None), ZERO)
    gone = total(one.offered for one in may if not one.is_well)
    well = max(1, sum(one.is_well for one in may))
    each = from_amounts({n: max(0, amount_of(whole, n) - amount_of(gone, n)) // well for n in names_in(whole, gone)})
    found = slice_targets(whole, _slices(state, account, may, [each if one.is_well else ZERO for one in may]))
    by_region = dict(zip((one.region for one in may), found, strict=True))
    return [by_region.get(one.region, ZERO) for one in lent]


class ProtectedShare(NamedTuple):
    """A region's protected amount, its demand, and its new slice."""

    asked: Resources
    target: Resources
    protected: Resources
    is_well: bool
    has_answered: bool


def spread_protection(whole: Resources, shields: Sequence[ProtectedShare]) -> list[Resources]:
    """Return what each region is to protect, if it gets an offer."""
    found: list[dict[str, int]] = [{} for _ in shields]
    for name in names_in(whole, *(one.protected for one in shields)):
        for mine, amount in zip(found, _spread_one(name, amount_of(whole, name), shields), strict=True):
            mine[name] = amount
    amounts = [from_amounts(one) for one in found]
    if first_exceeded(total(one.protected for one in shields), whole):
        return [elementwise_min(amount, one.protected) for amount, one in zip(amounts, shields, strict=True)]
    return amounts


def _spread_one(name: str, whole: int, shields: Sequence[ProtectedShare]) -> list[int]:
    known = [amount_of(one.protected, name) for one in shields]
    gone = sum(mine for one, mine in zip(shields, known, strict=True) if not one.is_well)
    asked = [amount_of(one.asked, name) if one.is_well else 0 for one in shields]
    ideals = apportion(max(0, whole - gone), asked if any(asked) else [int(one.is_well) for one in shields])
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


def differs_much(old: Resources, new: Resources) -> bool:
    """Check whether any resource differs by more than a quarter."""
    both = [(amount_of(old, name), amount_of(new, name)) for name in names_in(old, new)]
    return any(4 * abs(mine - other) > max(mine, other) for mine, other in both)
