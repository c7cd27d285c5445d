"""Node attributes as integer codes: zone, pool, taints, tenancy, capabilities, labels. Equal values have one code.

There are few distinct sets of taints or tenants. A template is checked once per set, and nodes are looked up by code. A
label column is built when a template first uses a key that a node has. Unused values are dropped once they are most of
a column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.nodes import Node, kept_for, label_value

V = TypeVar("V", bound=Hashable)

CodeArray = NDArray[np.int32]
#: The code of a value that no node has.
NONE = -1
#: Unused values in a column, beyond the number of its rows.
STALE_MAX = 64


class CodedColumn(Generic[V]):
    """One column: the code of each row's value, in the order of first use."""

    def __init__(self, rows: int = 0) -> None:
        self.codes: CodeArray = np.zeros(rows, np.int32)
        self.values: list[V] = []
        self._code_of: dict[V, int] = {}

    def put(self, row: int, value: V) -> None:
        """Set the value of a row."""
        code = self._code_of.get(value)
        if code is None:
            if len(self.values) > 2 * len(self.codes) + STALE_MAX:
                self._compact()
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def _compact(self) -> None:
        """Drop unused values, except the first: that of rows without description."""
        codes, places = np.unique(np.append(self.codes, np.int32(0)), return_inverse=True)
        self.values = [self.values[code] for code in codes.tolist()]
        self.codes = places[:-1].astype(np.int32)
        self._code_of = {value: code for code, value in enumerate(self.values)}

    def code(self, value: V) -> int:
        """Return the code of a value; `NONE` if it has none."""
        return self._code_of.get(value, NONE)

    def matching(self, accepts: Callable[[V], bool]) -> NDArray[np.bool_] | None:
        """Return whether each value is accepted, by code; None if all are."""
        found = [accepts(value) for value in self.values]
        return None if all(found) else np.array(found, np.bool_)


class NodeAttributes:
    """The attribute columns of all nodes."""

    def __init__(self) -> None:
        self.zones: CodedColumn[str] = CodedColumn()
        self.pools: CodedColumn[str] = CodedColumn()
        self.taints: CodedColumn[tuple[Taint, ...]] = CodedColumn()
        self.tenancies: CodedColumn[tuple[str, ...]] = CodedColumn()
        self.capabilities: CodedColumn[Capabilities] = CodedColumn()
        self._labels: dict[str, CodedColumn[str | None]] = {}
        #: Label keys that a node has or had.
        self._keys: set[str] = set()

    def describe(self, row: int, node: Node) -> None:
        """Set the attributes of a row."""
        self.zones.put(row, node.zone)
        self.pools.put(row, node.pool)
        self.taints.put(row, node.taints)
        self.tenancies.put(row, kept_for(node))
        self.capabilities.put(row, node.capabilities)
        self._keys.update([key for labels in (node.labels, node.reported_labels) for key, _ in labels])
        for key, column in self._labels.items():
            column.put(row, label_value(node, key))

    def labels(self, key: str, nodes: list[Node]) -> CodedColumn[str | None]:
        """Return the column of a label; an empty one if no node has the key."""
        column = self._labels.get(key)
        if column is None and key not in self._keys:
            return CodedColumn(len(nodes))
        if column is None:
            column = self._labels[key] = CodedColumn(len(nodes))
            for row, node in enumerate(nodes):
                column.put(row, label_value(node, key))
        return column

    def domains(self, key: str) -> CodedColumn[str]:
        """Return the column of a shared topology key (zone or pool)."""
        return self.zones if key == "zone" else self.pools

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to every column."""
        few: list[CodedColumn[Any]] = [self.zones, self.pools, self.taints, self.tenancies, self.capabilities]
        for column in (*few, *self._labels.values()):
            column.codes = change(column.codes)
