"""Rollout: what runs an old template is stopped, and its ordinal comes back under the new one. With care.

    does not serve, and will not soon ──▶ at once: it costs nothing
    serves ──▶ as many as serve beyond the wanted number, once the surge does
           ──▶ where no surge can help (identities, or no room for it): as many as the disruption share leaves,
               of those whose end makes room (`rollout_candidates`); without a share, or where no end of theirs does, it
               waits, and the workload's condition `Updated` says what for

What the replica controller wants is computed here too, so that nothing is stopped for a template that is over already,
and what goes anyway is not counted among what serves. The ledger's gate judges every stop once more.
"""

from __future__ import annotations

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, chunked
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.bitsets import as_ranges, count, each, union
from holdfast.core.model.values.ranges import Ranges, first_of, numbers, ranges_of, with_numbers, without
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerAssignment
from holdfast.core.reconcilers.region.replica_plan import ReplicaPlan, StayingSlots, replica_plan, replicas_asked
from holdfast.core.reconcilers.region.rollout_candidates import rollout_candidates
from holdfast.core.region.commands import Stop
from holdfast.core.region.state.tables import RegionState

#: For so long what runs or is ready is left to come to serve. When agents come back after an outage, all they have kept
#: runs before it serves again: to stop it then would make the outage whole.
SETTLES_MS = 30_000
_SETTLING = (Phase.RUNNING, Phase.READY)
#: What is unknown is not stopped here: its agent comes back with it, or its node is fenced and the ordinal is free.
_NEVER_SERVED = (Phase.BOUND, Phase.STARTING, Phase.FAILED)


class RolloutReconciler(PerAssignment):
    """Looks at one assignment at a time, by uid."""

    name = "rollout"

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NO_CHANGES
        found = replica_plan(state, assignment, now)
        old = [one for one in found.old if one.kind.next_template == one.template]
        settling = [slot for one in old if one.kind.phase in _SETTLING for slot in _slots(state, assignment, one)]
        free = [as_ranges(one.ordinals) for one in old if one.kind.phase in _NEVER_SERVED]
        free.append(ranges_of(slot.ordinal for slot in settling if slot.since + SETTLES_MS <= now))
        serving = as_ranges(union(one.ordinals for one in old if one.kind.phase is Phase.SERVING))
        stopped = _to_stop(state, assignment, found, serving, now) if serving else ()
        ordinals = (*numbers(ranges_of(run for runs in free for run in runs)), *numbers(stopped))
        stops = [Stop(chunk, "rollout") for chunk in chunked([(assignment.workload, n) for n in ordinals])]
        again = min((slot.since + SETTLES_MS for slot in settling if slot.since + SETTLES_MS > now), default=None)
        return ReconcileResult(
            tuple(ProposedCommand(stop, assignment.revision, expect=assignment.revision) for stop in stops), again
        )


def _slots(state: RegionState, assignment: Assignment, some: StayingSlots) -> list[Slot]:
    return state.slots.find((assignment.workload, ordinal) for ordinal in each(some.ordinals))


def _to_stop(state: RegionState, assignment: Assignment, found: ReplicaPlan, old: Ranges, now: Instant) -> Ranges:
    """Which of those that serve go now: what serves beyond the wanted number, then by the share who makes room."""
    serving = sum(count(one.ordinals) for one in found.staying if one.kind.phase is Phase.SERVING)
    beyond = serving - replicas_asked(assignment)
    if assignment.exclusive:
        return first_of(old, max(0, beyond + assignment.disruption))
    spare = first_of(old, max(0, beyond))
    share = assignment.disruption + min(0, beyond)
    return (
        with_numbers(spare, rollout_candidates(state, assignment, without(old, spare), share, now))
        if share > 0
        else spare
    )
