"""How nodes fare, as their agents say, in columns: how much of each is used, and what lies ready there.

Hints rank nodes and keep none out, and a change of one is no reason to look again at what waits. Of a node that nothing
is said of nothing is used, and nothing lies ready there. A name gets its column when a template first asks for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.records.nodes import NO_REPORT, NodeReport

#: So many names have their columns at a time: those that were asked for last.
NAMES_MAX = 256


class NodeHints:
    """The columns of all nodes."""

    def __init__(self) -> None:
        #: The larger part of what is used, of processor or memory, in percent.
        self.load: NDArray[np.int64] = np.zeros(0, np.int64)
        #: Whether any node ever said that something of it is used.
        self.any_load = False
        self._reports: list[NodeReport] = []
        self._there: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()

    def take(self, row: int, report: NodeReport | None) -> None:
        """What is said of a node."""
        report = report or NO_REPORT
        if report is self._reports[row]:
            return
        self._reports[row] = report
        self.load[row] = load = max(report.cpu, report.memory)
        self.any_load |= load > 0
        for name, column in self._there.items():
            column[row] = name in report.present

    def there(self, name: str) -> NDArray[np.bool_]:
        """Where this lies ready."""
        column = self._there.pop(name, None)
        if column is None:
            column = np.array([name in report.present for report in self._reports], np.bool_)
            if len(self._there) >= NAMES_MAX:
                self._there.popitem(last=False)
        self._there[name] = column
        return column

    def insert(self, was: list[int]) -> None:
        """Rows come between: which each was before, -1 for a new one. Their columns are changed by `each`."""
        self._reports = [NO_REPORT if row < 0 else self._reports[row] for row in was]

    def remove(self, gone: list[int]) -> None:
        """Rows go. Their columns are changed by `each`."""
        for row in sorted(gone, reverse=True):
            del self._reports[row]

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Change the rows of every column alike."""
        self.load = change(self.load)
        for name, column in self._there.items():
            self._there[name] = change(column)
