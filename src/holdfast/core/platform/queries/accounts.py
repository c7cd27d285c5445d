"""Accounts: who pays, and how much an account may be lent out.

    quota/TENANT        the tenant's quota, over all regions
    recovery/BUDGET     a recovery budget, with a limit of its own in each region it names
    reclaimable/TENANT  a share of what each region has, for the tenant's reclaimable work, as the region last told
    emergency/UID       an emergency override, over the regions it holds for, until it ends

Everything that creates spending power is an account (RULES 7). Nothing is charged to two.

What is asked of an account in a region: by what is assigned there, and not by what has been placed yet.

Reclaimable work asks its share of the region's room first and the quota for the rest. A replica is paid by one account
or by the other, never by both, so the rest is counted in replicas.

    asked of reclaimable/T: 5 replicas, 1 cpu each      lent of it there: 2.5 cpu --> 2 replicas
    asked of quota/T:       what is not reclaimable, and 3 cpu
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.ledger.answers import Code, Refused, contradictory, malformed, not_found
from holdfast.core.ledger.builtin.overrides import active_overrides, emergency
from holdfast.core.model.objects.tenants import Quota
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.grants import AccountDemand, charge_key, grant_key
from holdfast.core.model.records.region_reports import capacity_of
from holdfast.core.model.values.resources import (
    ZERO,
    Resources,
    add,
    amount_of,
    elementwise_max,
    from_amounts,
    names_in,
)
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.state.tables import PlatformState

_NONE = AccountDemand()


class AccountLimit(NamedTuple):
    """What may be lent of an account in all the places that share the limit, what of it protected, and until when."""

    amount: Resources
    protected: Resources
    ends: Instant


def account_limit(state: PlatformState, account: str, region: str, at: Instant) -> AccountLimit | Refused:
    """The limit of an account as it holds for a region, or why it has none now."""
    kind, _, name = account.partition("/")
    latest = at + state.info.settings.grant_life
    match kind:
        case "quota":
            quota = state.quotas.get(name)
            return (
                not_found("Quota", name)
                if quota is None
                else AccountLimit(quota.spec.hard, quota.spec.protected, latest)
            )
        case "recovery":
            budget = state.recovery_budgets.get(name)
            if budget is None:
                return not_found("RecoveryBudget", name)
            if region not in budget.spec.regions:
                return contradictory(f"budget {name} holds no room in region {region}", budget=name, region=region)
            return AccountLimit(budget.spec.each, ZERO, latest)
        case "reclaimable":
            return _share_limit(state, name, region, latest)
        case "emergency":
            return _emergency_limit(state, name, region, at, latest)
        case _:
            return malformed(
                f"{account!r} is no account", forms=["quota/T", "recovery/B", "reclaimable/T", "emergency/UID"]
            )


def _share_limit(state: PlatformState, tenant: str, region: str, latest: Instant) -> AccountLimit | Refused:
    quota = state.quotas.get(tenant)
    if quota is None:
        return not_found("Quota", tenant)
    told = state.summaries.get(region)
    return AccountLimit(percent_of(capacity_of(told.summary), quota.spec.reclaimable) if told else ZERO, ZERO, latest)


def percent_of(whole: Resources, percent: int) -> Resources:
    """So much of it, rounded down."""
    extended = tuple((name, amount * percent // 100) for name, amount in whole.extended)
    cpu, memory, disk, gpu = (amount * percent // 100 for amount in (whole.cpu, whole.memory, whole.disk, whole.gpu))
    return Resources(cpu, memory, disk, gpu, tuple((name, amount) for name, amount in extended if amount))


def _emergency_limit(
    state: PlatformState, name: str, region: str, at: Instant, latest: Instant
) -> AccountLimit | Refused:
    if not (name.isascii() and name.isdigit() and len(name) < 20 and str(int(name)) == name):
        return malformed(f"{name!r} is no uid of an override", account=f"emergency/{name}")
    override = state.overrides.get(int(name))
    quota = emergency(override)
    if override is None or quota is None:
        return not_found("emergency override", name)
    if override.ends <= at:
        facts = {"override": override.uid, "ends": override.ends, "at": at}
        return Refused(Code.EXPIRED, f"the emergency {name} has ended", facts)
    if override.region not in ("", region):
        return contradictory(f"emergency {name} holds in region {override.region} only", region=override.region)
    return AccountLimit(quota.amount, ZERO, min(latest, override.ends))


def fixed_limit(state: PlatformState, account: str, region: str) -> Resources | None:
    """What may be lent of an account at most, whatever was lent. None: it has no limit that would be broken, as a share
    of a region's room, which shrinks by itself, or an emergency that is over."""
    kind, _, name = account.partition("/")
    if kind == "quota":
        quota = state.quotas.get(name)
        return quota.spec.hard if quota is not None else ZERO
    if kind == "recovery":
        budget = state.recovery_budgets.get(name)
        return budget.spec.each if budget is not None and region in budget.spec.regions else ZERO
    added = emergency(state.overrides.get(int(name))) if kind == "emergency" else None
    return added.amount if added is not None else None


def paying_accounts(
    state: PlatformState, workload: Workload, region: str, purpose: AssignmentPurpose, at: Instant
) -> tuple[str, ...]:
    """The accounts that pay for a workload in a region, in the order in which they are asked."""
    if purpose is AssignmentPurpose.RECOVERY:
        return (f"recovery/{workload.spec.recovery.budget}",)
    tenant = workload.meta.tenant
    opened = active_overrides(state, at, region).emergencies
    emergencies = [f"emergency/{uid}" for uid, added in opened.items() if added.tenant == tenant]
    cls, quota = state.priority_classes.get(workload.spec.priority_class), state.quotas.get(tenant)
    borrows = cls is not None and cls.spec.reclaimable and quota is not None and quota.spec.reclaimable
    return (*((f"reclaimable/{tenant}",) if borrows else ()), f"quota/{tenant}", *emergencies)


def quota_demand(state: PlatformState, tenant: str, region: str) -> Resources:
    """What a tenant's quota is asked for in a region."""
    mine = state.demand_of.get(grant_key(region, f"quota/{tenant}")) or _NONE
    share = grant_key(region, f"reclaimable/{tenant}")
    borrowing = state.demand_of.get(share)
    if borrowing is None:
        return mine.amount
    grant = state.grants.get(share)
    return add(mine.amount, demand_beyond(borrowing, grant.target if grant is not None else ZERO))


def demand_beyond(demand: AccountDemand, share: Resources) -> Resources:
    """What is asked for beyond a share: as if all replicas were alike."""
    count = demand.count
    names = [name for name in names_in(demand.amount) if amount_of(demand.amount, name)]
    paid = min((count * amount_of(share, name) // amount_of(demand.amount, name) for name in names), default=count)
    left = count - min(paid, count)
    return from_amounts({name: -(-amount_of(demand.amount, name) * left // count) for name in names})


def account_charge(state: PlatformState, account: str, region: str = "") -> Resources:
    """What is charged to a limit: over all regions, or for a recovery budget in one."""
    return state.offered_of.get(charge_key(account, region)) or ZERO


def effective_quota(state: PlatformState, quota: Quota) -> Resources:
    """What a quota amounts to now: lowered, it follows what regions give back."""
    return elementwise_max(quota.spec.hard, account_charge(state, f"quota/{quota.meta.name}"))
