"""The rows that one pass examines: all of them, or a stretch that its seed selects.

A pass for one slot does not examine all 50,000 nodes of a large region. Rows are in a mixed order, so a stretch is a
fair sample: some thousand rows contain a node about as good as the best. It has at most half of the rows, so that
concurrent decisions, of one scheduler or several, do not all select the same node. Before a pass reports that no node
is feasible, it examines all rows.

With domain rules, rows are processed one by one, and the stretch is short. Recently changed rows are then added: with
packing, the best row is probably among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import BEST, SCALE_BITS, NodeTable, Numbers, Truths

#: Rows of a stretch for one slot. More rows cost more and improve little.
STRETCH = 8_192
#: Rows of a stretch with domain rules.
SAMPLE = 256
#: Up to this many rows, a pass examines all.
ALL = 1_024


class NodeWindow(Struct, frozen=True):
    """Some rows of a table, as one slot sees them."""

    table: NodeTable
    ask: SlotAsk
    at: slice | Numbers
    #: Zones that an override avoids.
    avoided: tuple[str, ...] = ()
    #: The domain rules; None if the template has none.
    domains: DomainRules | None = None
    #: Rows that passed the filters, once known: a score may leave the others out.
    passes: Truths | None = None
    #: Cache of `used`, since two scores need the same values.
    _used: dict[tuple[str, int], Numbers] = field(default_factory=dict)

    @property
    def is_all(self) -> bool:
        """Whether the window contains every row."""
        return len(self) == self.table.count

    def __len__(self) -> int:
        return int(self.at.stop - self.at.start) if isinstance(self.at, slice) else len(self.at)

    def of(self, at: slice | Numbers) -> NodeWindow:
        """Return other rows of the same table, for the same slot."""
        return NodeWindow(self.table, self.ask, at, self.avoided, self.domains)

    def that_pass(self, passes: Truths) -> NodeWindow:
        """Return the same rows, of which some passed the filters."""
        return NodeWindow(self.table, self.ask, self.at, self.avoided, self.domains, passes)

    def pick(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the window's part of one or several columns."""
        return column[..., self.at]

    def free_any(self, name: str) -> Numbers:
        """Return the unused amount of a resource by row. Held amounts count as unused."""
        found: Numbers = self.table.free_any[self.table.resources[name], self.at]
        return found

    def used(self, name: str, more: int) -> Numbers:
        """Return the used part of a resource with `more` added, in thousandths of capacity. Read-only."""
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
        """Return the capacity of a resource by row."""
        found: Numbers = self.table.capacity[self.table.resources[name], self.at]
        return found

    def by_domain(self, key: str, count: Callable[[str], int]) -> Numbers:
        """Return a number per row, computed once per domain of a topology key."""
        if key == "node":
            return np.array([count(self.table.nodes[row].name) for row in self.rows().tolist()], np.int64)
        column = self.table.attributes.domains(key)
        each: Numbers = np.array([count(name) for name in column.values], np.int64)
        found: Numbers = each[self.pick(column.codes)]
        return found

    def rows(self) -> Numbers:
        """Return the row numbers."""
        return np.arange(self.at.start, self.at.stop, dtype=np.int64) if isinstance(self.at, slice) else self.at


def all_rows(
    table: NodeTable, ask: SlotAsk, avoided: tuple[str, ...] = (), domains: DomainRules | None = None
) -> NodeWindow:
    """Return a window of all rows."""
    return NodeWindow(table, ask, slice(0, table.count), avoided, domains)


def sample_rows(window: NodeWindow, count: int, seed: int) -> tuple[NodeWindow, ...]:
    """Return windows with enough rows for `count` slots; all rows if that is nearly as many."""
    rows = window.table.count
    if window.domains is not None:
        wanted = max(SAMPLE, 2 * count)
        return (window,) if rows <= max(ALL, 2 * wanted) else _with_latest(window, wanted, seed)
    wanted = max(min(STRETCH, max(ALL, rows // 2)), 2 * count)
    if rows <= wanted:
        return (window,)
    # Stretches have fixed boundaries. With free ones, rows at both ends would be examined less often.
    start = min(seed % -(-rows // wanted) * wanted, rows - wanted)
    return (window.of(slice(start, start + wanted)),)


def _with_latest(window: NodeWindow, wanted: int, seed: int) -> tuple[NodeWindow, ...]:
    """Return a stretch from a seeded row, and recently changed rows outside of it."""
    table = window.table
    start = seed % (table.count - wanted + 1)
    latest = table.recent_rows()
    others = latest[(latest < start) | (latest >= start + wanted)]
    stretch = window.of(slice(start, start + wanted))
    if not len(others):
        return (stretch,)
    if wanted > SAMPLE:
        return stretch, window.of(others)
    # For few rows, one window costs less than two, though indexing costs more than a slice.
    return (window.of(np.concatenate([stretch.rows(), others])),)
