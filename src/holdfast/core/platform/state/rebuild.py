"""The platform's derived tables, built from the stored ones, for a state that was read from a snapshot."""

from __future__ import annotations

from holdfast.core.ledger.state.ledger_state import COMMON_TABLES
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.records.grants import charge_key
from holdfast.core.model.values.ranges import ranges_of
from holdfast.core.model.values.sorted_list import SortedList
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.indexes import count_use, index_assignment, index_offer, index_workload
from holdfast.core.platform.state.tables import PlatformState


def rebuild(state: PlatformState) -> None:
    """Rebuild every derived table."""
    for spec in state.TABLES:
        if spec.derived and spec not in COMMON_TABLES:
            state.set_table(spec.name, Table(spec.shards))
    for uid, workload in state.workloads.unordered():
        index_workload(state, uid, workload)
        for digest in state.templates_of.get(uid) or ():
            count_use(state, workload.meta.tenant, digest, 1)
    for uid, assignment in state.assignments.unordered():
        index_assignment(state, uid, assignment)
    for grant in state.grants.values():
        index_offer(state, charge_key(grant.account, grant.region), grant.offered)
    _rebuild_places(state)
    ordinals: dict[Revision, dict[str, list[int]]] = {}
    for (uid, ordinal), held in state.rights.unordered():
        ordinals.setdefault(uid, {}).setdefault(held.region, []).append(ordinal)
    for uid, found in ordinals.items():
        state.rights_of.put(uid, tuple((region, ranges_of(sorted(found[region]))) for region in sorted(found)))


def _rebuild_places(state: PlatformState) -> None:
    """Build the lists of each region in one pass; adding rows one by one would be slow."""
    assigned: dict[str, list[tuple[Revision, Revision]]] = {}
    for uid, assignment in state.assignments.unordered():
        assigned.setdefault(assignment.region, []).append((assignment.workload, uid))
    granted: dict[str, list[str]] = {}
    for _, grant in state.grants.unordered():
        granted.setdefault(grant.region, []).append(grant.account)
    held: dict[str, dict[Revision, None]] = {}
    for (workload, _), right in state.rights.unordered():
        held.setdefault(right.region, {})[workload] = None
        state.right_counts.put(right.region, (state.right_counts.get(right.region) or 0) + 1)
    for region, rows in assigned.items():
        state.assigned_in.put(region, SortedList(rows))
    for region, accounts in granted.items():
        state.granted_in.put(region, SortedList(accounts))
    for region, workloads in held.items():
        state.rights_in.put(region, SortedList(workloads))
