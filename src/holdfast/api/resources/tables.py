"""The rows of a ledger's state that are objects of a kind, their public names, and the tenant that may see each.

Most objects have a name of their own. The others are named by their parts: an assignment `workload/region/purpose`, a
replica and its endpoint `workload/region/ordinal`, a grant `region/account`, a session its principal, the rest their
uid. Revisions of a policy share its name and are also found by revision. Objects of a tenant are found under it:
`tenant/name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.api.kinds import ResourceKind
from holdfast.core.ledger.revision import format_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.objects.override_effects import EmergencyQuota, PauseScheduling, effect_of
from holdfast.core.model.objects.policies import BUILT_IN_POLICY
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.queries.endpoints import is_listed
from holdfast.core.region.state.tables import RegionState

KeyedRow = tuple[Any, Any]

#: By ledger and kind: the table, where it does not have the plural of the kind.
_TABLES = {
    "platform": {"PriorityClass": "priority_classes", "NodePool": "pools", "RecoveryBudget": "budgets"},
    "region": {
        "PriorityClass": "classes", "Grant": "allowances", "Replica": "slots", "Endpoint": "slots",
        "Reservation": "holds",
    },
}  # fmt: skip
#: Characters of a template's digest that tell the few templates of one assignment apart.
DIGEST_SHOWN = 12
#: Prefix of the uid of a platform override, where a region shows it with its own.
PLATFORM_PREFIX = "platform/"

V = TypeVar("V", bound=Struct)


def view_from(view: type[V], row: Any, **others: Any) -> V:
    """Return a part of a document with the row's fields of the same name, except `others`."""
    own = {name: getattr(row, name) for name in view.__struct_fields__ if name not in others}
    return view(**own, **others)


def is_region(state: LedgerState) -> bool:
    """Whether the state is a region's, not the platform's."""
    return isinstance(state, RegionState)


def ledger_of(state: LedgerState) -> str:
    """Return the kind of ledger of this state: `platform` or `region`."""
    return "region" if is_region(state) else "platform"


def table_of(kind: ResourceKind, state: LedgerState) -> Table[Any, Any]:
    return state.table(_TABLES[ledger_of(state)].get(kind.name, kind.plural))


def iter_rows(kind: ResourceKind, state: LedgerState) -> Iterable[KeyedRow]:
    """Return every object of the kind as (key, row), sorted by key; none if this ledger does not have the kind."""
    if ledger_of(state) not in kind.ledger:
        return []
    found = table_of(kind, state).items()
    if kind.name == "SchedulerPolicy":
        return [(BUILT_IN_POLICY.revision, BUILT_IN_POLICY), *found]
    if kind.name == "Override" and isinstance(state, RegionState):
        return [
            *found,
            *((f"{PLATFORM_PREFIX}{format_revision(uid)}", row) for uid, row in state.platform_overrides.items()),
        ]
    if kind.name == "SchedulingRequest":
        return [((uid, request.template), request) for uid, requests in found for request in requests]
    if kind.name == "Endpoint" and isinstance(state, RegionState):
        return [(key, slot) for key, slot in found if is_listed(state, slot)]
    return found


def iter_rows_unordered(kind: ResourceKind, state: LedgerState) -> Iterator[KeyedRow]:
    """Yield every object of a kind with many objects as (key, row), in no order."""
    assert kind.name not in ("SchedulerPolicy", "Override"), f"{kind.plural} are few, and come from several tables"
    for key, row in table_of(kind, state).unordered():
        if kind.name == "SchedulingRequest":
            for request in row:
                yield (key, request.template), request
        elif kind.name != "Endpoint" or (isinstance(state, RegionState) and is_listed(state, row)):
            yield key, row


def name_of(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> str:
    """Return the public name of the object, without its tenant."""
    name = _NAMES.get(kind.name)
    return str(row.meta.name) if name is None else name(state, key, row)


def has_name(kind: ResourceKind, state: LedgerState, key: Any, row: Any, name: str) -> bool:
    """Whether the object has this name; a policy may be named by its revision."""
    return name == name_of(kind, state, key, row) or (
        kind.name == "SchedulerPolicy" and name == format_revision(row.revision)
    )


def assignment_name(assignment: Assignment) -> str:
    """Return `workload/region/purpose`."""
    return f"{assignment.workload_name}/{assignment.region}/{assignment.purpose.value}"


def replica_name(state: Any, workload_name: str, ordinal: int) -> str:
    """Return `workload/region/ordinal`."""
    return f"{workload_name}/{state.region.name}/{ordinal}"


def _request_name(state: Any, key: Any, row: Any) -> str:
    return f"{assignment_name(state.assignments[row.assignment])}/{row.template[:DIGEST_SHOWN]}"


def _grant_name(state: Any, key: Any, row: Any) -> str:
    return f"{state.region.name if is_region(state) else row.region}/{row.account}"


def _slot_name(state: Any, _key: Any, row: Any) -> str:
    return replica_name(state, state.assignments[row.assignment].workload_name, row.ordinal)


_NAMES: dict[str, Callable[[Any, Any, Any], str]] = {
    "Assignment": lambda _state, _key, row: assignment_name(row),
    "Grant": _grant_name,
    "SchedulerPolicy": lambda _state, _key, row: str(row.name),
    "Override": lambda _state, key, row: key if isinstance(key, str) else format_revision(row.uid),
    "Breach": lambda _state, _key, row: f"{row.invariant}/{row.key}",
    "Session": lambda _state, _key, row: str(row.principal),
    "Node": lambda _state, _key, row: str(row.name),
    "Replica": _slot_name,
    "Endpoint": _slot_name,
    "SchedulingRequest": _request_name,
    "Reservation": lambda _state, _key, row: format_revision(row.uid),
}


def labels_of(state: Any, row: Any) -> Mapping[str, str]:
    """Return the labels that selectors match. Replicas and endpoints have none of their own: theirs are the workload,
    the phase, the node and the zone."""
    if isinstance(row, Slot):
        node = state.nodes.get(row.node)
        where = {"node": node.name, "zone": node.zone} if node is not None else {}
        return {"workload": state.assignments[row.assignment].workload_name, "phase": row.phase.value, **where}
    meta = getattr(row, "meta", None)
    if meta is not None:
        return dict(meta.labels)
    return {**dict(getattr(row, "reported_labels", ())), **dict(getattr(row, "labels", ()))}


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
