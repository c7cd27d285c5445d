"""Emergencies: slots that an emergency quota pays for in a region end with it.

    emergency ends ──▶ runs are stopped (`grant-ended`), and their charge is returned ──▶ their ordinals wait
                   ──▶ waiting slots with its charge are withdrawn and opened again, by `replica`

Every other charge outlives its grant (RULES 7). An emergency borrows from all tenants for a time; its end is absolute,
and a region without connection enforces it, too.
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
from holdfast.core.region.commands import Stop
from holdfast.core.region.queries.accounts import has_emergencies, is_emergency, paid_until
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
