"""Events of assignments and grants."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.id_lists import add_to_list, remove_from_list
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.grants import charge_key, grant_key
from holdfast.core.platform import events as e
from holdfast.core.platform.state.evolve_regions import forget_report
from holdfast.core.platform.state.evolve_rights import record_lease
from holdfast.core.platform.state.indexes import (
    add_template_names,
    index_assignment,
    index_offer,
    unindex_assignment,
    unindex_grant,
)
from holdfast.core.platform.state.tables import PlatformState


def assignment_stored(state: PlatformState, event: e.AssignmentStored, stamp: Stamp) -> None:
    uid = event.assignment.uid or stamp.revision
    unindex_assignment(state, uid)
    if uid not in state.assignments:
        add_to_list(state.assigned_in, event.assignment.region, (event.assignment.workload, uid))
    state.assignments.put(uid, replace(event.assignment, uid=uid, revision=stamp.revision))
    index_assignment(state, uid, event.assignment)
    named = [share.template for share in event.assignment.shares]
    add_template_names(state, event.assignment.workload, event.assignment.tenant, named)
    if event.assignment.right_until and (event.assignment.ordinals or event.assignment.returning):
        record_lease(state, event.assignment)


def assignments_ended(state: PlatformState, event: e.AssignmentsEnded, stamp: Stamp) -> None:
    for one in event.assignments:
        ended = replace(state.assignments[one.assignment], stage=AssignmentStage.ENDED, shares=(), disruption=0)
        assignment_stored(state, e.AssignmentStored(ended), stamp)


def assignments_removed(state: PlatformState, event: e.AssignmentsRemoved, stamp: Stamp) -> None:
    for one in event.assignments:
        unindex_assignment(state, one.assignment)
        state.assignments.drop(one.assignment)
        remove_from_list(state.assigned_in, one.region, (one.workload, one.assignment))
        forget_report(state, one.workload, one.region)
        if one.done:
            done = Counter(dict(state.completed_before.get(one.workload) or ())) + Counter(dict(one.done))
            state.completed_before.put(one.workload, tuple(sorted(done.items())))


def grant_stored(state: PlatformState, event: e.GrantStored, stamp: Stamp) -> None:
    key = grant_key(event.grant.region, event.grant.account)
    unindex_grant(state, key)
    if key not in state.grants:
        add_to_list(state.granted_in, event.grant.region, event.grant.account)
    state.grants.put(key, replace(event.grant, uid=event.grant.uid or stamp.revision, revision=stamp.revision))
    index_offer(state, charge_key(event.grant.account, event.grant.region), event.grant.offered)


def grants_removed(state: PlatformState, event: e.GrantsRemoved, stamp: Stamp) -> None:
    for key in event.grants:
        _drop_grant(state, key)


def grants_forgotten(state: PlatformState, event: e.GrantsForgotten, stamp: Stamp) -> None:
    for key in event.grants:
        _drop_grant(state, key)
        region = key.partition("|")[0]
        state.grant_versions.put(region, max(event.version, state.grant_versions.get(region) or 0))


def _drop_grant(state: PlatformState, key: str) -> None:
    unindex_grant(state, key)
    old = state.grants.get(key)
    if old is not None:
        remove_from_list(state.granted_in, old.region, old.account)
        state.grants.drop(key)
