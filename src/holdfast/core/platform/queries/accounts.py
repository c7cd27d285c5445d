"""Accounts: who pays, how much of an account may be granted, and the demand on it.

    quota/TENANT        the tenant's quota, over all regions
    recovery/BUDGET     a recovery budget, with a limit of its own in each region it names
    reclaimable/TENANT  a share of each region's last reported capacity, for the tenant's reclaimable work
    emergency/UID       an emergency override, over the regions it applies to, until it ends

Every source of quota is an account (RULES 7). Nothing is charged to two.

Demand follows from assignments, placed or not. Reclaimable work uses its share of the region's capacity first, the
quota for the rest. A replica is charged to one account only, so the rest is counted in replicas.

    demand on reclaimable/T: 5 replicas, 1 cpu each      granted there: 2.5 cpu --> 2 replicas
    demand on quota/T:       all other work, and 3 cpu
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
    """Limit of an account over all regions that share it, its protected part, and its end."""

    amount: Resources
    protected: Resources
    ends: Instant


def account_limit(state: PlatformState, account: str, region: str, at: Instant) -> AccountLimit | Refused:
    """Return the limit of an account in a region, or why it has none now."""
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
                return contradictory(f"budget {name} reserves nothing in region {region}", budget=name, region=region)
            return AccountLimit(budget.spec.each, ZERO, latest)
        case "reclaimable":
            return _share_limit(state, name, region, latest)
        case "emergency":
            return _emergency_limit(state, name, region, at, latest)
        case _:
            return malformed(
                f"{account!r} is not an account", forms=["quota/T", "recovery/B", "reclaimable/T", "emergency/UID"]
            )


def _share_limit(state: PlatformState, tenant: str, region: str, latest: Instant) -> AccountLimit | Refused:
    quota = state.quotas.get(tenant)
    if quota is None:
        return not_found("Quota", tenant)
    told = state.summaries.get(region)
    return AccountLimit(percent_of(capacity_of(told.summary), quota.spec.reclaimable) if told else ZERO, ZERO, latest)


def percent_of(whole: Resources, percent: int) -> Resources:
    """Return a percentage of the amounts, rounded down."""
    extended = tuple((name, amount * percent // 100) for name, amount in whole.extended)
    cpu, memory, disk, gpu = (amount * percent // 100 for amount in (whole.cpu, whole.memory, whole.disk, whole.gpu))
    return Resources(cpu, memory, disk, gpu, tuple((name, amount) for name, amount in extended if amount))


def _emergency_limit(
    state: PlatformState, name: str, region: str, at: Instant, latest: Instant
) -> AccountLimit | Refused:
    if not (name.isascii() and name.isdigit() and len(name) < 20 and str(int(name)) == name):
        return malformed(f"{name!r} is not the uid of an override", account=f"emergency/{name}")
    override = state.overrides.get(int(name))
    quota = emergency(override)
    if override is None or quota is None:
        return not_found("emergency override", name)
    if override.ends <= at:
        facts = {"override": override.uid, "ends": override.ends, "at": at}
        return Refused(Code.EXPIRED, f"the emergency {name} has ended", facts)
    if override.region not in ("", region):
        return contradictory(f"emergency {name} applies to region {override.region} only", region=override.region)
    return AccountLimit(quota.amount, ZERO, min(latest, override.ends))


def fixed_limit(state: PlatformState, account: str, region: str) -> Resources | None:
    """Return the fixed limit of an account, whatever was granted.

    It is None if it cannot be broken: for an ended emergency, and a share of a region's capacity, which may shrink.
    """
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
    """Return the accounts that pay for a workload in a region, in the order of use."""
    if purpose is AssignmentPurpose.RECOVERY:
        return (f"recovery/{workload.spec.recovery.budget}",)
    tenant = workload.meta.tenant
    opened = active_overrides(state, at, region).emergencies
    emergencies = [f"emergency/{uid}" for uid, added in opened.items() if added.tenant == tenant]
    cls, quota = state.priority_classes.get(workload.spec.priority_class), state.quotas.get(tenant)
    borrows = cls is not None and cls.spec.reclaimable and quota is not None and quota.spec.reclaimable
    return (*((f"reclaimable/{tenant}",) if borrows else ()), f"quota/{tenant}", *emergencies)


def quota_demand(state: PlatformState, tenant: str, region: str) -> Resources:
    """Return the demand on a tenant's quota in a region."""
    mine = state.demand_of.get(grant_key(region, f"quota/{tenant}")) or _NONE
    share = grant_key(region, f"reclaimable/{tenant}")
    borrowing = state.demand_of.get(share)
    if borrowing is None:
        return mine.amount
    grant = state.grants.get(share)
    return add(mine.amount, demand_beyond(borrowing, grant.target if grant is not None else ZERO))


def demand_beyond(demand: AccountDemand, share: Resources) -> Resources:
    """Return the demand beyond a share, as if all replicas were equal."""
    count = demand.count
    names = [name for name in names_in(demand.amount) if amount_of(demand.amount, name)]
    paid = min((count * amount_of(share, name) // amount_of(demand.amount, name) for name in names), default=count)
    left = count - min(paid, count)
    return from_amounts({name: -(-amount_of(demand.amount, name) * left // count) for name in names})


def account_charge(state: PlatformState, account: str, region: str = "") -> Resources:
    """Return what is charged to a limit, over all regions that share it."""
    return state.offered_of.get(charge_key(account, region)) or ZERO


def effective_quota(state: PlatformState, quota: Quota) -> Resources:
    """Return the present amount of a quota. After a cut it follows what regions release."""
    return elementwise_max(quota.spec.hard, account_charge(state, f"quota/{quota.meta.name}"))
