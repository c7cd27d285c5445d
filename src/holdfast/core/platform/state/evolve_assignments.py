"""Events of assignments, grants, rights and leases.

Each right of an identity is a row, written when it is granted and dropped when it is free. Since level 2, a region's
latest lease end is one row for all its rights to a workload; at level 1 each right has it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import add_to_list, put_or_drop, remove_from_list
from holdfast.core.model.records.assignments import Assignment, AssignmentStage, HeldRight
from holdfast.core.model.records.grants import charge_key, grant_key
from holdfast.core.model.values.ranges import Ranges, numbers, ranges_of, with_numbers
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import events as e
from holdfast.core.platform.state import indexes
from holdfast.core.platform.state.evolve_regions import forget_report
from holdfast.core.platform.state.lookups import held_in, latest_lease_end
from holdfast.core.platform.state.tables import PlatformState


def assignment_stored(state: PlatformState, event: e.AssignmentStored, stamp: Stamp) -> None:
    uid = event.assignment.uid or stamp.revision
    indexes.unindex_assignment(state, uid)
    if uid not in state.assignments:
        add_to_list(state.assigned_in, event.assignment.region, (event.assignment.workload, uid))
    state.assignments.put(uid, replace(event.assignment, uid=uid, revision=stamp.revision))
    indexes.index_assignment(state, uid, event.assignment)
    named = [share.template for share in event.assignment.shares]
    indexes.add_template_names(state, event.assignment.workload, event.assignment.tenant, named)
    if event.assignment.right_until and (event.assignment.ordinals or event.assignment.returning):
        record_lease(state, event.assignment)


def assignments_ended(state: PlatformState, event: e.AssignmentsEnded, stamp: Stamp) -> None:
    for one in event.assignments:
        ended = replace(state.assignments[one.assignment], stage=AssignmentStage.ENDED, shares=(), disruption=0)
        assignment_stored(state, e.AssignmentStored(ended), stamp)


def assignments_removed(state: PlatformState, event: e.AssignmentsRemoved, stamp: Stamp) -> None:
    for one in event.assignments:
        indexes.unindex_assignment(state, one.assignment)
        state.assignments.drop(one.assignment)
        remove_from_list(state.assigned_in, one.region, (one.workload, one.assignment))
        forget_report(state, one.workload, one.region)
        if one.done:
            done = Counter(dict(state.completed_before.get(one.workload) or ())) + Counter(dict(one.done))
            state.completed_before.put(one.workload, tuple(sorted(done.items())))


def grant_stored(state: PlatformState, event: e.GrantStored, stamp: Stamp) -> None:
    key = grant_key(event.grant.region, event.grant.account)
    indexes.unindex_grant(state, key)
    if key not in state.grants:
        add_to_list(state.granted_in, event.grant.region, event.grant.account)
    state.grants.put(key, replace(event.grant, uid=event.grant.uid or stamp.revision, revision=stamp.revision))
    indexes.index_offer(state, charge_key(event.grant.account, event.grant.region), event.grant.offered)


def grants_removed(state: PlatformState, event: e.GrantsRemoved, stamp: Stamp) -> None:
    for key in event.grants:
        _drop_grant(state, key)


def grants_forgotten(state: PlatformState, event: e.GrantsForgotten, stamp: Stamp) -> None:
    for key in event.grants:
        _drop_grant(state, key)
        region = key.partition("|")[0]
        state.grant_versions.put(region, max(event.version, state.grant_versions.get(region) or 0))


def _drop_grant(state: PlatformState, key: str) -> None:
    indexes.unindex_grant(state, key)
    old = state.grants.get(key)
    if old is not None:
        remove_from_list(state.granted_in, old.region, old.account)
        state.grants.drop(key)


def right_granted(state: PlatformState, event: e.RightGranted, stamp: Stamp) -> None:
    _grant_rights(state, event.workload, ((event.ordinal, event.ordinal + 1),), event.region, stamp)


def rights_granted(state: PlatformState, event: e.RightsGranted, stamp: Stamp) -> None:
    _grant_rights(state, event.workload, event.ordinals, event.region, stamp)


def _grant_rights(state: PlatformState, workload: Revision, ordinals: Ranges, region: str, stamp: Stamp) -> None:
    for ordinal in numbers(ordinals):
        state.rights.put((workload, ordinal), HeldRight(workload, ordinal, region, stamp.revision))
    indexes.index_rights(state, workload, region, come=ordinals)


def rights_released(state: PlatformState, event: e.RightsReleased, stamp: Stamp) -> None:
    gone: dict[tuple[Revision, str], list[int]] = {}
    for held in event.rights:
        state.rights.drop((held.workload, held.ordinal))
        gone.setdefault((held.workload, held.region), []).append(held.ordinal)
    for (workload, region), ordinals in gone.items():
        indexes.index_rights(state, workload, region, gone=ranges_of(ordinals))


def rights_freed(state: PlatformState, event: e.RightsFreed, stamp: Stamp) -> None:
    for ordinal in numbers(event.ordinals):
        state.rights.drop((event.workload, ordinal))
    indexes.index_rights(state, event.workload, event.region, gone=event.ordinals)
    if not held_in(state, event.workload, event.region):
        _put_lease(state, event.workload, event.region, 0)


def record_lease(state: PlatformState, assignment: Assignment) -> None:
    """Record the lease end that its region receives: on each right at level 1, on all of them since level 2."""
    workload, until = assignment.workload, assignment.right_until
    if state.info.level >= 2:
        if latest_lease_end(state, workload, assignment.region) < until:
            _put_lease(state, workload, assignment.region, until)
        return
    for ordinal in numbers(with_numbers(assignment.ordinals, assignment.returning)):
        held = state.rights[workload, ordinal]
        if held.latest_lease_end < until:
            state.rights.put((workload, ordinal), replace(held, latest_lease_end=until))


def _put_lease(state: PlatformState, workload: Revision, region: str, until: Instant) -> None:
    others = [one for one in state.leases.get(workload) or () if one[0] != region]
    left = sorted((*others, (region, until))) if until else others
    put_or_drop(state.leases, workload, tuple(left))


APPLY_RIGHTS: dict[type, Any] = {
    e.RightGranted: right_granted,
    e.RightsReleased: rights_released,
    e.RightsGranted: rights_granted,
    e.RightsFreed: rights_freed,
}
