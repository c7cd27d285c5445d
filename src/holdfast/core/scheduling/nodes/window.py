"""The rows that one decision looks at: all of them, or a stretch that its seed chooses.

A region of 50,000 nodes is not looked through for one slot. Rows are in a mixed order, so any stretch is a fair sample;
among some thousands there is a node that fits about as well as the best of all. It is half of the rows at most, so that
decisions under way at a time, of one scheduler or of several, are not all drawn to the one best node. Before it is said
that nothing fits, all rows are looked at.

Where slots are counted over domains, rows are gone through one by one, and a stretch is short. Then those that changed
last are looked at, too: where nodes are packed, the best is most likely among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import BEST, SCALE_BITS, NodeTable, Numbers

#: Up to so many rows are looked at for one slot: more cost more and find little that is better.
STRETCH = 8_192
#: So many are where slots are counted over domains.
SAMPLE = 256
#: Up to so many rows, all of them are looked at.
ALL = 1_024


class NodeWindow(Struct, frozen=True):
    """Some rows of a table, as one slot sees them."""

    table: NodeTable
    ask: SlotAsk
    at: slice | Numbers
    #: Zones that an override says to avoid.
    avoided: tuple[str, ...] = ()
    #: Who stands in which domain; None where the template has no rule about it.
    domains: DomainRules | None = None
    #: What was asked by scores: two of them ask for the same.
    _used: dict[tuple[str, int], Numbers] = field(default_factory=dict)

    @property
    def is_all(self) -> bool:
        """Whether every row is in it."""
        return len(self) == self.table.count

    def __len__(self) -> int:
        return int(self.at.stop - self.at.start) if isinstance(self.at, slice) else len(self.at)

    def of(self, at: slice | Numbers) -> NodeWindow:
        """Other rows of the same table, for the same slot."""
        return NodeWindow(self.table, self.ask, at, self.avoided, self.domains)

    def pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """The part of a column, or of several at once, that is looked at."""
        return column[..., self.at]

    def free_any(self, name: str) -> Numbers:
        """What of a resource nobody has, by row; what is held counts as free."""
        found: Numbers = self.table.free_any[self.table.resources[name], self.at]
        return found

    def used(self, name: str, more: int) -> Numbers:
        """How much of a resource would be taken with so much more, in thousandths of what each node has: to be read."""
        known = self._used.get((name, more))
        if known is not None:
            return known
        number = self.table.resources[name]
        found: Numbers = self.table.capacity[number, self.at] - self.table.free_any[number, self.at]
        found += more
        found *= self.table.scale[number, self.at]
        found >>= SCALE_BITS
        np.minimum(found, BEST, out=found)
        found.flags.writeable = False
        self._used[name, more] = found
        return found

    def capacity(self, name: str) -> Numbers:
        """What of a resource each node has at all."""
        found: Numbers = self.table.capacity[self.table.resources[name], self.at]
        return found

    def by_domain(self, key: str, count: Callable[[str], int]) -> Numbers:
        """A number for each row, asked once for each domain of a topology key."""
        if key == "node":
            return np.array([count(self.table.nodes[row].name) for row in self.rows().tolist()], np.int64)
        column = self.table.attributes.domains(key)
        each: Numbers = np.array([count(name) for name in column.values], np.int64)
        found: Numbers = each[self.pick(column.codes)]
        return found

    def rows(self) -> Numbers:
        """The numbers of its rows."""
        return np.arange(self.at.start, self.at.stop, dtype=np.int64) if isinstance(self.at, slice) else self.at


def all_rows(
    table: NodeTable, ask: SlotAsk, avoided: tuple[str, ...] = (), domains: DomainRules | None = None
) -> NodeWindow:
    """All rows."""
    return NodeWindow(table, ask, slice(0, table.count), avoided, domains)


def sample_rows(window: NodeWindow, count: int, seed: int) -> tuple[NodeWindow, ...]:
    """Of all rows enough for so many slots; or all, if that is nearly as many."""
    rows = window.table.count
    if window.domains is not None:
        wanted = max(SAMPLE, 2 * count)
        return (window,) if rows <= max(ALL, 2 * wanted) else _with_latest(window, wanted, seed)
    wanted = max(min(STRETCH, max(ALL, rows // 2)), 2 * count)
    if rows <= wanted:
        return (window,)
    # One of the stretches that cover all rows: if it began anywhere, rows at either end would be seen less often.
    start = min(seed % -(-rows // wanted) * wanted, rows - wanted)
    return (window.of(slice(start, start + wanted)),)


def _with_latest(window: NodeWindow, wanted: int, seed: int) -> tuple[NodeWindow, ...]:
    """A stretch that begins where the seed says, and the latest rows beside it."""
    table = window.table
    start = seed % (table.count - wanted + 1)
    latest = table.recent_rows()
    others = latest[(latest < start) | (latest >= start + wanted)]
    stretch = window.of(slice(start, start + wanted))
    if not len(others):
        return (stretch,)
    if wanted > SAMPLE:
        return stretch, window.of(others)
    # Few rows: one window of them costs less than two, though picking rows costs more than a stretch does.
    return (window.of(np.concatenate([stretch.rows(), others])),)
