"""The tenant of an object, which may see it in addition to callers who see all tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.tables import is_region
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.override_effects import EmergencyQuota, PauseScheduling, effect_of


def tenant_of(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> str:
    """Return the name of the object's tenant; empty if it has none."""
    owner = _OWNERS.get(kind.name)
    return "" if owner is None else owner(state, row)


def principal_tenant(state: LedgerState, name: str) -> str:
    """Return the tenant of a principal: a tenant itself, or the tenant of its scope."""
    kind, _, tenant = name.partition("/")
    if kind == "tenant":
        return tenant
    principal = state.principals.get(name)
    return principal.spec.scope.tenant if principal is not None else ""


def account_tenant(state: Any, account: str) -> str:
    """Return the tenant of an account. The account of an emergency override has the tenant that the override is for,
    while it exists."""
    kind, _, name = account.partition("/")
    if kind in ("quota", "reclaimable"):
        return name.partition("/")[0]
    if kind != "emergency" or not name.isdigit():
        return ""
    overrides = state.platform_overrides if is_region(state) else state.overrides
    found = overrides.get(int(name))
    return override_tenant(found) if found is not None else ""


def override_tenant(row: Any) -> str:
    """Return the tenant of an override that concerns one tenant only; empty for others."""
    effect = effect_of(row.action, row.target, row.facts)
    return effect.tenant if isinstance(effect, EmergencyQuota | PauseScheduling) else ""


def _of_breach(state: Any, row: Any) -> str:
    if is_region(state):
        kind, _, rest = row.key.partition("/")
        uid = rest.partition("/")[0]
        found = state.assignments.get(int(uid)) if kind == "assignment" and uid.isdigit() else None
        return found.tenant if found is not None else ""
    if not row.key.isdigit():
        return account_tenant(state, row.key)
    workload = state.workloads.get(int(row.key))
    return workload.meta.tenant if workload is not None else ""


def _of_assignment(state: Any, row: Any) -> str:
    assignment = state.assignments.get(row.assignment)
    return assignment.tenant if assignment is not None else ""


_OWNERS: dict[str, Callable[[Any, Any], str]] = {
    "Tenant": lambda _, row: str(row.meta.name),
    "Quota": lambda _, row: str(row.meta.name),
    "Workload": lambda _, row: str(row.meta.tenant),
    "Principal": lambda state, row: principal_tenant(state, row.meta.name),
    "Token": lambda state, row: principal_tenant(state, row.spec.principal),
    "Assignment": lambda _, row: str(row.tenant),
    "Grant": lambda state, row: account_tenant(state, row.account),
    "Override": lambda _, row: override_tenant(row),
    "Breach": _of_breach,
    "Session": lambda state, row: principal_tenant(state, row.principal),
    "Replica": _of_assignment,
    "Endpoint": _of_assignment,
    "SchedulingRequest": _of_assignment,
    "Reservation": lambda _, row: str(row.tenant),
}
