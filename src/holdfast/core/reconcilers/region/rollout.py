"""Rollout: slots that run an old template are stopped carefully, and their ordinals return under the new one.

    does not serve, and will not soon ──▶ at once: it costs nothing
    serves ──▶ as many as serve beyond the requested number, once the surge serves
           ──▶ without a surge (identities, or no capacity): as many as the disruption share allows, of those whose
               end frees capacity (`rollout_candidates`); otherwise it waits, and the condition `Updated` says why

It computes the plan of the replica controller: nothing is stopped for an outdated template, and slots that end anyway
do not count as serving. The ledger checks every stop again.
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

#: Time for running or ready slots to begin to serve. After an outage all slots are in these phases; stopping them then
#: would make the outage complete.
SETTLES_MS = 30_000
_SETTLING = (Phase.RUNNING, Phase.READY)
#: Unknown slots are not stopped: the agent may return with them, or the node is fenced, which frees the ordinal.
_NEVER_SERVED = (Phase.BOUND, Phase.STARTING, Phase.FAILED)


class RolloutReconciler(PerAssignment):
    """The rollout controller, keyed by assignment uid."""

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
    """Return the serving slots to stop now: those beyond the requested number, then candidates within the share."""
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
