"""Retirement: what a retired region held is released, part after part, until it holds nothing (RULES 8).

The operator's attestation came with the tombstone. Each part changes the region, which triggers the next one.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import ReleaseRetired
from holdfast.core.platform.state.tables import PlatformState


class RetirementReconciler:
    """The retirement controller, keyed by region name."""

    name = "retirement"
    watches: tuple[str, ...] = ("region",)

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return [name for name, _ in state.regions.items()]

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        region = state.regions.get(key)  # type: ignore[arg-type]
        if region is None or not region.status.unreleased:
            return NO_CHANGES
        return ReconcileResult((ProposedCommand(ReleaseRetired(region.meta.name), region.meta.revision),))
