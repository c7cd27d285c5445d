"""Whose work is on nodes that take one tenant at a time: by the state, and by what this scheduler has proposed there.

Of all other nodes it is nobody's, whatever stands there: they keep no tenant out by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import NDArray

from holdfast.core.model.objects.isolation import takes_one_tenant
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.queries.node_tenants import NO_TENANTS, tenants_on
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.nodes.attributes import CodedColumn


class NodeTenants:
    """The column of all nodes."""

    def __init__(self) -> None:
        #: A row that was never described has the first value.
        self.column: CodedColumn[tuple[str, ...]] = CodedColumn(1)
        self.column.put(0, NO_TENANTS)
        self.column.codes = self.column.codes[:0]
        #: By node that takes one tenant at a time: whose work is there by the state.
        self._known: dict[Revision, tuple[str, ...]] = {}
        #: By node and tenant: how many slots were proposed there and not answered.
        self._proposed: dict[Revision, dict[str, int]] = {}

    def refresh(self, row: int, node: Node, state: RegionState) -> bool:
        """Take anew whose work is there; whether it is another's than before."""
        if node.shares_user and not self._known:
            return False  # as on most nodes of most regions
        if takes_one_tenant(node):
            self._known[node.uid] = tenants_on(state, node)
        elif self._known.pop(node.uid, None) is None:
            return False
        return self._put(row, node.uid)

    def at(self, row: int) -> tuple[str, ...]:
        """Whose work is on the node of a row, if that keeps others out."""
        return self.column.values[int(self.column.codes[row])]

    def forget(self, gone: Iterable[Revision]) -> None:
        """These nodes are gone."""
        for uid in gone:
            self._known.pop(uid, None)
            self._proposed.pop(uid, None)

    def take(self, row: int, uid: Revision, tenant: str, count: int) -> bool:
        """Count slots of a tenant as proposed on a row, with a negative count as answered; whether it is another's now
        than before."""
        if uid not in self._known and uid not in self._proposed:
            return False
        mine = self._proposed.setdefault(uid, {})
        mine[tenant] = mine.get(tenant, 0) + count
        if mine[tenant] <= 0:
            del mine[tenant]
        if not mine:
            del self._proposed[uid]
        return self._put(row, uid)

    @property
    def is_empty(self) -> bool:
        """Whether every node takes any tenants beside one another."""
        return not self._known and not self._proposed

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Change the rows of the column."""
        self.column.codes = change(self.column.codes)

    def _put(self, row: int, uid: Revision) -> bool:
        known = self._known.get(uid)
        there = NO_TENANTS if known is None else tuple(sorted({*known, *self._proposed.get(uid, ())}))
        before = self.at(row)
        self.column.put(row, there)
        return there != before
