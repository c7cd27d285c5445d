"""Overrides end: by ledger time an override has no effect after its end, and here the end is recorded.

The end only returns authority: the owner of what was prevented decides what happens then (RULES 19).
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.values.structs import Instant


class OverrideReconciler:
    """The override controller, keyed by override uid."""

    name = "override"
    watches: tuple[str, ...] = ("override",)

    def keys(self, state: LedgerState) -> Iterable[ReconcileKey]:
        return state.overrides.keys()

    def wake(self, state: LedgerState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]

    def reconcile(self, state: LedgerState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        override = state.overrides.get(key)  # type: ignore[arg-type]
        if override is None:
            return NO_CHANGES
        if now < override.ends:
            return ReconcileResult((), override.ends)
        return ReconcileResult((ProposedCommand(EndOverride(override.uid, "its end has passed"), override.uid),))
