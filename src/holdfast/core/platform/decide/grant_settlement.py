"""AcknowledgeGrant: the value on which a region has settled, according to its own log (RULES 7).

The region's log is the only authority for what it may use. What it released is free again. A value that this log cannot
explain, as after a restore, is *claimed*: charged, even above the limit, and called back.

    known version, less than was charged       the rest is free again
    known version, more than all its offers    claimed: charged at that
    a version that was never offered           claimed, and the target is offered again under a higher version,
                                               since a region drops versions that it has had
    an account of which nothing was granted    claimed, with a target of nothing
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, malformed
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.records.grants import Grant, GrantOffer, charge_key, grant_key
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_max, first_exceeded, subtract
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.commands import AcknowledgeGrant
from holdfast.core.platform.decide.breaches import BreachEvent, recount_account
from holdfast.core.platform.decide.checks import refuse_amount, refuse_name, refuse_unjoined_session, region_of
from holdfast.core.platform.decide.grants import forgotten_grant_events
from holdfast.core.platform.events import GrantsRemoved, GrantStored
from holdfast.core.platform.limits import VERSION_MAX
from holdfast.core.platform.queries.accounts import account_charge, account_limit, fixed_limit
from holdfast.core.platform.state.lookups import reporting_session
from holdfast.core.platform.state.tables import PlatformState


def acknowledge_grant(state: PlatformState, command: AcknowledgeGrant, ctx: CommandContext) -> Accepted | Refused:
    """Free what the region no longer holds. Later offers stay charged."""
    region = region_of(ctx)
    refused = refuse_unjoined_session(state, region, ctx) or refuse_amount("settled", command.settled)
    if refused is not None:
        return refused
    key, settled = grant_key(region, command.account), add(ZERO, command.settled)
    known = state.grants.get(key)
    # An offer of this log can always be acknowledged, even if a claim has raised the versions close to the limit.
    if not 0 < command.version < max(VERSION_MAX, known.version + 1 if known is not None else 0):
        return malformed(f"versions go from 1 to below {VERSION_MAX}", version=command.version)
    grant = known or _unknown(state, command.account, region, ctx)
    if isinstance(grant, Refused):
        return grant
    session = reporting_session(state, region)
    is_old = command.version <= grant.acknowledged and not _is_news(grant, command, settled, session)
    if is_old or (not grant.uid and settled == ZERO):
        return already(f"grant/{key}", grant.revision)
    target = _target_at(grant, command.version)
    under = first_exceeded(target, settled)
    if under:
        return contradictory(f"settled below the target of {under}", resource=under, target=target)
    new = _settled(grant, command, settled, session)
    stored = _stored(state, new, ctx, claimed=_is_claimed(grant, command.version, settled))
    return Accepted((*stored, *_recount(state, grant, new, ctx)))


def _unknown(state: PlatformState, account: str, region: str, ctx: CommandContext) -> Grant | Refused:
    """Return an empty grant of a version that this log does not have, with a target of nothing."""
    kind, _, name = account.partition("/")
    limit = refuse_name(kind, name) or account_limit(state, account, region, ctx.at)
    if not isinstance(limit, Refused):
        return Grant(0, 0, account, region, 0, ZERO, ZERO, limit.ends)
    if limit.code is Code.MALFORMED:
        return limit
    return Grant(0, 0, account, region, 0, ZERO, ZERO, ctx.at + state.info.settings.grant_life)


def _is_news(grant: Grant, command: AcknowledgeGrant, settled: Resources, session: Revision) -> bool:
    """Check whether an acknowledged version has a new settled value.

    It is lower when charges above the target have fallen. It is higher, from a later position, after this log was
    restored.
    """
    if first_exceeded(settled, grant.settled):
        is_later = grant.session != session or command.position > grant.position
        return command.version == grant.acknowledged and is_later
    return command.version == grant.version and settled != grant.settled


def _target_at(grant: Grant, version: int) -> Resources:
    """Return the target of a version, if it is known. A region never settles below it."""
    if version == grant.version:
        return grant.target
    return next((offer.target for offer in grant.offers if offer.version == version), ZERO)


def _is_claimed(grant: Grant, version: int, settled: Resources) -> bool:
    """Check whether a region holds more than every offer of this log explains."""
    ceiling = grant.settled
    for offer in grant.offers:
        ceiling = elementwise_max(ceiling, offer.target) if offer.version <= version else ceiling
    return version > grant.version or bool(first_exceeded(settled, ceiling))


def _settled(grant: Grant, command: AcknowledgeGrant, settled: Resources, session: Revision) -> Grant:
    """Return the grant as its region has it, with the offers since then."""
    version, left = grant.version, tuple(offer for offer in grant.offers if offer.version > command.version)
    if command.version > version:
        version, left = command.version + 1, (GrantOffer(command.version + 1, grant.target),)
    offered = settled
    for offer in left:
        offered = elementwise_max(offered, offer.target)
    return replace(
        grant,
        version=version,
        acknowledged=command.version,
        settled=settled,
        offers=left,
        offered=offered,
        position=max(grant.position, command.position) if grant.session == session else command.position,
        session=session,
    )


def _stored(state: PlatformState, new: Grant, ctx: CommandContext, *, claimed: bool) -> tuple[object, ...]:
    """Return the events that store the grant.

    A grant keeps its row, and so its versions, while its account exists. An emergency account is never granted again.
    """
    limit = account_limit(state, new.account, new.region, ctx.at)
    is_back = new.offered == ZERO and not new.offers
    if isinstance(limit, Refused) and is_back:
        if new.account.startswith("emergency/"):
            return (GrantsRemoved((grant_key(new.region, new.account),)),)
        if limit.code is Code.NOT_FOUND:
            return forgotten_grant_events(state, [new]) or (GrantStored(new, claimed),)
    return (GrantStored(new, claimed),)


def _recount(state: PlatformState, old: Grant, new: Grant, ctx: CommandContext) -> tuple[BreachEvent, ...]:
    before = account_charge(state, old.account, old.region)
    after = add(subtract(before, old.offered), new.offered)
    return recount_lent(state, old.account, old.region, (before, after), ctx)


def recount_lent(
    state: PlatformState, account: str, region: str, charged: tuple[Resources, Resources], ctx: CommandContext
) -> tuple[BreachEvent, ...]:
    """Return the breach events of an account whose charge changes from `charged[0]` to `charged[1]`."""
    limit = fixed_limit(state, account, region)
    return recount_account(state, charge_key(account, region), charged, charged[1] if limit is None else limit, ctx)
