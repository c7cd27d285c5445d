"""Apply events: the only code that changes the platform's state.

It reads the event, its stamp and the rows that the event names; it never decides. It updates derived tables row by row,
with the functions that rebuild them.

Size: one function for each event.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import overrides, registry
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import add_count, put_or_drop
from holdfast.core.model.objects.policies import PolicyStage, SchedulerPolicy, Validity, validity_key
from holdfast.core.model.values.conditions import with_condition
from holdfast.core.model.values.metadata import Deletion, Meta
from holdfast.core.platform import events as e
from holdfast.core.platform.state import evolve_assignments, evolve_regions, indexes
from holdfast.core.platform.state.tables import TABLE_OF, PlatformState


def _stamped(meta: Meta, stamp: Stamp) -> Meta:
    if meta.uid:
        return replace(meta, revision=stamp.revision)
    return replace(meta, uid=stamp.revision, revision=stamp.revision, created=stamp.at)


def object_stored(state: PlatformState, event: e.ObjectStored, stamp: Stamp) -> None:
    stored = replace(event.object, meta=_stamped(event.object.meta, stamp))
    state.table(TABLE_OF[type(stored).__name__]).put(stored.meta.name, stored)


def object_removed(state: PlatformState, event: e.ObjectRemoved, stamp: Stamp) -> None:
    state.table(TABLE_OF[event.kind]).drop(event.name)
    if event.kind == "Region":
        state.grant_versions.drop(event.name)
    if event.kind == "Tenant":
        state.usage_windows.drop(event.name)


def workload_stored(state: PlatformState, event: e.WorkloadStored, stamp: Stamp) -> None:
    stored = replace(event.workload, meta=_stamped(event.workload.meta, stamp))
    indexes.unindex_workload(state, stored.meta.uid)
    state.workloads.put(stored.meta.uid, stored)
    indexes.index_workload(state, stored.meta.uid, stored)
    digest = template_digest(stored.spec.template)
    indexes.add_template_names(state, stored.meta.uid, stored.meta.tenant, [digest])
    known = state.templates_of[stored.meta.uid]
    if state.info.level >= indexes.ORDERED_SINCE and known[-1] != digest:
        state.templates_of.put(stored.meta.uid, (*(one for one in known if one != digest), digest))


def deletion_begun(state: PlatformState, event: e.DeletionBegun, stamp: Stamp) -> None:
    workload = state.workloads[event.workload]
    deletion = Deletion(by=stamp.actor, at=stamp.at)
    meta = replace(workload.meta, revision=stamp.revision, deletion=deletion, finalizers=event.finalizers)
    indexes.unindex_workload(state, event.workload)
    state.workloads.put(event.workload, replace(workload, meta=meta))
    indexes.index_workload(state, event.workload, state.workloads[event.workload])


def finalizers_released(state: PlatformState, event: e.FinalizersReleased, stamp: Stamp) -> None:
    for one in event.workloads:
        workload = state.workloads[one.workload]
        left = tuple(f for f in workload.meta.finalizers if f.owner != event.owner)
        meta = replace(workload.meta, revision=stamp.revision, finalizers=left)
        state.workloads.put(one.workload, replace(workload, meta=meta))


def workloads_removed(state: PlatformState, event: e.WorkloadsRemoved, stamp: Stamp) -> None:
    for one in event.workloads:
        for digest in state.templates_of.get(one.workload) or ():
            indexes.count_use(state, one.tenant, digest, -1)
        state.templates_of.drop(one.workload)
        indexes.unindex_workload(state, one.workload)
        state.workloads.drop(one.workload)
        state.overflows.drop(one.workload)
        state.completed_before.drop(one.workload)
        state.leases.drop(one.workload)


def template_stored(state: PlatformState, event: e.TemplateStored, stamp: Stamp) -> None:
    state.templates.put(event.digest, event.template)


def templates_forgotten(state: PlatformState, event: e.TemplatesForgotten, stamp: Stamp) -> None:
    for digest in event.digests:
        state.templates.drop(digest)


def templates_dropped(state: PlatformState, event: e.TemplatesDropped, stamp: Stamp) -> None:
    """Drop templates of a workload, with their done counts."""
    for digest in event.digests:
        indexes.count_use(state, event.tenant, digest, -1)
    known, done = state.templates_of[event.workload], state.completed_before.get(event.workload)
    state.templates_of.put(event.workload, tuple(one for one in known if one not in event.digests))
    if done is not None:
        left = tuple(row for row in done if row[0] not in event.digests)
        put_or_drop(state.completed_before, event.workload, left)


def status_reported(state: PlatformState, event: e.StatusReported, stamp: Stamp) -> None:
    """Store a status under the old revision: progress of replicas must not make an edit of the spec stale."""
    old = state.workloads[event.workload]
    conditions = old.status.conditions
    for condition in event.status.conditions:
        conditions = with_condition(conditions, condition)
    new = replace(old, status=replace(event.status, conditions=conditions))
    state.workloads.put(event.workload, new)
    add_count(state.pending_of, old.meta.tenant, indexes.pending(new) - indexes.pending(old))


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


def breach_stored(state: PlatformState, event: e.BreachStored, stamp: Stamp) -> None:
    state.breaches.put((event.breach.invariant, event.breach.key), event.breach)


def breach_closed(state: PlatformState, event: e.BreachClosed, stamp: Stamp) -> None:
    state.breaches.drop((event.invariant, event.key))


APPLY: dict[type, Any] = {
    **registry.APPLY,
    **overrides.APPLY,
    **evolve_regions.APPLY_OBSERVED,
    **evolve_assignments.APPLY_RIGHTS,
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
    e.AssignmentStored: evolve_assignments.assignment_stored,
    e.AssignmentsEnded: evolve_assignments.assignments_ended,
    e.AssignmentsRemoved: evolve_assignments.assignments_removed,
    e.GrantStored: evolve_assignments.grant_stored,
    e.GrantsRemoved: evolve_assignments.grants_removed,
    e.GrantsForgotten: evolve_assignments.grants_forgotten,
    e.RegionJoined: evolve_regions.region_joined,
    e.RegionRejoined: evolve_regions.region_rejoined,
    e.RegionAcknowledged: evolve_regions.region_acknowledged,
    e.RegionBelieved: evolve_regions.region_believed,
    e.RegionJudged: evolve_regions.region_judged,
    e.RegionRetired: evolve_regions.region_retired,
    e.RetirementContinued: evolve_regions.retirement_continued,
    e.PolicyPublished: policy_published,
    e.PoliciesDropped: policies_dropped,
    e.PolicyStaged: policy_staged,
    e.ValidityStored: validity_stored,
    e.ValiditiesDropped: validities_dropped,
    e.BreachStored: breach_stored,
    e.BreachClosed: breach_closed,
}
