"""What a caller may see. What it may change is judged by the ledger alone.

A tenant, and whoever is scoped to one, sees what is that tenant's and what is nobody's. A person without a scope sees
tenants' own objects only with the right `see-other-tenants`. Machines see what their work takes, where it is: a
scheduler its own region, an agent the bindings of its node, a region its shipments. Their principals are known
everywhere, and are good in one place.
"""

from __future__ import annotations

from holdfast.api.problems import Problem, from_refusal
from holdfast.api.server.authentication import Caller
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.model.objects.principals import Permission

#: By kind of ledger, the machines that speak there.
_AT_WORK = {"platform": ("region",), "region": ("agent", "scheduler")}
#: Kinds that show how the platform is run, not what a tenant has.
_OF_OPERATORS = ("sessions", "breaches")


def refuse_route(caller: Caller, ledger: str, kinds: tuple[str, ...]) -> Problem | None:
    """Whether this caller may ask for what is for these kinds of callers; machines only where their work is."""
    if caller.kind not in kinds:
        return _denied(Code.NO_RIGHT, f"{caller.actor} is not answered that", {"actor": caller.actor})
    if caller.kind not in MACHINES:
        return None
    if caller.kind not in _AT_WORK[ledger.partition("/")[0]]:
        return _denied(Code.NO_RIGHT, f"{caller.actor} has no work on {ledger}", {"actor": caller.actor})
    region = caller.principal.spec.scope.region
    if region and ledger not in ("platform", f"region/{region}"):
        return _denied(Code.WRONG_SCOPE, f"{caller.actor} may act in region {region} only", {"scope": region})
    return None


def refuse_reading(caller: Caller, ledger: str, plural: str) -> Problem | None:
    """Whether this caller may read this kind at all."""
    if caller.kind in ("person", "tenant"):
        if not caller.has(Permission.READ):
            return _denied(Code.NO_RIGHT, f"{caller.actor} has no right to read", {"right": "read"})
        region = caller.principal.spec.scope.region
        if region and ledger not in ("platform", f"region/{region}"):
            return _denied(Code.WRONG_SCOPE, f"{caller.actor} may act in region {region} only", {"scope": region})
        if plural in _OF_OPERATORS and caller.tenant() and not caller.has(Permission.SEE_OTHER_TENANTS):
            return _denied(Code.WRONG_SCOPE, f"{plural} are not of one tenant", {"scope": caller.tenant()})
        return None
    if caller.kind == "scheduler" and ledger != "platform":
        return None
    return _denied(Code.NO_RIGHT, f"{caller.actor} may not read {plural}", {"actor": caller.actor})


def refuse_audit(caller: Caller, ledger: str) -> Problem | None:
    """Whether this caller may read what people did: it has the right, or operates; a region's in that region alone, and
    one that speaks for a tenant what is about that tenant."""
    if caller.kind not in ("person", "tenant") or not (caller.has(Permission.AUDIT) or caller.has(Permission.OPERATE)):
        return _denied(Code.NO_RIGHT, f"{caller.actor} has no right to the audit", {"right": Permission.AUDIT.value})
    scope = caller.principal.spec.scope
    if scope.node or (scope.region and ledger != f"region/{scope.region}"):
        where = f"node {scope.node}" if scope.node else f"region {scope.region}"
        return _denied(Code.WRONG_SCOPE, f"{caller.actor} is bound to {where}", {"scope": scope.node or scope.region})
    return None


def refuse_tenant(caller: Caller, tenant: str) -> Problem | None:
    """Whether this caller may ask for what is this tenant's."""
    if not tenant or sees(caller, tenant):
        return None
    return _denied(Code.WRONG_SCOPE, f"{caller.actor} may not see tenant {tenant}", {"tenant": tenant})


def sees_everything(caller: Caller) -> bool:
    """Whether whose something is makes no difference to this caller."""
    return caller.kind == "scheduler" or caller.has(Permission.SEE_OTHER_TENANTS)


def sees(caller: Caller, tenant: str) -> bool:
    """Whether what is this tenant's is shown; what is nobody's always is."""
    return not tenant or sees_everything(caller) or caller.tenant() == tenant


def sees_principal(caller: Caller, principal: str) -> bool:
    """Whether a principal, or a token of it, is shown: one's own, or all to those who operate without a scope."""
    return principal == caller.actor or operates_all(caller)


def operates_all(caller: Caller) -> bool:
    """Whether it operates without a scope."""
    return caller.has(Permission.OPERATE) and is_unscoped(caller)


def is_unscoped(caller: Caller) -> bool:
    """Whether it speaks for no tenant, and its rights hold in every region and on every node."""
    scope = caller.principal.spec.scope
    return not (caller.tenant() or scope.region or scope.node)


def _denied(code: Code, message: str, facts: dict[str, str]) -> Problem:
    return from_refusal(Refused(code, message, facts))
