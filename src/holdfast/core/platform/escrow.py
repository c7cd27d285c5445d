"""OfferGrant and AcknowledgeGrant: spending power is lent, and comes back only from the region's log (RULES 7).

The platform charges a grant at the largest value that its region may be acting on: what it last settled on, and every
target offered after that. A shrink therefore returns nothing when it is offered, only when it is acknowledged; a
raise is charged when it is offered. However the two cross on the way, no unit is sold twice.

    offer 10 --> charged 10      acknowledged 1, settled 10 --> charged 10
    offer  4 --> charged 10      acknowledged 2, settled  6 --> charged  6     (the region was using 6)
    offer  8 --> charged  8
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Grant, Offer
from holdfast.core.model.resources import NOTHING, Resources, add, exceeded, greatest, subtract
from holdfast.core.model.tenancy import Quota
from holdfast.core.model.topology import RegionHealth
from holdfast.core.platform.accounts import Limit, limit_of
from holdfast.core.platform.breaches import BreachEvent, recount_account
from holdfast.core.platform.checks import contradictory, malformed, refuse_amount
from holdfast.core.platform.commands import AcknowledgeGrant, OfferGrant
from holdfast.core.platform.events import GrantsRemoved, GrantStored
from holdfast.core.platform.objects import already
from holdfast.core.platform.senders import refuse_unjoined, region_of
from holdfast.core.platform.state import PlatformState, charge_key, grant_key

#: Offers to a region that does not answer are kept, each, until it does; more would tell it nothing new.
OFFERS_MAX = 64


def charged_to(state: PlatformState, account: str, region: str = "") -> Resources:
    """What is charged to a limit: over all regions, or for a recovery budget in one."""
    return state.offered_of.get(charge_key(account, region)) or NOTHING


def effective(state: PlatformState, quota: Quota) -> Resources:
    """What a quota amounts to now: lowered, it follows what regions give back."""
    return greatest(quota.spec.hard, charged_to(state, f"quota/{quota.meta.name}"))


def offer_grant(state: PlatformState, command: OfferGrant, case: Case) -> Accepted | Refused:
    """The next version of a region's slice, if all slices still fit the account."""
    refused = refuse_amount("target", command.target) or refuse_amount("protected", command.protected)
    if refused is not None:
        return refused
    old = state.grants.get(grant_key(command.region, command.account))
    new = _next_version(command, old)
    if old is not None and (new.target, new.protected, new.ends) == (old.target, old.protected, old.ends):
        return already(f"grant/{grant_key(old.region, old.account)}", old.revision)
    refused = _refuse_region(state, new, old)
    if refused is not None:
        return refused
    limit = limit_of(state, command.account, command.region, case.at)
    if isinstance(limit, Refused):
        if old is None or _raises(new, old):
            return limit
        # What was lent from an account that is gone can still be called back.
        limit = Limit(NOTHING, NOTHING, case.at + state.facts.settings.grant_life)
    refused = (
        _refuse_terms(new, limit, case)
        or _refuse_over(state, new, old, limit)
        or _refuse_protected(state, new, old, limit)
    )
    if refused is not None:
        return refused
    return Accepted((GrantStored(new),))


def _next_version(command: OfferGrant, old: Grant | None) -> Grant:
    target, protected = command.target, command.protected
    if old is None:
        offers = (Offer(1, target),)
        return Grant(0, 0, command.account, command.region, 1, target, target, command.ends, protected, offers=offers)
    version = old.version + 1
    return replace(
        old,
        version=version,
        target=target,
        offered=greatest(target, old.offered),
        ends=command.ends,
        protected=protected,
        offers=(*old.offers, Offer(version, target)),
    )


def _raises(new: Grant, old: Grant | None) -> bool:
    """Judged against the last target, not against what is charged: the region may have shrunk to that already."""
    return bool(exceeded(new.target, old.target if old is not None else NOTHING))


def _refuse_region(state: PlatformState, new: Grant, old: Grant | None) -> Refused | None:
    region = state.regions.get(new.region)
    if region is None:
        return not_found("Region", new.region)
    health = region.status.health
    if health is RegionHealth.RETIRED or (health is RegionHealth.LOST and _raises(new, old)):
        facts = {"region": new.region, "health": health.value}
        return Refused(Code.REGION_UNAVAILABLE, f"region {new.region} is {health}: nothing more is lent to it", facts)
    return None


def _refuse_terms(new: Grant, limit: Limit, case: Case) -> Refused | None:
    if not case.at < new.ends <= limit.ends:
        facts = {"at": case.at, "ends": new.ends, "latest": limit.ends}
        return Refused(Code.EXPIRED, "a grant ends after now, within its longest life and that of its account", facts)
    if len(new.offers) > OFFERS_MAX:
        facts = {"acknowledged": new.acknowledged, "version": new.version - 1}
        return Refused(Code.TOO_MANY_IN_FLIGHT, f"{OFFERS_MAX} offers are not acknowledged; wait for one", facts)
    over = exceeded(new.protected, new.target)
    return contradictory(f"protected {over} is more than the target", resource=over) if over else None


def _refuse_over(state: PlatformState, new: Grant, old: Grant | None, limit: Limit) -> Refused | None:
    """Nothing is added that would go above the limit: while it is above, that is nothing at all."""
    if not _raises(new, old):
        return None
    before = charged_to(state, new.account, new.region)
    after = add(subtract(before, old.offered if old is not None else NOTHING), new.offered)
    over = exceeded(after, limit.amount)
    if not over:
        return None
    facts = {"account": new.account, "resource": over, "limit": limit.amount, "charged": before, "would_be": after}
    return Refused(Code.OVER_QUOTA, f"{new.account} has not that much {over} to lend", facts)


def _refuse_protected(state: PlatformState, new: Grant, old: Grant | None, limit: Limit) -> Refused | None:
    if not exceeded(new.protected, old.protected if old is not None else NOTHING):
        return None
    total = new.protected
    for region in state.regions.values():
        other = state.grants.get(grant_key(region.meta.name, new.account))
        if other is not None and other.region != new.region:
            total = add(total, other.protected)
    over = exceeded(total, limit.protected)
    if not over:
        return None
    facts = {"account": new.account, "resource": over, "limit": limit.protected, "would_be": total}
    return Refused(Code.OVER_QUOTA, f"{new.account} has not that much protected {over}", facts)


def acknowledge_grant(state: PlatformState, command: AcknowledgeGrant, case: Case) -> Accepted | Refused:
    """What the region does not hold any more is free again; what was offered since stays charged."""
    region = region_of(case)
    refused = refuse_unjoined(state, region, case) or refuse_amount("settled", command.settled)
    if refused is not None:
        return refused
    grant = state.grants.get(grant_key(region, command.account))
    if grant is None:
        return not_found("grant", grant_key(region, command.account))
    settled = add(NOTHING, command.settled)
    if not 0 < command.version <= grant.version:
        return malformed(f"version {command.version} was never offered", version=grant.version)
    if command.version <= grant.acknowledged and not _settles_lower(grant, command.version, settled):
        return already(f"grant/{grant_key(region, command.account)}", grant.revision)
    refused = _refuse_settled(grant, command.version, settled)
    if refused is not None:
        return refused
    left = tuple(offer for offer in grant.offers if offer.version > command.version)
    offered = settled
    for offer in left:
        offered = greatest(offered, offer.target)
    new = replace(grant, acknowledged=command.version, settled=settled, offers=left, offered=offered)
    return Accepted((*_stored(state, new, case), *_recount(state, grant, new, case)))


def _settles_lower(grant: Grant, version: int, settled: Resources) -> bool:
    """A region over its target settles the same version again when charges have fallen: it may only give back."""
    return version == grant.version and settled != grant.settled and not exceeded(settled, grant.settled)


def _refuse_settled(grant: Grant, version: int, settled: Resources) -> Refused | None:
    """A region settles at its target or at what it has charged, which no limit that it ever had can exceed."""
    target, ceiling = grant.target, grant.settled
    for offer in grant.offers:
        if offer.version <= version:
            target, ceiling = offer.target, greatest(ceiling, offer.target)
    under, over = exceeded(target, settled), exceeded(settled, ceiling)
    if under:
        return contradictory(f"settled below the target of {under}", resource=under, target=target)
    if over:
        return contradictory(f"settled above all that was offered of {over}", resource=over, offered=ceiling)
    return None


def _stored(state: PlatformState, new: Grant, case: Case) -> tuple[object, ...]:
    """A grant keeps its row, and so its versions, even at nothing; an emergency that is over is never lent again."""
    is_over = new.account.startswith("emergency/") and isinstance(
        limit_of(state, new.account, new.region, case.at), Refused
    )
    if is_over and new.offered == NOTHING and not new.offers:
        return (GrantsRemoved((grant_key(new.region, new.account),)),)
    return (GrantStored(new),)


def _recount(state: PlatformState, old: Grant, new: Grant, case: Case) -> tuple[BreachEvent, ...]:
    before = charged_to(state, old.account, old.region)
    after = add(subtract(before, old.offered), new.offered)
    return recount_quota(state, old.account, before, after, case)


def recount_quota(
    state: PlatformState, account: str, before: Resources, after: Resources, case: Case
) -> tuple[BreachEvent, ...]:
    """What changes in a quota's breaches with what is charged to it. Other accounts are never above their limit."""
    kind, _, tenant = account.partition("/")
    quota = state.quotas.get(tenant) if kind == "quota" else None
    return () if quota is None else recount_account(state, account, (before, after), quota.spec.hard, case)
