"""Tenants with work on nodes that take one tenant at a time, from the state and proposals in flight.

Other nodes have no entry, whatever runs there: they exclude no tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import NDArray

from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.node_tenants import NO_TENANTS, tenants_on
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.nodes.attributes import CodedColumn


class NodeTenants:
    """The tenants column of all nodes."""

    def __init__(self) -> None:
        #: Code 0 is the value of rows without description.
        self.column: CodedColumn[tuple[str, ...]] = CodedColumn(1)
        self.column.put(0, NO_TENANTS)
        self.column.codes = self.column.codes[:0]
        #: By node that takes one tenant at a time: tenants with work there in the state.
        self._known: dict[Revision, tuple[str, ...]] = {}
        #: By node and tenant: slots in flight.
        self._proposed: dict[Revision, dict[str, int]] = {}

    def refresh(self, row: int, node: Node, state: RegionState) -> bool:
        """Update the tenants of a row from the state. Return whether they changed."""
        if node.shares_user and not self._known:
            return False  # the usual case
        if takes_one_tenant(node):
            self._known[node.uid] = tenants_on(state, node)
        elif self._known.pop(node.uid, None) is None:
            return False
        return self._put(row, node.uid)

    def at(self, row: int) -> tuple[str, ...]:
        """Return the tenants whose work excludes others from a row."""
        return self.column.values[int(self.column.codes[row])]

    def forget(self, gone: Iterable[Revision]) -> None:
        """Forget deleted nodes."""
        for uid in gone:
            self._known.pop(uid, None)
            self._proposed.pop(uid, None)

    def take(self, row: int, uid: Revision, tenant: str, count: int) -> bool:
        """Count proposed slots of a tenant, or release them (negative count). Return whether the tenants changed."""
        if uid not in self._known and uid not in self._proposed:
            return False
        mine = self._proposed.setdefault(uid, {})
        mine[tenant] = mine.get(tenant, 0) + count
        if mine[tenant] <= 0:
            del mine[tenant]
        if not mine:
            del self._proposed[uid]
        return self._put(row, uid)

    def image(self, uid: Revision) -> dict[str, int]:
        """Return the tenants of a row's slots in flight."""
        return {**self._proposed.get(uid, {})}

    def restore(self, row: int, uid: Revision, image: dict[str, int]) -> None:
        """Return a row to what it was when the image was taken."""
        if image:
            self._proposed[uid] = image
        elif self._proposed.pop(uid, None) is None:
            return
        self._put(row, uid)

    @property
    def is_empty(self) -> bool:
        """Whether no node has work that excludes other tenants."""
        return not self._known and not self._proposed

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to the column."""
        self.column.codes = change(self.column.codes)

    def _put(self, row: int, uid: Revision) -> bool:
        known = self._known.get(uid)
        there = NO_TENANTS if known is None else tuple(sorted({*known, *self._proposed.get(uid, ())}))
        before = self.at(row)
        self.column.put(row, there)
        return there != before
