"""What the controllers of a region's assignments have in common: one assignment at a time, by uid."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import ReconcileKey, WatchKey
from holdfast.core.region.state.tables import RegionState


class PerAssignment:
    """Looks at one assignment at a time; its slots and requests are told under its workload."""

    watches: tuple[str, ...] = ("assignment", "workload")

    def keys(self, state: RegionState) -> Iterable[ReconcileKey]:
        return state.assignments.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        kind, key = touched
        if kind == "assignment":
            return [key]
        return state.assignments_of.get(key) or ()  # type: ignore[arg-type]


class PerNode:
    """Looks at one node at a time; what stands there is told under it."""

    watches: tuple[str, ...] = ("node",)

    def keys(self, state: RegionState) -> Iterable[ReconcileKey]:
        return state.nodes.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]
