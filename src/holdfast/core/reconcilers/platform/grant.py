"""The grant controller: every account is lent to regions as they need it, and called back when they do not (RULES 7).

It looks at one account at a time. How much each region should have is said in `grant_targets`; here is what is offered,
and when. Regions that are not heard are offered less when the account has less, and never more; so is a region that has
not answered the last offer. A grant is renewed when half of its life is over.
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
from holdfast.core.reconcilers.platform.grant_targets import (
    ProtectedShare,
    RegionLoan,
    differs_much,
    loan_targets,
    loans_of,
    spread_protection,
    turns_on_uses,
)

#: While what regions use of a quota decides what they get, it is looked at so often, beside what wakes it: reports come
#: every second, and to ask of each which of all quotas it concerns would cost more.
USES_MS = 5_000
#: So much sooner than it could does a grant end, by the platform's time.
MARGIN_MS = 1_000


class GrantReconciler:
    """Looks at one account at a time, by name."""

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
            # What is done of batch work is paid for no more: others may have it.
            workload = state.workloads.get(key)  # type: ignore[arg-type]
            if workload is None or not workload.spec.batch:
                return []
            return _and_quota(f"reclaimable/{workload.meta.tenant}")
        if kind == ASSIGNMENT:
            # One that is gone had ended before, or went with its region.
            assignment = state.assignments.get(key)  # type: ignore[arg-type]
            return [f"quota/{assignment.tenant}"] if assignment is not None else []
        return EVERYTHING

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        account = str(key)
        lent = loans_of(state, account, now)
        if not lent:
            return NO_OUTCOME
        slices = loan_targets(state, account, lent)
        until = _end_of(state, account)
        send, looks = [], [] if until is None else [until]
        if turns_on_uses(state, account, lent):
            looks.append(now + USES_MS)
        for one, target, protected in zip(lent, slices, _protected(state, account, lent, slices), strict=True):
            due = _due(state, one, until)
            if _is_wanted(one, target, protected) or (due is not None and due <= now):
                ends = _ends(state, one, account, now)
                send.append(
                    ProposedCommand(OfferGrant(account, one.region, target, ends, protected), _cause(state, account))
                )
            elif due is not None:
                looks.append(due)
        return ReconcileResult(tuple(send), min((at for at in looks if at > now), default=None))


def _and_quota(account: str) -> list[str]:
    """What is lent of a share is not asked of the quota."""
    kind, _, name = account.partition("/")
    return [account, f"quota/{name}"] if kind == "reclaimable" else [account]


def _shares(state: PlatformState) -> list[str]:
    return [f"reclaimable/{name}" for name, quota in state.quotas.items() if quota.spec.reclaimable]


def _short(state: PlatformState) -> list[str]:
    """Quotas of which more is asked than there is: what regions use of them decides who gets how much."""
    regions = [name for name, _ in state.regions.items()]
    found = []
    for tenant, quota in state.quotas.items():
        asked = total(quota_demand(state, tenant, region) for region in regions)
        if first_exceeded(asked, quota.spec.hard):
            found.append(f"quota/{tenant}")
    return found


def _protected(
    state: PlatformState, account: str, lent: Sequence[RegionLoan], slices: Sequence[Resources]
) -> list[Resources]:
    kind, _, name = account.partition("/")
    quota = state.quotas.get(name) if kind == "quota" else None
    if quota is None or (quota.spec.protected == ZERO and all(one.protected == ZERO for one in lent)):
        return [ZERO for _ in lent]
    shields = [
        ProtectedShare(quota_demand(state, name, one.region), target, one.protected, one.is_well, one.has_answered)
        for one, target in zip(lent, slices, strict=True)
    ]
    return spread_protection(quota.spec.protected, shields)


def _is_wanted(one: RegionLoan, target: Resources, protected: Resources) -> bool:
    """Whether it is worth an offer."""
    if one.grant is not None and len(one.grant.offers) >= OFFERS_MAX:
        return False  # it would be told nothing new
    return target != one.target or (one.is_well and one.has_answered and differs_much(one.protected, protected))


def _due(state: PlatformState, one: RegionLoan, until: Instant | None) -> Instant | None:
    """When a grant is to be renewed: when half of its life is over, unless it ends with its account."""
    if one.grant is None or one.limit is None or not (one.is_well and one.has_answered) or one.target == ZERO:
        return None
    if until is not None and one.grant.ends >= until:
        return None
    return one.grant.ends - state.info.settings.grant_life // 2


def _ends(state: PlatformState, one: RegionLoan, account: str, now: Instant) -> Instant:
    """When an offer ends. What was lent of an emergency that is over ends as soon as it can be told: that stops what it
    paid for. Of anything else that is gone merely nothing is added."""
    ends = now + state.info.settings.grant_life - MARGIN_MS
    if one.limit is not None:
        return min(ends, one.limit.ends)
    return now + MARGIN_MS if account.startswith("emergency/") else ends


def _end_of(state: PlatformState, account: str) -> Instant | None:
    """When an emergency is over: then what was lent of it is called back."""
    kind, _, name = account.partition("/")
    override = state.overrides.get(int(name)) if kind == "emergency" else None
    return override.ends if override is not None and emergency(override) is not None else None


def _cause(state: PlatformState, account: str) -> Revision:
    """The object that the account is of."""
    kind, _, name = account.partition("/")
    if kind == "emergency":
        return int(name)
    found = state.recovery_budgets.get(name) if kind == "recovery" else state.quotas.get(name)
    return found.meta.revision if found is not None else 0
