"""The rows that one decision looks at: all of them, or a stretch that begins where its seed says, and the latest.

A region of 50,000 nodes is not looked through for one slot. Rows are in a mixed order, so any stretch is a fair sample.
Those that changed last are looked at, too: where nodes are packed, the best is most likely among them. Before it is
said that nothing fits, all rows are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.domains import Domains
from holdfast.core.scheduling.table import BEST, SCALE_BITS, NodeTable, Numbers

#: So many rows are looked at for one slot.
SAMPLE = 256
#: Up to so many rows, all of them cost less than a stretch and the latest beside it.
ALL = 1_024


class Window(Struct, frozen=True):
    """Some rows of a table, as one slot sees them."""

    table: NodeTable
    ask: Ask
    at: slice | Numbers
    #: Zones that an override says to avoid.
    avoided: tuple[str, ...] = ()
    #: Who stands in which domain; None where the template has no rule about it.
    domains: Domains | None = None

    @property
    def is_all(self) -> bool:
        """Whether every row is in it."""
        return len(self) == self.table.count

    def __len__(self) -> int:
        return int(self.at.stop - self.at.start) if isinstance(self.at, slice) else len(self.at)

    def pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """The part of a column, or of several at once, that is looked at."""
        return column[..., self.at]

    def free_any(self, name: str) -> Numbers:
        """What of a resource nobody has, by row; what is held counts as free."""
        found: Numbers = self.table.free_any[self.table.resources[name], self.at]
        return found

    def used(self, name: str, more: int) -> Numbers:
        """How much of a resource would be taken with so much more, in thousandths of what each node has."""
        number = self.table.resources[name]
        taken = self.table.capacity[number, self.at] - self.table.free_any[number, self.at] + more
        found: Numbers = np.minimum((taken * self.table.scale[number, self.at]) >> SCALE_BITS, BEST)
        return found

    def capacity(self, name: str) -> Numbers:
        """What of a resource each node has at all."""
        found: Numbers = self.table.capacity[self.table.resources[name], self.at]
        return found

    def by_domain(self, key: str, count: Callable[[str], int]) -> Numbers:
        """A number for each row, asked once for each domain of a topology key."""
        if key == "node":
            return np.array([count(self.table.nodes[row].name) for row in self.rows().tolist()], np.int64)
        column = self.table.marks.domains(key)
        each: Numbers = np.array([count(name) for name in column.values], np.int64)
        found: Numbers = each[self.pick(column.codes)]
        return found

    def rows(self) -> Numbers:
        """The numbers of its rows."""
        return np.arange(self.at.start, self.at.stop, dtype=np.int64) if isinstance(self.at, slice) else self.at


def whole(table: NodeTable, ask: Ask, avoided: tuple[str, ...] = (), domains: Domains | None = None) -> Window:
    """All rows."""
    return Window(table, ask, slice(0, table.count), avoided, domains)


def sample(window: Window, count: int, seed: int, whole_up_to: int | None = None) -> tuple[Window, ...]:
    """Of all rows enough for so many slots, and the latest beside them; or all, if that is nearly as many."""
    table, wanted = window.table, max(SAMPLE, 2 * count)
    if table.count <= max(ALL if whole_up_to is None else whole_up_to, 2 * wanted):
        return (window,)
    start = seed % (table.count - wanted + 1)
    latest = table.latest()
    others = latest[(latest < start) | (latest >= start + wanted)]
    stretch = replace(window, at=slice(start, start + wanted))
    if not len(others):
        return (stretch,)
    if wanted > SAMPLE:
        return stretch, replace(window, at=others)
    # Few rows: one window of them costs less than two, though picking rows costs more than a stretch does.
    return (replace(window, at=np.concatenate([stretch.rows(), others])),)
