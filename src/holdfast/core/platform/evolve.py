"""What each event does: the only code that changes the platform's state.

It reads the event, its stamp and the rows that the event names; it never decides. Derived tables are kept in step
here, row by row, with the same functions that rebuild them.

Size: one function for each event.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger import house, overrides
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.lists import list_one, unlist_one
from holdfast.core.model.allotment import Stage
from holdfast.core.model.control import PolicyStage, SchedulerPolicy, Validity
from holdfast.core.model.meta import Deletion, Meta, with_condition
from holdfast.core.model.resources import NOTHING, subtract
from holdfast.core.model.shapes import Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.platform import events as e
from holdfast.core.platform.holders import APPLY_RIGHTS, tell_lease
from holdfast.core.platform.observed import APPLY_OBSERVED, forget_word
from holdfast.core.platform.state import (
    TABLE_OF,
    PlatformState,
    charge_key,
    count_use,
    emergencies_of,
    grant_key,
    index_assignment,
    index_demand,
    index_offer,
    index_pending,
    index_workload,
    name_key,
    pending,
    validity_key,
)


def _stamped(meta: Meta, stamp: Stamp) -> Meta:
    if meta.uid:
        return replace(meta, revision=stamp.revision)
    return replace(meta, uid=stamp.revision, revision=stamp.revision, created=stamp.at)


# Objects


def object_stored(state: PlatformState, event: e.ObjectStored, stamp: Stamp) -> None:
    stored = replace(event.object, meta=_stamped(event.object.meta, stamp))
    state.table(TABLE_OF[type(stored).__name__]).put(stored.meta.name, stored)


def object_removed(state: PlatformState, event: e.ObjectRemoved, stamp: Stamp) -> None:
    state.table(TABLE_OF[event.kind]).drop(event.name)
    if event.kind == "Region":
        state.grant_versions.drop(event.name)


def workload_stored(state: PlatformState, event: e.WorkloadStored, stamp: Stamp) -> None:
    stored = replace(event.workload, meta=_stamped(event.workload.meta, stamp))
    _unindex_workload(state, stored.meta.uid)
    state.workloads.put(stored.meta.uid, stored)
    index_workload(state, stored.meta.uid, stored)
    digest = template_digest(stored.spec.template)
    _name_templates(state, stored.meta.uid, stored.meta.tenant, [digest])
    known = state.templates_of[stored.meta.uid]
    if state.facts.level >= ORDERED_SINCE and known[-1] != digest:
        state.templates_of.put(stored.meta.uid, (*(one for one in known if one != digest), digest))


#: From this level on a workload's templates are in the order in which it named them; before, sorted.
ORDERED_SINCE = 2


def _name_templates(state: PlatformState, workload: Revision, tenant: str, digests: list[str]) -> None:
    known = state.templates_of.get(workload) or ()
    new = [digest for digest in digests if digest not in known]
    if new:
        named = (*known, *new)
        state.templates_of.put(workload, named if state.facts.level >= ORDERED_SINCE else tuple(sorted(named)))
        for digest in new:
            count_use(state, tenant, digest, 1)


def deletion_begun(state: PlatformState, event: e.DeletionBegun, stamp: Stamp) -> None:
    workload = state.workloads[event.workload]
    deletion = Deletion(by=stamp.actor, at=stamp.at)
    meta = replace(workload.meta, revision=stamp.revision, deletion=deletion, finalizers=event.finalizers)
    _unindex_workload(state, event.workload)
    state.workloads.put(event.workload, replace(workload, meta=meta))
    index_workload(state, event.workload, state.workloads[event.workload])


def finalizers_released(state: PlatformState, event: e.FinalizersReleased, stamp: Stamp) -> None:
    for one in event.workloads:
        workload = state.workloads[one.workload]
        left = tuple(f for f in workload.meta.finalizers if f.owner != event.owner)
        meta = replace(workload.meta, revision=stamp.revision, finalizers=left)
        state.workloads.put(one.workload, replace(workload, meta=meta))


def workloads_removed(state: PlatformState, event: e.WorkloadsRemoved, stamp: Stamp) -> None:
    for one in event.workloads:
        for digest in state.templates_of.get(one.workload) or ():
            count_use(state, one.tenant, digest, -1)
        state.templates_of.drop(one.workload)
        _unindex_workload(state, one.workload)
        state.workloads.drop(one.workload)
        state.overflows.drop(one.workload)
        state.done_before.drop(one.workload)
        state.leases.drop(one.workload)


def _unindex_workload(state: PlatformState, uid: Revision) -> None:
    old = state.workloads.get(uid)
    if old is None:
        return
    tenant, key = old.meta.tenant, name_key(old.meta.tenant, old.meta.name)
    if state.workload_names.get(key) == uid:
        state.workload_names.drop(key)
    count = (state.workload_counts.get(tenant) or 0) - 1
    if count:
        state.workload_counts.put(tenant, count)
    else:
        state.workload_counts.drop(tenant)
    index_pending(state, tenant, -pending(old))


def template_stored(state: PlatformState, event: e.TemplateStored, stamp: Stamp) -> None:
    state.templates.put(event.digest, event.template)


def templates_forgotten(state: PlatformState, event: e.TemplatesForgotten, stamp: Stamp) -> None:
    for digest in event.digests:
        state.templates.drop(digest)


def templates_dropped(state: PlatformState, event: e.TemplatesDropped, stamp: Stamp) -> None:
    """What was done of a template goes with it."""
    for digest in event.digests:
        count_use(state, event.tenant, digest, -1)
    known, done = state.templates_of[event.workload], state.done_before.get(event.workload)
    state.templates_of.put(event.workload, tuple(one for one in known if one not in event.digests))
    if done is not None:
        left = tuple(row for row in done if row[0] not in event.digests)
        if left:
            state.done_before.put(event.workload, left)
        else:
            state.done_before.drop(event.workload)


def status_reported(state: PlatformState, event: e.StatusReported, stamp: Stamp) -> None:
    """The revision stays: an edit of the spec is not stale because replicas came up meanwhile."""
    old = state.workloads[event.workload]
    conditions = old.status.conditions
    for condition in event.status.conditions:
        conditions = with_condition(conditions, condition)
    new = replace(old, status=replace(event.status, conditions=conditions))
    state.workloads.put(event.workload, new)
    index_pending(state, old.meta.tenant, pending(new) - pending(old))


# What regions are given


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


def _unindex_assignment(state: PlatformState, uid: Revision) -> None:
    old = state.assignments.get(uid)
    if old is None:
        return
    for account in emergencies_of(old):
        unlist_one(state.paid_by, account, uid)
    index_demand(state, old, -1)
    others = tuple(other for other in state.assignments_of[old.workload] if other != uid)
    if others:
        state.assignments_of.put(old.workload, others)
    else:
        state.assignments_of.drop(old.workload)


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


def _unindex_grant(state: PlatformState, key: str) -> None:
    old = state.grants.get(key)
    if old is not None:
        index_offer(state, charge_key(old.account, old.region), subtract(NOTHING, old.offered))


# Regions


def _set_region(state: PlatformState, name: str, **changes: Any) -> None:
    region = state.regions[name]
    state.regions.put(name, replace(region, status=replace(region.status, **changes)))


def region_joined(state: PlatformState, event: e.RegionJoined, stamp: Stamp) -> None:
    old = state.regions[event.region].status
    _set_region(
        state,
        event.region,
        health=event.health,
        since=old.since if event.health is old.health else stamp.at,
        log_id=event.log_id,
        position=0,
        digest="",
        cursor=0,
        heard_at=stamp.at,
        session=event.session,
        address=event.address,
        **_told_times(event),
    )


def region_rejoined(state: PlatformState, event: e.RegionRejoined, stamp: Stamp) -> None:
    said = {"session": event.session, "address": event.address, **_told_times(event)}
    _set_region(state, event.region, heard_at=stamp.at, **said)


def _told_times(event: e.RegionJoined | e.RegionRejoined) -> dict[str, Any]:
    return {"session_lease": event.session_lease, "grace": event.grace, "fence_time": event.fence_time}


def region_acknowledged(state: PlatformState, event: e.RegionAcknowledged, stamp: Stamp) -> None:
    said = {"position": event.position, "digest": event.digest, "cursor": event.cursor}
    _set_region(state, event.region, **said, heard_at=stamp.at)


def region_believed(state: PlatformState, event: e.RegionBelieved, stamp: Stamp) -> None:
    """A person's word is no sign of life: when it was heard stays."""
    _set_region(state, event.region, position=0, digest="", cursor=0)


def region_judged(state: PlatformState, event: e.RegionJudged, stamp: Stamp) -> None:
    _set_region(state, event.region, health=event.health, since=stamp.at)


def region_retired(state: PlatformState, event: e.RegionRetired, stamp: Stamp) -> None:
    tombstones = state.regions[event.region].status.tombstones
    if event.log_id:
        tombstones = (*tombstones, event.log_id)
        state.tombstones.put(event.log_id, event.region)
    state.summaries.drop(event.region)
    silent = {"log_id": "", "session": 0, "address": "", "unreleased": event.unreleased}
    _set_region(state, event.region, health=RegionHealth.RETIRED, since=stamp.at, tombstones=tombstones, **silent)


def retirement_continued(state: PlatformState, event: e.RetirementContinued, stamp: Stamp) -> None:
    _set_region(state, event.region, unreleased=event.unreleased)


# Policy


def policy_published(state: PlatformState, event: e.PolicyPublished, stamp: Stamp) -> None:
    policy = SchedulerPolicy(
        revision=stamp.revision,
        name=event.name,
        document=event.document,
        stage=PolicyStage.DRAFT,
        author=stamp.actor,
        at=stamp.at,
    )
    state.policies.put(stamp.revision, policy)


def policies_dropped(state: PlatformState, event: e.PoliciesDropped, stamp: Stamp) -> None:
    for revision in event.revisions:
        state.policies.drop(revision)


def policy_staged(state: PlatformState, event: e.PolicyStaged, stamp: Stamp) -> None:
    state.policies.put(event.revision, replace(state.policies[event.revision], stage=event.stage))


def validity_stored(state: PlatformState, event: e.ValidityStored, stamp: Stamp) -> None:
    key = validity_key(event.region, event.scope)
    state.validities.put(key, Validity(event.region, event.scope, event.revision))


def validities_dropped(state: PlatformState, event: e.ValiditiesDropped, stamp: Stamp) -> None:
    for key in event.validities:
        state.validities.drop(key)


# Promises of the second kind


def breach_stored(state: PlatformState, event: e.BreachStored, stamp: Stamp) -> None:
    state.breaches.put((event.breach.invariant, event.breach.key), event.breach)


def breach_closed(state: PlatformState, event: e.BreachClosed, stamp: Stamp) -> None:
    state.breaches.drop((event.invariant, event.key))


APPLY: dict[type, Any] = {
    **house.APPLY,
    **overrides.APPLY,
    **APPLY_OBSERVED,
    **APPLY_RIGHTS,
    e.ObjectStored: object_stored,
    e.ObjectRemoved: object_removed,
    e.WorkloadStored: workload_stored,
    e.DeletionBegun: deletion_begun,
    e.FinalizersReleased: finalizers_released,
    e.WorkloadsRemoved: workloads_removed,
    e.TemplateStored: template_stored,
    e.TemplatesForgotten: templates_forgotten,
    e.TemplatesDropped: templates_dropped,
    e.StatusReported: status_reported,
    e.AssignmentStored: assignment_stored,
    e.AssignmentsEnded: assignments_ended,
    e.AssignmentsRemoved: assignments_removed,
    e.GrantStored: grant_stored,
    e.GrantsRemoved: grants_removed,
    e.GrantsForgotten: grants_forgotten,
    e.RegionJoined: region_joined,
    e.RegionRejoined: region_rejoined,
    e.RegionAcknowledged: region_acknowledged,
    e.RegionBelieved: region_believed,
    e.RegionJudged: region_judged,
    e.RegionRetired: region_retired,
    e.RetirementContinued: retirement_continued,
    e.PolicyPublished: policy_published,
    e.PoliciesDropped: policies_dropped,
    e.PolicyStaged: policy_staged,
    e.ValidityStored: validity_stored,
    e.ValiditiesDropped: validities_dropped,
    e.BreachStored: breach_stored,
    e.BreachClosed: breach_closed,
}
