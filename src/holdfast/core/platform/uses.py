"""What refers to an object, for each kind: deletion is refused while anything does.

Only operators delete these kinds, and rarely, so a walk over all workloads is cheaper than an index kept for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import RecoveryBudget
from holdfast.core.model.resources import NOTHING
from holdfast.core.model.tenancy import Principal, PriorityClass, Quota, Tenant, Token
from holdfast.core.model.topology import NodePool, Region, RegionHealth
from holdfast.core.model.workload import Workload
from holdfast.core.platform.checks import in_use, refuse_rights
from holdfast.core.platform.state import PlatformState, charge_key


def uses_of_tenant(state: PlatformState, stored: Tenant, case: Case) -> Refused | None:
    name = stored.meta.name
    if name in state.quotas:
        return in_use(f"tenant {name} has a quota", quota=name)
    count = state.workload_counts.get(name) or 0
    if count:
        return in_use(f"tenant {name} has {count} workloads", workloads=count)
    budgets = [key for key, budget in state.budgets.items() if name in budget.spec.tenants]
    return in_use(f"recovery budgets name tenant {name}", budgets=budgets) if budgets else None


def uses_of_quota(state: PlatformState, stored: Quota, case: Case) -> Refused | None:
    name = stored.meta.name
    lent = state.offered_of.get(f"quota/{name}") or NOTHING
    if lent != NOTHING:
        return in_use("regions have been lent some of it", account=f"quota/{name}")
    account = f"reclaimable/{name}"
    regions = [region for region, _ in state.regions.items() if charge_key(account, region) in state.offered_of]
    return in_use("regions have been lent some of it", account=account, regions=regions) if regions else None


def uses_of_priority_class(state: PlatformState, stored: PriorityClass, case: Case) -> Refused | None:
    name = stored.meta.name
    tenants = [key for key, tenant in state.tenants.items() if name in tenant.spec.priority_classes]
    if tenants:
        return in_use(f"{len(tenants)} tenants may use priority class {name}", tenants=tenants[:10])
    # A workload may have moved on to another class while its regions still act on this one.
    held = sorted(uid for uid, a in state.assignments.unordered() if a.priority_class == name)
    if held:
        return in_use(f"{len(held)} assignments name priority class {name}", assignments=held[:10])
    return _named_by_workloads(state, f"priority class {name}", lambda workload: workload.spec.priority_class == name)


def uses_of_principal(state: PlatformState, stored: Principal, case: Case) -> Refused | None:
    """A token that still opens the door would speak for nobody, or for the wildcard of its kind."""
    name = stored.meta.name
    live = [
        key
        for key, token in state.tokens.items()
        if token.spec.principal == name and not token.spec.revoked and token.spec.expires > case.at
    ]
    if live:
        return in_use(f"tokens of {name} are neither revoked nor expired", tokens=live)
    return refuse_rights(stored.spec.rights, case)


def uses_of_token(state: PlatformState, stored: Token, case: Case) -> Refused | None:
    """A live token is revoked first: a region that is cut off must learn that it ended, not that it never was."""
    if stored.spec.revoked or stored.spec.expires <= case.at:
        return None
    facts = {"token": stored.meta.name, "expires": stored.spec.expires}
    return Refused(Code.TOO_EARLY, "a token is revoked or expired before it is forgotten", facts)


def uses_of_region(state: PlatformState, stored: Region, case: Case) -> Refused | None:
    name = stored.meta.name
    if stored.status.health is not RegionHealth.RETIRED:
        return in_use(f"region {name} is {stored.status.health}; retire it first", health=stored.status.health.value)
    if stored.status.unreleased:
        left = stored.status.unreleased
        return in_use(f"{left} of what region {name} held are not released yet", unreleased=left)
    pools = [key for key, pool in state.pools.items() if pool.spec.region == name]
    budgets = [key for key, budget in state.budgets.items() if name in budget.spec.regions]
    if pools or budgets:
        return in_use(f"pools or budgets name region {name}", pools=pools, budgets=budgets)
    return _named_by_workloads(state, f"region {name}", lambda workload: _names_region(workload, name))


def _names_region(workload: Workload, name: str) -> bool:
    placement = workload.spec.placement
    return name in (*placement.regions, placement.primary) or name in dict(placement.weights)


def uses_of_pool(state: PlatformState, stored: NodePool, case: Case) -> Refused | None:
    """Nothing on the platform refers to a pool; its nodes belong to the region."""
    return None


def uses_of_budget(state: PlatformState, stored: RecoveryBudget, case: Case) -> Refused | None:
    account = f"recovery/{stored.meta.name}"
    lent = [name for name, _ in state.regions.items() if charge_key(account, name) in state.offered_of]
    if lent:
        return in_use("regions have been lent some of it", account=account, regions=lent)
    name = stored.meta.name
    return _named_by_workloads(state, f"budget {name}", lambda workload: workload.spec.recovery.budget == name)


def _named_by_workloads(state: PlatformState, what: str, names: Callable[[Workload], bool]) -> Refused | None:
    found = sorted(uid for uid, workload in state.workloads.unordered() if names(workload))
    return in_use(f"{len(found)} workloads name {what}", workloads=found[:10]) if found else None


Use = Callable[[PlatformState, Any, Case], Refused | None]
USES: dict[str, Use] = {
    "Tenant": uses_of_tenant,
    "Quota": uses_of_quota,
    "PriorityClass": uses_of_priority_class,
    "Principal": uses_of_principal,
    "Token": uses_of_token,
    "Region": uses_of_region,
    "NodePool": uses_of_pool,
    "RecoveryBudget": uses_of_budget,
}
