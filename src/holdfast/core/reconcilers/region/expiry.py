"""Ends that a region enforces without a connection: of emergency quotas and of leased rights (RULES 6).

Slots that an emergency quota pays for in a region end with it.

    emergency ends ──▶ runs are stopped (`grant-ended`), and their charge is returned ──▶ their ordinals wait
                   ──▶ waiting slots with its charge are withdrawn and opened again, by `replica`

Every other charge outlives its grant (RULES 7). An emergency borrows from all tenants for a time; its end is absolute,
and a region without connection enforces it, too.

Runs of a leased right end with it. The platform gives a leased right to another region after the lease, the fence and a
margin. It cannot reach a region without connection, so the region stops the runs by its own time. After a change of
leader it does so soon, unless it receives a new lease (see `core.region.queries.assignments`).
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import (
    EVERYTHING,
    NO_CHANGES,
    ProposedCommand,
    ReconcileKey,
    ReconcileResult,
    WatchKey,
    chunked,
)
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.values.bitsets import each, union
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerAssignment
from holdfast.core.reconcilers.region.slot_groups import slot_groups
from holdfast.core.region.commands import Stop
from holdfast.core.region.queries.accounts import has_emergencies, is_emergency, paid_until
from holdfast.core.region.queries.assignments import has_lapsed, may_run_until
from holdfast.core.region.state.slot_kinds import kinds_in
from holdfast.core.region.state.tables import RegionState


class EmergencyQuotaReconciler(PerAssignment):
    """The emergency quota controller, keyed by assignment uid. All are reconciled when an emergency's grant changes."""

    name = "grant"
    watches: tuple[str, ...] = (*PerAssignment.watches, "grant")

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        if touched[0] != "grant":
            return super().wake(state, touched)
        return EVERYTHING if is_emergency(str(touched[1])) else []

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None or not has_emergencies(state):
            return NO_CHANGES
        kinds = [(Phase(kind[0]), kind[3], ordinals) for kind, ordinals in kinds_in(state, assignment.uid).items()]
        paid = [(ordinals, paid_until(state, account)) for phase, account, ordinals in kinds if phase in STOPPABLE]
        ends = [(ordinals, until) for ordinals, until in paid if until is not None]
        due = each(union(ordinals for ordinals, until in ends if until <= now))
        stops = [Stop(chunk, "grant-ended") for chunk in chunked([(assignment.workload, ordinal) for ordinal in due])]
        again = min((until for _, until in ends if until > now), default=None)
        return ReconcileResult(tuple(ProposedCommand(stop, assignment.revision) for stop in stops), again)


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
