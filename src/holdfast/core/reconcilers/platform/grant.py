"""Grants: every account is granted to regions by demand, and called back when demand ends (RULES 7).

The module `grant_targets` computes how much each region should hold; this one decides what is offered, and when. A
region that is unhealthy or has not acknowledged the last offer never gets more, and less only if the account has less.
A grant is renewed at half of its life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.ledger.builtin.overrides import emergency
from holdfast.core.ledger.commit.watch import OVERRIDE
from holdfast.core.ledger.reconciler import EVERYTHING, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.ledger.reconciler import NO_CHANGES as NO_OUTCOME
from holdfast.core.model.values.resources import ZERO, Resources, first_exceeded, total
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.commands import OfferGrant
from holdfast.core.platform.limits import OFFERS_MAX
from holdfast.core.platform.queries.accounts import quota_demand
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.platform.watch import ASSIGNMENT, GRANT, OBSERVED, QUOTA, RECOVERY_BUDGET, REGION_STATE, SUMMARY
from holdfast.core.reconcilers.platform import grant_targets

#: Period of reconciling a quota whose split depends on usage. Reports arrive every second; finding the quotas that each
#: concerns would cost more.
USES_MS = 5_000
#: A grant ends this much before its limit, by the platform's time.
MARGIN_MS = 1_000


class GrantReconciler:
    """The grant controller, keyed by account."""

    name = "grant"
    watches: tuple[str, ...] = (QUOTA, RECOVERY_BUDGET, OVERRIDE, ASSIGNMENT, GRANT, REGION_STATE, SUMMARY, OBSERVED)

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        found = {grant.account for grant in state.grants.values()}
        found.update(f"quota/{name}" for name, _ in state.quotas.items())
        found.update(f"recovery/{name}" for name, _ in state.recovery_budgets.items())
        found.update(_shares(state))
        found.update(f"emergency/{uid}" for uid, one in state.overrides.items() if emergency(one) is not None)
        return sorted(found)

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        kind, key = touched
        if kind == QUOTA:
            return [f"quota/{key}", f"reclaimable/{key}"]
        if kind == RECOVERY_BUDGET:
            return [f"recovery/{key}"]
        if kind == OVERRIDE:
            return [f"emergency/{key}"]
        if kind == GRANT:
            return _and_quota(str(key).partition("|")[2])
        if kind == SUMMARY:
            return [*_shares(state), *_short(state)]
        if kind == OBSERVED:
            # Finished batch work needs no quota any more; others may use it.
            workload = state.workloads.get(key)  # type: ignore[arg-type]
            if workload is None or not workload.spec.batch:
                return []
            return _and_quota(f"reclaimable/{workload.meta.tenant}")
        if kind == ASSIGNMENT:
            # A removed assignment had ended before, or was released with its region.
            assignment = state.assignments.get(key)  # type: ignore[arg-type]
            return [f"quota/{assignment.tenant}"] if assignment is not None else []
        return EVERYTHING

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        account = str(key)
        lent = grant_targets.loans_of(state, account, now)
        if not lent:
            return NO_OUTCOME
        slices = grant_targets.loan_targets(state, account, lent, now)
        until = _end_of(state, account)
        send, looks = [], [] if until is None else [until]
        if grant_targets.turns_on_uses(state, account, lent):
            looks.append(now + USES_MS)
        weight = _weight(state, account)
        for one, target, protected in zip(lent, slices, _protected(state, account, lent, slices), strict=True):
            due = _due(state, one, until)
            if _is_wanted(one, target, protected, weight) or (due is not None and due <= now):
                offer = OfferGrant(account, one.region, target, _ends(state, one, account, now), protected, weight)
                send.append(ProposedCommand(offer, _cause(state, account)))
            elif due is not None:
                looks.append(due)
        return ReconcileResult(tuple(send), min((at for at in looks if at > now), default=None))


def _and_quota(account: str) -> list[str]:
    """Return the account, and for a reclaimable share the quota, too: demand within the share is no demand on the
    quota."""
    kind, _, name = account.partition("/")
    return [account, f"quota/{name}"] if kind == "reclaimable" else [account]


def _shares(state: PlatformState) -> list[str]:
    return [f"reclaimable/{name}" for name, quota in state.quotas.items() if quota.spec.reclaimable]


def _short(state: PlatformState) -> list[str]:
    """Return the quotas with more demand than quota: their split depends on usage."""
    regions = [name for name, _ in state.regions.items()]
    found = []
    for tenant, quota in state.quotas.items():
        asked = total(quota_demand(state, tenant, region) for region in regions)
        if first_exceeded(asked, quota.spec.hard):
            found.append(f"quota/{tenant}")
    return found


def _protected(
    state: PlatformState, account: str, lent: Sequence[grant_targets.RegionLoan], slices: Sequence[Resources]
) -> list[Resources]:
    kind, _, name = account.partition("/")
    quota = state.quotas.get(name) if kind == "quota" else None
    if quota is None or (quota.spec.protected == ZERO and all(one.protected == ZERO for one in lent)):
        return [ZERO for _ in lent]
    shields = [
        grant_targets.ProtectedShare(
            quota_demand(state, name, one.region), target, one.protected, one.is_well, one.has_answered
        )
        for one, target in zip(lent, slices, strict=True)
    ]
    return grant_targets.spread_protection(quota.spec.protected, shields)


def _weight(state: PlatformState, account: str) -> int:
    """Return the weight that is shipped with the grant of a quota; 1 for other accounts."""
    kind, _, name = account.partition("/")
    quota = state.quotas.get(name) if kind == "quota" else None
    return quota.spec.weight if quota is not None else 1


def _is_wanted(one: grant_targets.RegionLoan, target: Resources, protected: Resources, weight: int) -> bool:
    """Check whether a change is worth an offer."""
    if one.grant is not None and len(one.grant.offers) >= OFFERS_MAX:
        return False  # more offers would not help the region
    known = one.grant.weight if one.grant is not None else 1
    return target != one.target or (
        one.is_well and one.has_answered and (weight != known or grant_targets.differs_much(one.protected, protected))
    )


def _due(state: PlatformState, one: grant_targets.RegionLoan, until: Instant | None) -> Instant | None:
    """Return when to renew a grant, at half of its life; None if it ends with its account."""
    if one.grant is None or one.limit is None or not (one.is_well and one.has_answered) or one.target == ZERO:
        return None
    if until is not None and one.grant.ends >= until:
        return None
    return one.grant.ends - state.info.settings.grant_life // 2


def _ends(state: PlatformState, one: grant_targets.RegionLoan, account: str, now: Instant) -> Instant:
    """Return the end of an offer.

    A grant of an ended emergency ends at once, which stops what it paid for; one of any other deleted account normally.
    """
    ends = now + state.info.settings.grant_life - MARGIN_MS
    if one.limit is not None:
        return min(ends, one.limit.ends)
    return now + MARGIN_MS if account.startswith("emergency/") else ends


def _end_of(state: PlatformState, account: str) -> Instant | None:
    """Return the end of an emergency, when its grants are called back."""
    kind, _, name = account.partition("/")
    override = state.overrides.get(int(name)) if kind == "emergency" else None
    return override.ends if override is not None and emergency(override) is not None else None


def _cause(state: PlatformState, account: str) -> Revision:
    """Return the revision of the object that the account belongs to."""
    kind, _, name = account.partition("/")
    if kind == "emergency":
        return int(name)
    found = state.recovery_budgets.get(name) if kind == "recovery" else state.quotas.get(name)
    return found.meta.revision if found is not None else 0
