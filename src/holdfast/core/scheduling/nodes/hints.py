"""Node load and cached artifacts, as reported by agents, in columns.

Hints rank nodes and never exclude one, so their changes unblock nothing. A node without a report has no load and no
artifacts. An artifact's column is built when a template first uses it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.records.nodes import NO_REPORT, NodeReport

#: Artifact columns kept at a time, most recently used.
NAMES_MAX = 256


class NodeHints:
    """The hint columns of all nodes."""

    def __init__(self) -> None:
        #: Used part of cpu or memory in percent, whichever is larger.
        self.load: NDArray[np.int64] = np.zeros(0, np.int64)
        #: Whether any node ever reported a load.
        self.any_load = False
        self._reports: list[NodeReport] = []
        self._there: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()

    def take(self, row: int, report: NodeReport | None) -> None:
        """Set the report of a row."""
        report = report or NO_REPORT
        if report is self._reports[row]:
            return
        self._reports[row] = report
        self.load[row] = load = max(report.cpu, report.memory)
        self.any_load |= load > 0
        for name, column in self._there.items():
            column[row] = name in report.present

    def there(self, name: str) -> NDArray[np.bool_]:
        """Return the rows that have an artifact cached."""
        column = self._there.pop(name, None)
        if column is None:
            column = np.array([name in report.present for report in self._reports], np.bool_)
            if len(self._there) >= NAMES_MAX:
                self._there.popitem(last=False)
        self._there[name] = column
        return column

    def insert(self, was: list[int]) -> None:
        """Insert rows: `was` has the former row of each, -1 for a new one. `each` updates the columns."""
        self._reports = [NO_REPORT if row < 0 else self._reports[row] for row in was]

    def remove(self, gone: list[int]) -> None:
        """Remove rows. `each` updates the columns."""
        for row in sorted(gone, reverse=True):
            del self._reports[row]

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to every column."""
        self.load = change(self.load)
        for name, column in self._there.items():
            self._there[name] = change(column)
