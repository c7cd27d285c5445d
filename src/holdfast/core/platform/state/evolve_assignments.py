"""What events do to assignments, grants and rights."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.id_lists import list_one, unlist_one
from holdfast.core.model.records.assignments import Stage
from holdfast.core.model.records.grants import charge_key, grant_key
from holdfast.core.platform import events as e
from holdfast.core.platform.state.evolve_regions import forget_word
from holdfast.core.platform.state.evolve_rights import tell_lease
from holdfast.core.platform.state.indexes import (
    _name_templates,
    _unindex_assignment,
    _unindex_grant,
    index_assignment,
    index_offer,
)
from holdfast.core.platform.state.tables import PlatformState


def assignment_stored(state: PlatformState, event: e.AssignmentStored, stamp: Stamp) -> None:
    uid = event.assignment.uid or stamp.revision
    _unindex_assignment(state, uid)
    if uid not in state.assignments:
        list_one(state.assigned_in, event.assignment.region, (event.assignment.workload, uid))
    state.assignments.put(uid, replace(event.assignment, uid=uid, revision=stamp.revision))
    index_assignment(state, uid, event.assignment)
    named = [share.template for share in event.assignment.shares]
    _name_templates(state, event.assignment.workload, event.assignment.tenant, named)
    if event.assignment.right_until and (event.assignment.ordinals or event.assignment.returning):
        tell_lease(state, event.assignment)


def assignments_ended(state: PlatformState, event: e.AssignmentsEnded, stamp: Stamp) -> None:
    for one in event.assignments:
        ended = replace(state.assignments[one.assignment], stage=Stage.ENDED, shares=(), disruption=0)
        assignment_stored(state, e.AssignmentStored(ended), stamp)


def assignments_removed(state: PlatformState, event: e.AssignmentsRemoved, stamp: Stamp) -> None:
    for one in event.assignments:
        _unindex_assignment(state, one.assignment)
        state.assignments.drop(one.assignment)
        unlist_one(state.assigned_in, one.region, (one.workload, one.assignment))
        forget_word(state, one.workload, one.region)
        if one.done:
            done = Counter(dict(state.done_before.get(one.workload) or ())) + Counter(dict(one.done))
            state.done_before.put(one.workload, tuple(sorted(done.items())))


def grant_stored(state: PlatformState, event: e.GrantStored, stamp: Stamp) -> None:
    key = grant_key(event.grant.region, event.grant.account)
    _unindex_grant(state, key)
    if key not in state.grants:
        list_one(state.granted_in, event.grant.region, event.grant.account)
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
    _unindex_grant(state, key)
    old = state.grants.get(key)
    if old is not None:
        unlist_one(state.granted_in, old.region, old.account)
        state.grants.drop(key)
