"""Keys and watched changes of the region's controllers: by assignment, or by node."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import ReconcileKey, WatchKey
from holdfast.core.region.state.tables import RegionState


class PerAssignment:
    """Keys of assignments. Slots and scheduling requests are watched under their workload."""

    watches: tuple[str, ...] = ("assignment", "workload")

    def keys(self, state: RegionState) -> Iterable[ReconcileKey]:
        return state.assignments.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        kind, key = touched
        if kind == "assignment":
            return [key]
        return state.assignments_of.get(key) or ()  # type: ignore[arg-type]


class PerNode:
    """Keys of nodes. Slots on a node are watched under it."""

    watches: tuple[str, ...] = ("node",)

    def keys(self, state: RegionState) -> Iterable[ReconcileKey]:
        return state.nodes.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]
