"""Rights: runs of a leased right end with it (RULES 6).

The platform gives a leased right to another region after the lease, the fence and a margin. It cannot reach a region
without connection, so the region stops the runs by its own time. After a change of leader it does so soon, unless it
receives a new lease (see `core.region.queries.assignments`).
"""

from __future__ import annotations

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, chunked
from holdfast.core.model.records.lifecycle import STOPPABLE
from holdfast.core.model.values.bitsets import each, union
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerAssignment
from holdfast.core.reconcilers.region.slot_groups import slot_groups
from holdfast.core.region.commands import Stop
from holdfast.core.region.queries.assignments import has_lapsed, may_run_until
from holdfast.core.region.state.tables import RegionState


class RightsReconciler(PerAssignment):
    """The rights controller, keyed by assignment uid."""

    name = "rights"

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NO_CHANGES
        if not has_lapsed(state, assignment, now):
            return ReconcileResult((), may_run_until(state, assignment))
        kinds = slot_groups(state, assignment).items()
        running = each(union(ordinals for kind, ordinals in kinds if kind.phase in STOPPABLE))
        slots = [(assignment.workload, ordinal) for ordinal in running]
        stops = [Stop(chunk, "right-lapsed") for chunk in chunked(slots)]
        return ReconcileResult(tuple(ProposedCommand(stop, assignment.revision) for stop in stops))
