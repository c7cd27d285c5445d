"""Apply events: the only code that changes the platform's state.

It reads the event, its stamp and the rows that the event names; it never decides. It updates derived tables row by row,
with the functions that rebuild them.

Size: one function for each event.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import overrides, registry
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.objects.policies import PolicyStage, SchedulerPolicy, Validity, validity_key
from holdfast.core.platform import events as e
from holdfast.core.platform.state import evolve_assignments, evolve_objects, evolve_regions
from holdfast.core.platform.state.tables import PlatformState


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
    e.ObjectStored: evolve_objects.object_stored,
    e.ObjectRemoved: evolve_objects.object_removed,
    e.WorkloadStored: evolve_objects.workload_stored,
    e.DeletionBegun: evolve_objects.deletion_begun,
    e.FinalizersReleased: evolve_objects.finalizers_released,
    e.WorkloadsRemoved: evolve_objects.workloads_removed,
    e.TemplateStored: evolve_objects.template_stored,
    e.TemplatesForgotten: evolve_objects.templates_forgotten,
    e.TemplatesDropped: evolve_objects.templates_dropped,
    e.StatusReported: evolve_objects.status_reported,
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
