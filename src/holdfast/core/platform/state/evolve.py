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
from holdfast.core.platform.state.evolve_assignments import (
    APPLY_RIGHTS,
    assignment_stored,
    assignments_ended,
    assignments_removed,
    grant_stored,
    grants_forgotten,
    grants_removed,
)
from holdfast.core.platform.state.evolve_objects import (
    deletion_begun,
    finalizers_released,
    object_removed,
    object_stored,
    status_reported,
    template_stored,
    templates_dropped,
    templates_forgotten,
    workload_stored,
    workloads_removed,
)
from holdfast.core.platform.state.evolve_regions import (
    APPLY_OBSERVED,
    region_acknowledged,
    region_believed,
    region_joined,
    region_judged,
    region_rejoined,
    region_retired,
    retirement_continued,
)
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
