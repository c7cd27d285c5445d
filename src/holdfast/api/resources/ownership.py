"""Whose an object is: the tenant that may see it besides those who may see all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources.tables import is_region
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.override_effects import EmergencyQuota, PauseScheduling, effect_of


def tenant_of(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> str:
    """The name of the tenant whose object it is; empty where it is nobody's or everybody's."""
    owner = _OWNERS.get(kind.name)
    return "" if owner is None else owner(state, row)


def principal_tenant(state: LedgerState, name: str) -> str:
    """The tenant of a principal: it is that tenant's own, or its scope is one."""
    kind, _, tenant = name.partition("/")
    if kind == "tenant":
        return tenant
    principal = state.principals.get(name)
    return principal.spec.scope.tenant if principal is not None else ""


def account_tenant(state: Any, account: str) -> str:
    """The tenant whose account it is; an emergency's is that of whom the override helps, as long as that is known."""
    kind, _, name = account.partition("/")
    if kind in ("quota", "reclaimable"):
        return name.partition("/")[0]
    if kind != "emergency" or not name.isdigit():
        return ""
    overrides = state.platform_overrides if is_region(state) else state.overrides
    found = overrides.get(int(name))
    return override_tenant(found) if found is not None else ""


def override_tenant(row: Any) -> str:
    """An override is a tenant's when it is about that tenant alone."""
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
