"""Whose an object is: the tenant that may see it besides those who may see all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.documents.kinds import Kind
from holdfast.api.documents.rows import is_region
from holdfast.core.ledger.state import LedgerState
from holdfast.core.model.control import OF_TENANTS


def tenant_of(kind: Kind, state: LedgerState, key: Any, row: Any) -> str:
    """The name of the tenant whose object it is; empty where it is nobody's or everybody's."""
    owner = _OWNERS.get(kind.name)
    return "" if owner is None else owner(state, row)


def _of_principal(state: LedgerState, name: str) -> str:
    """A tenant's own principal, or one whose scope is a tenant."""
    kind, _, tenant = name.partition("/")
    if kind == "tenant":
        return tenant
    principal = state.principals.get(name)
    return principal.spec.scope.tenant if principal is not None else ""


def _of_account(account: str) -> str:
    kind, _, tenant = account.partition("/")
    return tenant.partition("/")[0] if kind == "quota" else ""


def _of_override(state: Any, row: Any) -> str:
    """An override is a tenant's when it is about that tenant alone."""
    return str(row.target) if row.action in OF_TENANTS else ""


def _of_breach(state: Any, row: Any) -> str:
    if is_region(state):
        kind, _, rest = row.key.partition("/")
        uid = rest.partition("/")[0]
        found = state.assignments.get(int(uid)) if kind == "assignment" and uid.isdigit() else None
        return found.tenant if found is not None else ""
    if not row.key.isdigit():
        return _of_account(row.key)
    workload = state.workloads.get(int(row.key))
    return workload.meta.tenant if workload is not None else ""


def _of_assignment(state: Any, row: Any) -> str:
    assignment = state.assignments.get(row.assignment)
    return assignment.tenant if assignment is not None else ""


_OWNERS: dict[str, Callable[[Any, Any], str]] = {
    "Tenant": lambda _, row: str(row.meta.name),
    "Quota": lambda _, row: str(row.meta.name),
    "Workload": lambda _, row: str(row.meta.tenant),
    "Principal": lambda state, row: _of_principal(state, row.meta.name),
    "Token": lambda state, row: _of_principal(state, row.spec.principal),
    "Assignment": lambda _, row: str(row.tenant),
    "Grant": lambda _, row: _of_account(row.account),
    "Override": _of_override,
    "Breach": _of_breach,
    "Session": lambda state, row: _of_principal(state, row.principal),
    "Replica": _of_assignment,
    "Endpoint": _of_assignment,
    "SchedulingRequest": _of_assignment,
    "Reservation": lambda _, row: str(row.tenant),
}
