"""Which objects a caller may see; `redaction` decides which parts of one. The ledger decides what it may change.

A tenant, and a principal scoped to one, sees objects of that tenant and objects of no tenant. An unscoped person sees
objects of tenants only with the permission `see-other-tenants`. A machine sees the objects of its task: a scheduler its
own region, an agent the bindings of its node, a region its shipments. Every ledger stores machine principals, but each
can be used in one place only.
"""

from __future__ import annotations

from holdfast.api.problems import Problem, from_refusal
from holdfast.api.server.authentication import Caller
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.authorization import MACHINES, PEOPLE
from holdfast.core.model.objects.principals import Permission

#: Machine principals that each kind of ledger serves.
_AT_WORK = {"platform": ("region",), "region": ("agent", "scheduler")}
#: Kinds about the operation of the platform, not about a tenant.
_OF_OPERATORS = ("sessions", "breaches", "schedulers")


def refuse_route(caller: Caller, ledger: str, kinds: tuple[str, ...]) -> Problem | None:
    """Refuse a caller whose kind the route does not serve; machines are served only by the ledger of their task."""
    if caller.kind not in kinds:
        return _denied(Code.NO_RIGHT, f"{caller.actor} may not use this route", {"actor": caller.actor})
    if caller.kind not in MACHINES:
        return None
    if caller.kind not in _AT_WORK[ledger.partition("/")[0]]:
        return _denied(Code.NO_RIGHT, f"{caller.actor} has no access to {ledger}", {"actor": caller.actor})
    region = caller.principal.spec.scope.region
    if region and ledger not in ("platform", f"region/{region}"):
        return _denied(Code.WRONG_SCOPE, f"{caller.actor} may act in region {region} only", {"scope": region})
    return None


def refuse_reading(caller: Caller, ledger: str, plural: str) -> Problem | None:
    """Refuse a caller that may not read this kind at all."""
    if caller.kind in PEOPLE:
        if not caller.has(Permission.READ):
            return _denied(Code.NO_RIGHT, f"{caller.actor} lacks the permission read", {"right": "read"})
        region = caller.principal.spec.scope.region
        if region and ledger not in ("platform", f"region/{region}"):
            return _denied(Code.WRONG_SCOPE, f"{caller.actor} may act in region {region} only", {"scope": region})
        if plural in _OF_OPERATORS and caller.tenant() and not caller.has(Permission.SEE_OTHER_TENANTS):
            return _denied(Code.WRONG_SCOPE, f"{plural} do not belong to one tenant", {"scope": caller.tenant()})
        return None
    if caller.kind == "scheduler" and ledger != "platform":
        return None
    return _denied(Code.NO_RIGHT, f"{caller.actor} may not read {plural}", {"actor": caller.actor})


def refuse_audit(caller: Caller, ledger: str) -> Problem | None:
    """Refuse a caller that may not read the audit: it needs the permission `audit` or `operate`. With a region as its
    scope it reads that region only, and for a tenant only entries about that tenant."""
    if caller.kind not in PEOPLE or not (caller.has(Permission.AUDIT) or caller.has(Permission.OPERATE)):
        return _denied(Code.NO_RIGHT, f"{caller.actor} lacks the permission audit", {"right": Permission.AUDIT.value})
    scope = caller.principal.spec.scope
    if scope.node or (scope.region and ledger != f"region/{scope.region}"):
        where = f"node {scope.node}" if scope.node else f"region {scope.region}"
        return _denied(Code.WRONG_SCOPE, f"{caller.actor} is scoped to {where}", {"scope": scope.node or scope.region})
    return None


def refuse_tenant(caller: Caller, tenant: str) -> Problem | None:
    if not tenant or sees(caller, tenant):
        return None
    return _denied(Code.WRONG_SCOPE, f"{caller.actor} may not see tenant {tenant}", {"tenant": tenant})


def sees_everything(caller: Caller) -> bool:
    """Whether the caller sees the objects of all tenants."""
    return caller.kind == "scheduler" or caller.has(Permission.SEE_OTHER_TENANTS)


def sees(caller: Caller, tenant: str) -> bool:
    """Whether the caller sees objects of this tenant; objects of no tenant are always visible."""
    return not tenant or sees_everything(caller) or caller.tenant() == tenant


def sees_principal(caller: Caller, principal: str) -> bool:
    """Whether the caller sees a principal and its tokens: its own, or all if it may operate without a scope."""
    return principal == caller.actor or operates_all(caller)


def operates_all(caller: Caller) -> bool:
    """Whether the caller may operate without a scope."""
    return caller.has(Permission.OPERATE) and is_unscoped(caller)


def is_unscoped(caller: Caller) -> bool:
    """Whether the caller acts for no tenant, and its permissions hold in every region and on every node."""
    scope = caller.principal.spec.scope
    return not (caller.tenant() or scope.region or scope.node)


def _denied(code: Code, message: str, facts: dict[str, str]) -> Problem:
    return from_refusal(Refused(code, message, facts))
