"""Rollout: what runs an old template is stopped, and its ordinal comes back under the new one. With care.

    does not serve, and will not soon ──▶ at once: it costs nothing
    serves ──▶ as many as serve beyond the wanted number, once the surge does
           ──▶ where no surge can help (identities, or no room for it): as many as the disruption share leaves;
               without a share it waits, and the workload's condition `Updated` says what for

What the replica controller wants is computed here too, so that nothing is stopped for a template that is over already,
and what goes anyway is not counted among what serves. The ledger's gate judges every stop once more.
"""

from __future__ import annotations

from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.core.model.shapes import Instant
from holdfast.core.reconcilers.assigned import OfAssignments, in_chunks
from holdfast.core.reconcilers.wanted import Plan, asked, plan
from holdfast.core.region.commands import Stop
from holdfast.core.region.state import RegionState

#: For so long what runs or is ready is left to come to serve. When agents come back after an outage, all they have kept
#: runs before it serves again: to stop it then would make the outage whole.
SETTLES_MS = 30_000
_SETTLING = (Phase.RUNNING, Phase.READY)
#: What is unknown is not stopped here: its agent comes back with it, or its node is fenced and the ordinal is free.
_NEVER_SERVED = (Phase.BOUND, Phase.STARTING, Phase.FAILED)


class Rollout(OfAssignments):
    """Looks at one assignment at a time, by uid."""

    name = "rollout"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NOTHING
        found = plan(state, assignment, now)
        old = [slot for slot in found.old if slot.next_template == found.templates[slot.ordinal]]
        free = [slot for slot in old if _costs_nothing(slot, now)]
        serving = [slot for slot in old if slot.phase is Phase.SERVING]
        stopped = [*free, *serving[: _may_stop(state, assignment, found)]]
        stops = [Stop(chunk, "rollout") for chunk in in_chunks([(s.workload, s.ordinal) for s in stopped])]
        settled = [slot.since + SETTLES_MS for slot in old if slot.phase in _SETTLING]
        again = min((at for at in settled if at > now), default=None)
        return Outcome(tuple(Wanted(stop, assignment.revision) for stop in stops), again)


def _costs_nothing(slot: Slot, now: Instant) -> bool:
    return slot.phase in _NEVER_SERVED or (slot.phase in _SETTLING and slot.since + SETTLES_MS <= now)


def _may_stop(state: RegionState, assignment: Assignment, found: Plan) -> int:
    """How many that serve may go now."""
    serving = sum(_serves(state.slots.get((assignment.workload, ordinal))) for ordinal in found.templates)
    beyond = serving - asked(assignment)
    if assignment.exclusive or _waits_for_room(state, assignment):
        beyond += assignment.disruption
    return max(0, beyond)


def _serves(slot: Slot | None) -> bool:
    return slot is not None and slot.phase is Phase.SERVING


def _waits_for_room(state: RegionState, assignment: Assignment) -> bool:
    """Whether slots of a template that is asked for could not be placed, as far as the scheduler has said."""
    wanted = [share.template for share in assignment.shares if share.count]
    requests = state.requests.get(assignment.uid) or ()
    return any(request.reasons and request.template in wanted for request in requests)
