"""Which rows of a ledger's state are the objects of a kind, and by which names people find them.

Most names are the objects' own. Rows without one are named by what they are: an assignment `workload/region/purpose`,
a replica and its endpoint `workload/region/ordinal`, a grant `region/account`, a session its principal, the others
their uid. Revisions of a policy share its name, and are called by their revisions too. Objects of a tenant are found
under it: `tenant/name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.core.ledger.revision import format_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.objects.policies import BUILT_IN_POLICY
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.queries.endpoints import is_listed
from holdfast.core.region.state.tables import RegionState

KeyedRow = tuple[Any, Any]

_PLATFORM_TABLES = {
    "Tenant": "tenants",
    "Quota": "quotas",
    "PriorityClass": "priority_classes",
    "Principal": "principals",
    "Token": "tokens",
    "Region": "regions",
    "NodePool": "pools",
    "RecoveryBudget": "budgets",
    "Workload": "workloads",
    "Assignment": "assignments",
    "Grant": "grants",
    "SchedulerPolicy": "policies",
    "Override": "overrides",
    "Breach": "breaches",
    "Session": "sessions",
}
_REGION_TABLES = {
    "PriorityClass": "classes",
    "Principal": "principals",
    "Token": "tokens",
    "Assignment": "assignments",
    "Grant": "allowances",
    "SchedulerPolicy": "policies",
    "Override": "overrides",
    "Breach": "breaches",
    "Session": "sessions",
    "Node": "nodes",
    "Replica": "slots",
    "Endpoint": "slots",
    "SchedulingRequest": "requests",
    "Reservation": "holds",
}
#: So much of a template's digest tells the few templates of one assignment apart.
DIGEST_SHOWN = 12
#: Before the uid of an override that the platform opened, where a region shows it beside its own.
PLATFORM_PREFIX = "platform/"


def is_region(state: LedgerState) -> bool:
    """Whether it is a region's state, and not the platform's."""
    return isinstance(state, RegionState)


def ledger_of(state: LedgerState) -> str:
    """Whose state it is, in the words of the table of kinds."""
    return "region" if is_region(state) else "platform"


def table_of(kind: ResourceKind, state: LedgerState) -> Table[Any, Any]:
    """The table that holds the kind in this ledger."""
    return state.table((_REGION_TABLES if is_region(state) else _PLATFORM_TABLES)[kind.name])


def iter_rows(kind: ResourceKind, state: LedgerState) -> Iterable[KeyedRow]:
    """Every object of the kind, as (key, row), sorted by key; none where this ledger has no such kind."""
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
    """Every object of a kind of which there may be very many, as (key, row), in no order."""
    assert kind.name not in ("SchedulerPolicy", "Override"), f"{kind.plural} are few, and not all of one table"
    for key, row in table_of(kind, state).unordered():
        if kind.name == "SchedulingRequest":
            for request in row:
                yield (key, request.template), request
        elif kind.name != "Endpoint" or (isinstance(state, RegionState) and is_listed(state, row)):
            yield key, row


def name_of(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> str:
    """What people call the object, without its tenant."""
    name = _NAMES.get(kind.name)
    return str(row.meta.name) if name is None else name(state, key, row)


def has_name(kind: ResourceKind, state: LedgerState, key: Any, row: Any, name: str) -> bool:
    """Whether people call the object so."""
    return name == name_of(kind, state, key, row) or (
        kind.name == "SchedulerPolicy" and name == format_revision(row.revision)
    )


def assignment_name(assignment: Assignment) -> str:
    """`workload/region/purpose`."""
    return f"{assignment.workload_name}/{assignment.region}/{assignment.purpose.value}"


def replica_name(state: Any, workload_name: str, ordinal: int) -> str:
    """`workload/region/ordinal`."""
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
    """The labels that selectors look at. Replicas and endpoints have none of their own: they are chosen by what they
    are."""
    if isinstance(row, Slot):
        node = state.nodes.get(row.node)
        where = {"node": node.name, "zone": node.zone} if node is not None else {}
        return {"workload": state.assignments[row.assignment].workload_name, "phase": row.phase.value, **where}
    meta = getattr(row, "meta", None)
    if meta is not None:
        return dict(meta.labels)
    return {**dict(getattr(row, "reported_labels", ())), **dict(getattr(row, "labels", ()))}
