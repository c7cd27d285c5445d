"""OfferGrant: a part of an account is granted; it returns only by the region's log (see `grant_settlement`).

A grant is charged at the largest value that its region may act on (RULES 7): the last settled value, or a later offer.
A shrink frees nothing until it is acknowledged; a raise is charged at once. However messages cross, no unit is granted
twice.

    offer 10 --> charged 10      acknowledged 1, settled 10 --> charged 10
    offer  4 --> charged 10      acknowledged 2, settled  6 --> charged  6     (the region was using 6)
    offer  8 --> charged  8
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, malformed, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.grants import Grant, GrantOffer, grant_key
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_max, first_exceeded, subtract
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import OfferGrant
from holdfast.core.platform.decide.checks import refuse_amount
from holdfast.core.platform.events import GrantsForgotten, GrantStored
from holdfast.core.platform.limits import OFFERS_MAX, TENANT_WEIGHT_MAX
from holdfast.core.platform.queries.accounts import AccountLimit, account_charge, account_limit
from holdfast.core.platform.state.tables import PlatformState


def offer_grant(state: PlatformState, command: OfferGrant, ctx: CommandContext) -> Accepted | Refused:
    """Offer the next version of a region's grant, if all grants still fit into the account."""
    refused = refuse_amount("target", command.target) or refuse_amount("protected", command.protected)
    if refused is not None:
        return refused
    if not 1 <= command.weight <= TENANT_WEIGHT_MAX:
        return malformed(f"weight is between 1 and {TENANT_WEIGHT_MAX}", weight=command.weight)
    old = state.grants.get(grant_key(command.region, command.account))
    new = _next_version(command, old, state.grant_versions.get(command.region) or 0)
    if old is not None and _terms(new) == _terms(old):
        return already(f"grant/{grant_key(old.region, old.account)}", old.revision)
    refused = _refuse_region(state, new, old)
    if refused is not None:
        return refused
    limit = account_limit(state, command.account, command.region, ctx.at)
    if isinstance(limit, Refused):
        if old is None or _raises(new, old) or (new.ends > old.ends and new.target != ZERO):
            return limit
        # A grant of a deleted account can be called back, but neither raised nor prolonged.
        limit = AccountLimit(ZERO, ZERO, ctx.at + state.info.settings.grant_life)
    refused = (
        _refuse_terms(new, limit, ctx)
        or _refuse_over(state, new, old, limit)
        or _refuse_protected(state, new, old, limit)
    )
    if refused is not None:
        return refused
    return Accepted((GrantStored(new),))


def _terms(grant: Grant) -> tuple[Resources, Resources, Instant, int]:
    return grant.target, grant.protected, grant.ends, grant.weight


def _next_version(command: OfferGrant, old: Grant | None, forgotten: int) -> Grant:
    target, protected = command.target, command.protected
    version = (old.version if old is not None else forgotten) + 1
    if old is None:
        account, region, offers = command.account, command.region, (GrantOffer(version, target),)
        return Grant(
            0, 0, account, region, version, target, target, command.ends, protected, forgotten, offers=offers,
            weight=command.weight,
        )  # fmt: skip
    return replace(
        old,
        version=version,
        target=target,
        offered=elementwise_max(target, old.offered),
        ends=command.ends,
        protected=protected,
        offers=(*old.offers, GrantOffer(version, target)),
        weight=command.weight,
    )


def _raises(new: Grant, old: Grant | None) -> bool:
    """Compare with the last target, not with the charge: the region may already have shrunk to that target."""
    return bool(first_exceeded(new.target, old.target if old is not None else ZERO))


def _refuse_region(state: PlatformState, new: Grant, old: Grant | None) -> Refused | None:
    region = state.regions.get(new.region)
    if region is None:
        return not_found("Region", new.region)
    health = region.status.health
    if health is RegionHealth.RETIRED or (health is RegionHealth.LOST and _raises(new, old)):
        facts = {"region": new.region, "health": health.value}
        return Refused(Code.REGION_UNAVAILABLE, f"region {new.region} is {health}: no more is granted to it", facts)
    return None


def _refuse_terms(new: Grant, limit: AccountLimit, ctx: CommandContext) -> Refused | None:
    if not ctx.at < new.ends <= limit.ends:
        facts = {"at": ctx.at, "ends": new.ends, "latest": limit.ends}
        return Refused(Code.EXPIRED, "a grant must end after now, within its own limit and its account's", facts)
    if len(new.offers) > OFFERS_MAX:
        facts = {"acknowledged": new.acknowledged, "version": new.version - 1}
        return Refused(Code.TOO_MANY_IN_FLIGHT, f"{OFFERS_MAX} offers are not acknowledged; wait for one", facts)
    over = first_exceeded(new.protected, new.target)
    return contradictory(f"protected {over} is more than the target", resource=over) if over else None


def _refuse_over(state: PlatformState, new: Grant, old: Grant | None, limit: AccountLimit) -> Refused | None:
    """Refuse a raise above the limit; while the charge is above the limit, that is any raise."""
    if not _raises(new, old):
        return None
    before = account_charge(state, new.account, new.region)
    after = add(subtract(before, old.offered if old is not None else ZERO), new.offered)
    over = first_exceeded(after, limit.amount)
    if not over:
        return None
    facts = {"account": new.account, "resource": over, "limit": limit.amount, "charged": before, "would_be": after}
    return Refused(Code.OVER_QUOTA, f"{new.account} has too little {over} left to grant", facts)


def _refuse_protected(state: PlatformState, new: Grant, old: Grant | None, limit: AccountLimit) -> Refused | None:
    if not first_exceeded(new.protected, old.protected if old is not None else ZERO):
        return None
    total = new.protected
    for region in state.regions.values():
        other = state.grants.get(grant_key(region.meta.name, new.account))
        if other is not None and other.region != new.region:
            total = add(total, other.protected)
    over = first_exceeded(total, limit.protected)
    if not over:
        return None
    facts = {"account": new.account, "resource": over, "limit": limit.protected, "would_be": total}
    return Refused(Code.OVER_QUOTA, f"{new.account} has too little protected {over}", facts)


def forgotten_grant_events(state: PlatformState, grants: Sequence[Grant]) -> tuple[GrantsForgotten, ...]:
    """Return the events that forget empty grants of deleted accounts, one for each region; none below level 2."""
    if state.info.level < GrantsForgotten.SINCE:
        return ()
    found: list[GrantsForgotten] = []
    for region in sorted({one.region for one in grants}):
        mine = [one for one in grants if one.region == region]
        keys = tuple(sorted(grant_key(region, one.account) for one in mine))
        found.append(GrantsForgotten(keys, max(one.version for one in mine)))
    return tuple(found)
