"""One object by its public name. `tables` makes names; this module parses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.resources import tables
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.policies import BUILT_IN_POLICY
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.grants import grant_key
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.queries.endpoints import is_listed
from holdfast.core.region.state.tables import RegionState


def find_row(kind: ResourceKind, state: LedgerState, name: str) -> tables.KeyedRow | None:
    """Return key and row of the object with this name (`tenant/name` if the kind is tenanted), or None."""
    if tables.ledger_of(state) not in kind.ledger:
        return None
    finder = _FINDERS.get(kind.name)
    if finder is not None:
        return finder(state, name)
    found = tables.table_of(kind, state).get(name)
    return None if found is None else (name, found)


def _by_uid(state: Any, table: str, name: str) -> tables.KeyedRow | None:
    uid = parse_revision(name)
    found = None if uid is None else state.table(table).get(uid)
    return None if found is None else (uid, found)


def _workload(state: PlatformState, name: str) -> tables.KeyedRow | None:
    """Return the workload with this name; if there is none, the newest that is being deleted."""
    uid = state.workload_names.get(name)
    if uid is not None:
        return uid, state.workloads[uid]
    tenant, _, rest = name.partition("/")
    dying = [
        (key, found)
        for key, found in state.workloads.unordered()
        if found.meta.name == rest and found.meta.tenant == tenant
    ]
    return max(dying, key=lambda pair: pair[0], default=None)


def _assignments(state: Any, tenant: str, workload: str) -> list[tuple[int, Assignment]]:
    """Return the assignments of workloads with this name, newest first; one of the workloads may be under deletion."""
    found = [
        (key, one)
        for key, one in state.assignments.unordered()
        if one.workload_name == workload and one.tenant == tenant
    ]
    return sorted(found, key=lambda pair: pair[0], reverse=True)


def _live_assignments(state: Any, tenant: str, workload: str) -> list[tuple[int, Assignment]]:
    """Return the assignments of the current workload of this name, without a scan; empty if the state has no index of
    names."""
    uid = state.workload_names.get(f"{tenant}/{workload}") if isinstance(state, PlatformState) else None
    return [(key, state.assignments[key]) for key in state.assignments_of.get(uid) or ()] if uid is not None else []


def _assignment(state: Any, name: str) -> tables.KeyedRow | None:
    tenant, _, rest = name.partition("/")
    workload, _, place = rest.rpartition("/")[0].rpartition("/")
    for look in (_live_assignments, _assignments) if workload and place else ():
        for pair in look(state, tenant, workload):
            if tables.assignment_name(pair[1]) == rest:
                return pair
    return None


def _replica(state: RegionState, name: str) -> tables.KeyedRow | None:
    tenant, _, rest = name.partition("/")
    workload, _, tail = rest.rpartition("/")[0].rpartition("/")
    number = rest.rpartition("/")[2]
    if tail != state.region.name or not (number.isascii() and number.isdigit() and len(number) < 12):
        return None
    for uid in dict.fromkeys(one.workload for _, one in _assignments(state, tenant, workload)):
        slot = state.slots.get((uid, int(number)))
        if slot is not None:
            return (uid, int(number)), slot
    return None


def _endpoint(state: RegionState, name: str) -> tables.KeyedRow | None:
    found = _replica(state, name)
    return found if found is not None and is_listed(state, found[1]) else None


def _request(state: RegionState, name: str) -> tables.KeyedRow | None:
    found = _assignment(state, name.rpartition("/")[0])
    if found is None:
        return None
    requests = state.requests.get(found[0]) or ()
    digest = name.rpartition("/")[2]
    return next(
        (((found[0], one.template), one) for one in requests if one.template[: tables.DIGEST_SHOWN] == digest), None
    )


def _grant(state: Any, name: str) -> tables.KeyedRow | None:
    region, _, account = name.partition("/")
    if isinstance(state, PlatformState):
        key, found = grant_key(region, account), state.grants.get(grant_key(region, account))
    else:
        key, found = account, state.accepted_grants.get(account) if region == state.region.name else None
    return None if found is None else (key, found)


def _policy(state: Any, name: str) -> tables.KeyedRow | None:
    """Return the policy with this revision, or the newest with this name."""
    if name == BUILT_IN_POLICY.name or parse_revision(name) == BUILT_IN_POLICY.revision:
        return BUILT_IN_POLICY.revision, BUILT_IN_POLICY
    called = [(revision, one) for revision, one in state.policies.items() if one.name == name]
    return called[-1] if called else _by_uid(state, "policies", name)


def _override(state: Any, name: str) -> tables.KeyedRow | None:
    if not name.startswith(tables.PLATFORM_PREFIX):
        return _by_uid(state, "overrides", name)
    found = (
        _by_uid(state, "platform_overrides", name.removeprefix(tables.PLATFORM_PREFIX))
        if tables.is_region(state)
        else None
    )
    return None if found is None else (name, found[1])


def _breach(state: Any, name: str) -> tables.KeyedRow | None:
    invariant, _, key = name.partition("/")
    found = state.breaches.get((invariant, key))
    return None if found is None else ((invariant, key), found)


def _session(state: Any, name: str) -> tables.KeyedRow | None:
    uid = state.session_of.get(name)
    return None if uid is None else (uid, state.sessions[uid])


def _node(state: RegionState, name: str) -> tables.KeyedRow | None:
    uid = state.node_names.get(name)
    return None if uid is None else (uid, state.nodes[uid])


_FINDERS: dict[str, Callable[[Any, str], tables.KeyedRow | None]] = {
    "Workload": _workload,
    "Assignment": _assignment,
    "Grant": _grant,
    "SchedulerPolicy": _policy,
    "Override": _override,
    "Breach": _breach,
    "Session": _session,
    "Node": _node,
    "Replica": _replica,
    "Endpoint": _endpoint,
    "SchedulingRequest": _request,
    "Reservation": lambda state, name: _by_uid(state, "holds", name),
}
