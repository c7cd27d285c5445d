"""What each kind of object must satisfy before an operator's Put is stored.

Three questions, in this order: is it well formed, does what it names exist, and does it contradict itself or what is
already lent out. A quota may always be lowered; a budget may not, since what it holds is promised to somebody's
recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, not_found, too_large
from holdfast.core.ledger.registry import Case
from holdfast.core.ledger.table import Table
from holdfast.core.model.addresses import not_for_credentials
from holdfast.core.model.allotment import RecoveryBudget
from holdfast.core.model.limits import REGIONS_MAX
from holdfast.core.model.resources import NOTHING, Resources, exceeded, ill_formed
from holdfast.core.model.secrets import HASH_CHARACTERS, is_hash
from holdfast.core.model.servers import looks_like_a_server
from holdfast.core.model.tenancy import Principal, PriorityClass, Quota, Right, Tenant, Token
from holdfast.core.model.topology import NodePool, Region
from holdfast.core.platform.state import PlatformState, charge_key

#: Static priorities stay far inside what a score can carry.
PRIORITY_MAX = 1_000_000
#: How long a token may be good: ninety days, and ten to change over to the next.
TOKEN_LIFE_MAX = 100 * 86_400_000
_DAY_MS = 86_400_000
#: Machines that work in one region, of which one token may stand for many if that is said.
OF_REGIONS = ("agent", "scheduler")


def malformed(message: str, **facts: Any) -> Refused:
    """It is not what it should be."""
    return Refused(Code.MALFORMED, message, facts)


def contradictory(message: str, **facts: Any) -> Refused:
    """It cannot all be meant."""
    return Refused(Code.CONTRADICTORY, message, facts)


def in_use(message: str, **facts: Any) -> Refused:
    """Something still depends on it."""
    return Refused(Code.IN_USE, message, facts)


def refuse_amount(what: str, amount: Resources) -> Refused | None:
    """No amount that anybody may declare."""
    why = ill_formed(amount)
    return malformed(f"{what}: {why}", field=what) if why else None


def refuse_unknown(kind: str, names: Iterable[str], table: Table[str, Any]) -> Refused | None:
    """The first of these names that nothing has."""
    return next((not_found(kind, name) for name in names if name not in table), None)


def check_tenant(state: PlatformState, new: Tenant, stored: Tenant | None, case: Case) -> Refused | None:
    limits = {
        "workloadsMax": new.spec.workloads_max,
        "pendingMax": new.spec.pending_max,
        "submitsPerMinute": new.spec.submits_per_minute,
    }
    for name, limit in limits.items():
        if limit < 0:
            return malformed(f"{name} cannot be negative", **{name: limit})
    return refuse_unknown("PriorityClass", new.spec.priority_classes, state.priority_classes)


def check_quota(state: PlatformState, new: Quota, stored: Quota | None, case: Case) -> Refused | None:
    spec = new.spec
    refused = refuse_amount("hard", spec.hard) or refuse_amount("protected", spec.protected)
    if refused is not None:
        return refused
    if not 0 <= spec.reclaimable <= 100:
        return malformed("reclaimable is between 0 and 100 percent", reclaimable=spec.reclaimable)
    over = exceeded(spec.protected, spec.hard)
    if over:
        return contradictory(f"protected {over} is more than hard", resource=over)
    return refuse_unknown("Tenant", (new.meta.name,), state.tenants)


def check_priority_class(
    state: PlatformState, new: PriorityClass, stored: PriorityClass | None, case: Case
) -> Refused | None:
    if abs(new.spec.priority) > PRIORITY_MAX:
        return malformed(f"priority is between -{PRIORITY_MAX} and {PRIORITY_MAX}", priority=new.spec.priority)
    return None


def check_principal(state: PlatformState, new: Principal, stored: Principal | None, case: Case) -> Refused | None:
    """Nobody gives or takes a right that they do not have: operating would else include breaking the glass."""
    before = stored.spec.rights if stored is not None else ()
    return _refuse_everywhere(new, stored) or refuse_rights((*new.spec.rights, *before), case)


def _refuse_everywhere(new: Principal, stored: Principal | None) -> Refused | None:
    """Principals are known in every region: a machine would be one in each. What is so already may be disabled."""
    name, kind = new.meta.name, new.meta.name.partition("/")[0]
    had_one = stored is None or stored.spec.scope.region
    if kind not in OF_REGIONS or name.endswith("/*") or new.spec.scope.region or not had_one:
        return None
    return malformed(f"{name} works in one region: name it in scope.region", principal=name)


def check_token(state: PlatformState, new: Token, stored: Token | None, case: Case) -> Refused | None:
    spec = new.spec
    if not is_hash(spec.hash):
        return malformed(f"a token's hash is {HASH_CHARACTERS} hexadecimal digits", characters=len(spec.hash))
    if stored is not None and stored.spec.revoked and not spec.revoked:
        return contradictory("a revoked token stays revoked; make another", token=new.meta.name)
    if spec.expires <= case.at:
        facts = {"at": case.at, "expires": spec.expires}
        return Refused(Code.EXPIRED, "a token expires in the future", facts)
    principal = _principal_of(state, spec.principal)
    is_another = stored is None or stored.spec.principal != spec.principal
    if principal is None or (is_another and looks_like_a_server(spec.principal)):  # servers make theirs themselves
        return not_found("Principal", spec.principal)
    refused = _refuse_life(new, stored, case) or _refuse_many(new, stored, principal)
    if refused is not None:
        return refused
    # As with principals, neither given nor taken: a token that is made another's is lost to whose it was.
    before = _principal_of(state, stored.spec.principal) if stored is not None else None
    return refuse_rights((*principal.spec.rights, *(before.spec.rights if before is not None else ())), case)


def _refuse_life(new: Token, stored: Token | None, case: Case) -> Refused | None:
    """A token that lasts is a token that leaks. One that lasts longer already may be revoked, or end sooner."""
    latest = max(case.at + TOKEN_LIFE_MAX, stored.spec.expires if stored is not None else 0)
    if new.spec.expires <= latest:
        return None
    days = TOKEN_LIFE_MAX // _DAY_MS
    return malformed(f"a token is good for at most {days} days", expires=new.spec.expires, latest=latest, days=days)


def _refuse_many(new: Token, stored: Token | None, principal: Principal) -> Refused | None:
    """A token is for one machine in one region, unless it is said otherwise; of all other kinds it is for one."""
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
    message = f"a token of {spec.principal} would speak for {whom}: make one for each, or say any: true"
    return contradictory(message, principal=spec.principal)


def _principal_of(state: PlatformState, name: str) -> Principal | None:
    return state.principals.get(name) or state.principals.get(f"{name.partition('/')[0]}/*")


def refuse_rights(rights: Iterable[Right], case: Case) -> Refused | None:
    """Rights that the sender does not have and so cannot hand out."""
    own = case.principal.spec.rights if case.principal else ()
    if Right.OPERATE in own:  # it holds that of the audit, also for those who had it before there was the other
        own = (*own, Right.AUDIT)
    missing = sorted({right.value for right in rights if right not in own})
    if not missing:
        return None
    return Refused(Code.NO_RIGHT, f"{case.actor} does not have what it would hand out", {"missing": missing})


def check_region(state: PlatformState, new: Region, stored: Region | None, case: Case) -> Refused | None:
    if any(latency < 0 for _, latency in new.spec.latencies):
        return malformed("latencies cannot be negative", region=new.meta.name)
    wrong = not_for_credentials(new.spec.address) if new.spec.address else ""
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


def check_pool(state: PlatformState, new: NodePool, stored: NodePool | None, case: Case) -> Refused | None:
    spec = new.spec
    if spec.minimum < 0 or spec.cost < 0:
        return malformed("sizes and costs cannot be negative", minimum=spec.minimum, cost=spec.cost)
    if spec.maximum < spec.minimum:
        return contradictory("maximum is below minimum", minimum=spec.minimum, maximum=spec.maximum)
    return refuse_unknown("Region", (spec.region,), state.regions)


def check_budget(
    state: PlatformState, new: RecoveryBudget, stored: RecoveryBudget | None, case: Case
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
        each = new.spec.each if name in new.spec.regions else NOTHING
        lent = state.offered_of.get(charge_key(f"recovery/{new.meta.name}", name)) or NOTHING
        over = exceeded(lent, each)
        if over:
            return in_use(f"region {name} has been lent more {over} than that", region=name, resource=over)
    return None


Check = Callable[[PlatformState, Any, Any, Case], Refused | None]
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
