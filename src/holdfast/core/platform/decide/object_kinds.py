"""Checks of each kind of object: before a Put is stored, and before a Delete.

A Put must be well formed, name existing objects, and contradict neither itself nor its grants, in this order. A quota
may always be lowered; a budget never below its grants, since workloads rely on it for recovery.

A Delete is refused while anything refers to the object. These deletions are rare, so a walk over all workloads is
cheaper than an index.

Size: a row for each kind, twice; they are read side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, contradictory, in_use, malformed, not_found, too_large
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.principals import HASH_CHARACTERS, Permission, Principal, Token, is_hash
from holdfast.core.model.objects.tenants import PriorityClass, Quota, RecoveryBudget, Tenant
from holdfast.core.model.objects.topology import NodePool, Region, RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.grants import charge_key
from holdfast.core.model.records.servers import is_server_name
from holdfast.core.model.values.addresses import credentials_problem
from holdfast.core.model.values.limits import REGIONS_MAX
from holdfast.core.model.values.resources import ZERO, first_exceeded
from holdfast.core.platform.decide.checks import refuse_amount, refuse_unknown
from holdfast.core.platform.limits import PRIORITY_MAX, TENANT_WEIGHT_MAX, TOKEN_LIFE_MAX
from holdfast.core.platform.state.tables import PlatformState

Use = Callable[[PlatformState, Any, CommandContext], Refused | None]

_DAY_MS = 86_400_000
#: Machines that work in one region. One of their tokens may serve many machines if it sets `any`.
OF_REGIONS = ("agent", "scheduler")


def check_tenant(state: PlatformState, new: Tenant, stored: Tenant | None, ctx: CommandContext) -> Refused | None:
    limits = {
        "workloadsMax": new.spec.workloads_max,
        "pendingMax": new.spec.pending_max,
        "submitsPerMinute": new.spec.submits_per_minute,
    }
    for name, limit in limits.items():
        if limit < 0:
            return malformed(f"{name} cannot be negative", **{name: limit})
    return refuse_unknown("PriorityClass", new.spec.priority_classes, state.priority_classes)


def check_quota(state: PlatformState, new: Quota, stored: Quota | None, ctx: CommandContext) -> Refused | None:
    spec = new.spec
    refused = refuse_amount("hard", spec.hard) or refuse_amount("protected", spec.protected)
    if refused is not None:
        return refused
    if not 0 <= spec.reclaimable <= 100:
        return malformed("reclaimable is between 0 and 100 percent", reclaimable=spec.reclaimable)
    if not 1 <= spec.weight <= TENANT_WEIGHT_MAX:
        return malformed(f"weight is between 1 and {TENANT_WEIGHT_MAX}", weight=spec.weight)
    over = first_exceeded(spec.protected, spec.hard)
    if over:
        return contradictory(f"protected {over} is more than hard", resource=over)
    return refuse_unknown("Tenant", (new.meta.name,), state.tenants)


def check_priority_class(
    state: PlatformState, new: PriorityClass, stored: PriorityClass | None, ctx: CommandContext
) -> Refused | None:
    if abs(new.spec.priority) > PRIORITY_MAX:
        return malformed(f"priority is between -{PRIORITY_MAX} and {PRIORITY_MAX}", priority=new.spec.priority)
    return None


def check_principal(
    state: PlatformState, new: Principal, stored: Principal | None, ctx: CommandContext
) -> Refused | None:
    """Refuse to give or take permissions that the sender does not have: `operate` would else include `break-glass`."""
    before = stored.spec.rights if stored is not None else ()
    return _refuse_everywhere(new, stored) or refuse_rights((*new.spec.rights, *before), ctx)


def _refuse_everywhere(new: Principal, stored: Principal | None) -> Refused | None:
    """Refuse a machine without a region: it would exist in each. One that already has none may still be changed."""
    name, kind = new.meta.name, new.meta.name.partition("/")[0]
    had_one = stored is None or stored.spec.scope.region
    if kind not in OF_REGIONS or name.endswith("/*") or new.spec.scope.region or not had_one:
        return None
    return malformed(f"{name} works in one region: name it in scope.region", principal=name)


def check_token(state: PlatformState, new: Token, stored: Token | None, ctx: CommandContext) -> Refused | None:
    spec = new.spec
    if not is_hash(spec.hash):
        return malformed(f"a token's hash is {HASH_CHARACTERS} hexadecimal digits", characters=len(spec.hash))
    if stored is not None and stored.spec.revoked and not spec.revoked:
        return contradictory("a revoked token stays revoked; make another", token=new.meta.name)
    if spec.expires <= ctx.at:
        facts = {"at": ctx.at, "expires": spec.expires}
        return Refused(Code.EXPIRED, "a token must expire in the future", facts)
    principal = _principal_of(state, spec.principal)
    is_another = stored is None or stored.spec.principal != spec.principal
    if principal is None or (is_another and is_server_name(spec.principal)):  # servers make their own tokens
        return not_found("Principal", spec.principal)
    refused = _refuse_life(new, stored, ctx) or _refuse_many(new, stored, principal)
    if refused is not None:
        return refused
    # Neither given nor taken: a token that moves to another principal is lost to its old one.
    before = _principal_of(state, stored.spec.principal) if stored is not None else None
    return refuse_rights((*principal.spec.rights, *(before.spec.rights if before is not None else ())), ctx)


def _refuse_life(new: Token, stored: Token | None, ctx: CommandContext) -> Refused | None:
    """Refuse a token that lives too long: it may leak. A stored one may be revoked, or end sooner."""
    latest = max(ctx.at + TOKEN_LIFE_MAX, stored.spec.expires if stored is not None else 0)
    if new.spec.expires <= latest:
        return None
    days = TOKEN_LIFE_MAX // _DAY_MS
    return malformed(f"a token is valid for at most {days} days", expires=new.spec.expires, latest=latest, days=days)


def _refuse_many(new: Token, stored: Token | None, principal: Principal) -> Refused | None:
    """Refuse a token for many machines, unless it is for agents or schedulers and sets `any`."""
    spec, kind = new.spec, new.spec.principal.partition("/")[0]
    if stored is not None and (stored.spec.principal, stored.spec.any) == (spec.principal, spec.any):
        return None
    is_wildcard = spec.principal.endswith("/*")
    if kind not in OF_REGIONS and (is_wildcard or spec.any):
        return contradictory(f"a token is for one {kind}: make one for each", principal=spec.principal)
    is_for_many = is_wildcard or (kind in OF_REGIONS and not principal.spec.scope.region)
    if is_for_many == spec.any:
        return None
    if spec.any:
        return contradictory(f"{spec.principal} is one machine in one region: leave out any", principal=spec.principal)
    whom = f"every {kind}" if is_wildcard else f"{spec.principal} in every region"
    message = f"a token of {spec.principal} would serve {whom}: make one for each, or set any: true"
    return contradictory(message, principal=spec.principal)


def _principal_of(state: PlatformState, name: str) -> Principal | None:
    return state.principals.get(name) or state.principals.get(f"{name.partition('/')[0]}/*")


def refuse_rights(rights: Iterable[Permission], ctx: CommandContext) -> Refused | None:
    """Refuse permissions that the sender does not have and so cannot give."""
    own = ctx.principal.spec.rights if ctx.principal else ()
    if Permission.OPERATE in own:  # includes `audit`, which is newer
        own = (*own, Permission.AUDIT)
    missing = sorted({right.value for right in rights if right not in own})
    if not missing:
        return None
    return Refused(Code.NO_RIGHT, f"{ctx.actor} does not have the permissions that it would give", {"missing": missing})


def check_region(state: PlatformState, new: Region, stored: Region | None, ctx: CommandContext) -> Refused | None:
    if any(latency < 0 for _, latency in new.spec.latencies):
        return malformed("latencies cannot be negative", region=new.meta.name)
    wrong = credentials_problem(new.spec.address) if new.spec.address else ""
    if wrong:
        return malformed(f"address {wrong}", region=new.meta.name)
    if stored is None and len(state.regions) >= REGIONS_MAX:
        return too_large("regions, with this one", len(state.regions) + 1, REGIONS_MAX)
    if stored is None or stored.spec.jurisdiction == new.spec.jurisdiction:
        return None
    broken = [
        uid
        for uid, assignment in state.assignments.items()
        if assignment.region == new.meta.name
        and any(
            stored.spec.jurisdiction in lawful and new.spec.jurisdiction not in lawful
            for lawful in (assignment.jurisdictions, state.workloads[assignment.workload].spec.placement.jurisdictions)
        )
    ]
    if broken:
        message = f"{len(broken)} assignments there may only be in {stored.spec.jurisdiction}"
        return in_use(message, assignments=broken[:10], count=len(broken))
    return None


def check_pool(state: PlatformState, new: NodePool, stored: NodePool | None, ctx: CommandContext) -> Refused | None:
    spec = new.spec
    if spec.minimum < 0 or spec.cost < 0:
        return malformed("sizes and costs cannot be negative", minimum=spec.minimum, cost=spec.cost)
    if spec.maximum < spec.minimum:
        return contradictory("maximum is below minimum", minimum=spec.minimum, maximum=spec.maximum)
    return refuse_unknown("Region", (spec.region,), state.regions)


def check_budget(
    state: PlatformState, new: RecoveryBudget, stored: RecoveryBudget | None, ctx: CommandContext
) -> Refused | None:
    spec = new.spec
    if len(set(spec.regions)) != len(spec.regions):
        return malformed("each region is named once", regions=list(spec.regions))
    refused = (
        refuse_amount("each", spec.each)
        or refuse_unknown("Region", spec.regions, state.regions)
        or refuse_unknown("Tenant", spec.tenants, state.tenants)
    )
    if refused is not None:
        return refused
    return _refuse_below_lent(state, new)


def _refuse_below_lent(state: PlatformState, new: RecoveryBudget) -> Refused | None:
    for region in state.regions.values():
        name = region.meta.name
        each = new.spec.each if name in new.spec.regions else ZERO
        lent = state.offered_of.get(charge_key(f"recovery/{new.meta.name}", name)) or ZERO
        over = first_exceeded(lent, each)
        if over:
            return in_use(f"region {name} has been granted more {over} than that", region=name, resource=over)
    return None


Check = Callable[[PlatformState, Any, Any, CommandContext], Refused | None]
CHECKS: dict[str, Check] = {
    "Tenant": check_tenant,
    "Quota": check_quota,
    "PriorityClass": check_priority_class,
    "Principal": check_principal,
    "Token": check_token,
    "Region": check_region,
    "NodePool": check_pool,
    "RecoveryBudget": check_budget,
}


def uses_of_tenant(state: PlatformState, stored: Tenant, ctx: CommandContext) -> Refused | None:
    name = stored.meta.name
    if name in state.quotas:
        return in_use(f"tenant {name} has a quota", quota=name)
    count = state.workload_counts.get(name) or 0
    if count:
        return in_use(f"tenant {name} has {count} workloads", workloads=count)
    budgets = [key for key, budget in state.recovery_budgets.items() if name in budget.spec.tenants]
    return in_use(f"recovery budgets name tenant {name}", budgets=budgets) if budgets else None


def uses_of_quota(state: PlatformState, stored: Quota, ctx: CommandContext) -> Refused | None:
    name = stored.meta.name
    lent = state.offered_of.get(f"quota/{name}") or ZERO
    if lent != ZERO:
        return in_use("regions hold grants of it", account=f"quota/{name}")
    account = f"reclaimable/{name}"
    regions = [region for region, _ in state.regions.items() if charge_key(account, region) in state.offered_of]
    return in_use("regions hold grants of it", account=account, regions=regions) if regions else None


def uses_of_priority_class(state: PlatformState, stored: PriorityClass, ctx: CommandContext) -> Refused | None:
    name = stored.meta.name
    tenants = [key for key, tenant in state.tenants.items() if name in tenant.spec.priority_classes]
    if tenants:
        return in_use(f"{len(tenants)} tenants may use priority class {name}", tenants=tenants[:10])
    # A workload may have moved to another class while its regions still use this one.
    held = sorted(uid for uid, a in state.assignments.unordered() if a.priority_class == name)
    if held:
        return in_use(f"{len(held)} assignments name priority class {name}", assignments=held[:10])
    return _named_by_workloads(state, f"priority class {name}", lambda workload: workload.spec.priority_class == name)


def uses_of_principal(state: PlatformState, stored: Principal, ctx: CommandContext) -> Refused | None:
    """Refuse while the principal has a live token: the token would name no principal, or the wildcard of its kind."""
    name = stored.meta.name
    live = [
        key
        for key, token in state.tokens.items()
        if token.spec.principal == name and not token.spec.revoked and token.spec.expires > ctx.at
    ]
    if live:
        return in_use(f"tokens of {name} are neither revoked nor expired", tokens=live)
    return refuse_rights(stored.spec.rights, ctx)


def uses_of_token(state: PlatformState, stored: Token, ctx: CommandContext) -> Refused | None:
    """Refuse a live token. A region without connection must learn that it was revoked, not that it never existed."""
    if stored.spec.revoked or stored.spec.expires <= ctx.at:
        return None
    facts = {"token": stored.meta.name, "expires": stored.spec.expires}
    return Refused(Code.TOO_EARLY, "revoke the token first, or wait until it has expired", facts)


def uses_of_region(state: PlatformState, stored: Region, ctx: CommandContext) -> Refused | None:
    name = stored.meta.name
    if stored.status.health is not RegionHealth.RETIRED:
        return in_use(f"region {name} is {stored.status.health}; retire it first", health=stored.status.health.value)
    if stored.status.unreleased:
        left = stored.status.unreleased
        return in_use(f"{left} rows of region {name} are not released yet", unreleased=left)
    pools = [key for key, pool in state.node_pools.items() if pool.spec.region == name]
    budgets = [key for key, budget in state.recovery_budgets.items() if name in budget.spec.regions]
    if pools or budgets:
        return in_use(f"pools or budgets name region {name}", pools=pools, budgets=budgets)
    return _named_by_workloads(state, f"region {name}", lambda workload: _names_region(workload, name))


def _names_region(workload: Workload, name: str) -> bool:
    placement = workload.spec.placement
    return name in (*placement.regions, placement.primary) or name in dict(placement.weights)


def uses_of_pool(state: PlatformState, stored: NodePool, ctx: CommandContext) -> Refused | None:
    """Refuse nothing: no object refers to a pool; its nodes belong to the region."""
    return None


def uses_of_budget(state: PlatformState, stored: RecoveryBudget, ctx: CommandContext) -> Refused | None:
    account = f"recovery/{stored.meta.name}"
    lent = [name for name, _ in state.regions.items() if charge_key(account, name) in state.offered_of]
    if lent:
        return in_use("regions hold grants of it", account=account, regions=lent)
    name = stored.meta.name
    return _named_by_workloads(state, f"budget {name}", lambda workload: workload.spec.recovery.budget == name)


def _named_by_workloads(state: PlatformState, what: str, names: Callable[[Workload], bool]) -> Refused | None:
    found = sorted(uid for uid, workload in state.workloads.unordered() if names(workload))
    return in_use(f"{len(found)} workloads name {what}", workloads=found[:10]) if found else None


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
