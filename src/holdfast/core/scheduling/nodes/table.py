"""The nodes of a region as arrays: one column per attribute that filters or scores read.

Rows are in a mixed order of the nodes' uids, so any stretch is a fair sample of pools, zones and hardware. A node's row
depends on the state alone, so that a replayed decision sees the same rows.

Free amounts exist twice, as in the ledger: for all work (capacity less all usage), and for firm work (capacity less
firm usage and holds). Proposals in flight are subtracted from both.

Size: columns that are kept in step row by row; apart from one another they would have to know each other's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node, usable
from holdfast.core.model.values.resources import Resources, amount_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.queries.fence import overrun_max
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.nodes.attributes import NodeAttributes
from holdfast.core.scheduling.nodes.claims import NodeClaim, RowClaim
from holdfast.core.scheduling.nodes.devices import DeviceColumns
from holdfast.core.scheduling.nodes.hints import NodeHints
from holdfast.core.scheduling.nodes.tenants import NodeTenants
from holdfast.core.scheduling.nodes.tie_break import place_of
from holdfast.core.scheduling.nodes.typical_shapes import ShapeCounts
from holdfast.core.scheduling.nodes.useful_capacity import UsefulCapacity
from holdfast.core.scheduling.nodes.victims import VictimColumns

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]

#: The highest score.
BEST = 1_000
#: The resources of every node. Extended resources get rows when a node first has some.
PLAIN = ("cpu", "memory", "disk", "gpu")
#: Recently changed rows that `recent_rows` returns.
LATEST = 128
#: Precision of `scale` in bits, which replaces a division by a multiplication.
SCALE_BITS = 20


class NodeTable:
    """The columns of all nodes. `revision` is the log position of their state."""

    def __init__(self) -> None:
        self.revision: Revision = 0
        self.rows: dict[Revision, int] = {}
        self.nodes: list[Node] = []
        self.usages: list[NodeUsage] = []
        #: Array row of each resource.
        self.resources: dict[str, int] = {name: number for number, name in enumerate(PLAIN)}
        self._order: NDArray[np.uint64] = np.zeros(0, np.uint64)
        nothing: Numbers = np.zeros((len(PLAIN), 0), np.int64)
        self.capacity = nothing
        #: `BEST << SCALE_BITS` divided by the capacity.
        self.scale = nothing
        #: Free for all work, and for firm work, by the state.
        self._any = self._firm = nothing
        #: In flight: amounts of all work and of firm work.
        self._mine_any = self._mine_firm = nothing
        #: Free less in flight: what filters and scores read.
        self.free_any = self.free_firm = nothing
        #: Lowest free values since the last `improved_rows`, and rows that may have improved.
        self._least_any = self._least_firm = nothing
        self._touched: Truths = np.zeros(0, np.bool_)
        #: When each row's free amounts changed last, counted in changes.
        self.stamps: Numbers = np.zeros(0, np.int64)
        self._stamp = 0
        #: Row changes and removals up to the last `improved_rows`.
        self.stirs = 0
        #: Rows that are new or changed attributes since then.
        self._changed: Truths = np.zeros(0, np.bool_)
        #: Rows that a slot has left since then. Its place under an apart rule is free, even if its amounts are used
        #: again.
        self._left: Truths = np.zeros(0, np.bool_)
        self.usable: Truths = np.zeros(0, np.bool_)
        #: Longest time that exclusive runs outlive their lease there; and its limit.
        self.overrun: Numbers = np.zeros(0, np.int64)
        self.overrun_most = 0
        #: Rows in `quarantine`.
        self.quarantined: Truths = np.zeros(0, np.bool_)
        self.uids: Numbers = np.zeros(0, np.int64)
        self._latest: list[Revision] = []
        #: By node: slots in flight.
        self.slots_in_flight: dict[Revision, int] = {}
        #: Cost of a node by pool.
        self.costs: dict[str, int] = {}
        self.attributes = NodeAttributes()
        self.useful, self.shape_counts = UsefulCapacity(), ShapeCounts()
        self.devices = DeviceColumns(self.useful.split_costs)
        self.occupants = NodeTenants()
        self.hints = NodeHints()
        self.victims = VictimColumns()

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def refresh(self, state: RegionState, uids: Iterable[Revision], at: Revision) -> None:
        """Reload these nodes.

        They include all changes up to revision `at`; the state may be newer.
        """
        self.revision = max(self.revision, at)
        self.costs = dict(state.pool_costs.items())
        self._judge_overruns(overrun_max(state.info.settings))
        found = [(uid, state.nodes.get(uid)) for uid in dict.fromkeys(uids)]
        gone = [self.rows[uid] for uid, node in found if node is None and uid in self.rows]
        if gone:
            self._remove(gone)
            self.occupants.forget([uid for uid, node in found if node is None])
        there = [node for _, node in found if node is not None]
        new = [node for node in there if node.uid not in self.rows]
        if new:
            self._insert(new)
        rows = [self.rows[node.uid] for node in there]
        for row, node in zip(rows, there, strict=True):
            if self.nodes[row] is not node:
                self._describe(row, node)
            before, usage = self.usages[row], state.node_usage.get(node.uid) or EMPTY_USAGE
            self.usages[row] = usage
            self._left[row] |= not usage.slots.startswith(before.slots)  # slots are in the order of placement
            self.hints.take(row, state.node_reports.get(node.uid))
            if self.occupants.refresh(row, node, state):
                self.change(row)
        if rows:
            self._recount(rows)
            self.victims.stale[rows] = True
        self._order_latest(rows if not gone else range(self.count))

    def touched_rows(self) -> list[int]:
        """Return rows that may have changed since the last `improved_rows`."""
        found: list[int] = np.flatnonzero(self._touched).tolist()
        return found

    def changed(self) -> list[int]:
        """Return rows that are new or changed attributes since the last `improved_rows`."""
        found: list[int] = np.flatnonzero(self._changed).tolist()
        return found

    def hint(self, state: RegionState, uids: Iterable[Revision]) -> None:
        """Update the hints of these nodes. No row counts as changed."""
        for uid in uids:
            row = self.rows.get(uid)
            if row is not None:
                self.hints.take(row, state.node_reports.get(uid))

    def improved_rows(self) -> list[int]:
        """Return rows that are new, changed, lost a slot or gained free amounts at some time since the last call."""
        at = np.flatnonzero(self._touched)
        self.stirs += len(at)
        more = self._changed[at] | self._left[at] | self.devices.improved_rows(at)
        for free, least in ((self.free_any, self._least_any), (self.free_firm, self._least_firm)):
            more |= (free[:, at] > least[:, at]).any(axis=0)
            least[:, at] = free[:, at]
        self._touched[at] = self._changed[at] = self._left[at] = False
        found: list[int] = at[more].tolist()
        return found

    def recent_rows(self) -> Numbers:
        """Return the rows in flight, and those whose usage changed most recently."""
        uids = {*islice(reversed(self.slots_in_flight), LATEST), *self._latest}
        return np.array(sorted([self.rows[uid] for uid in uids if uid in self.rows]), np.int64)

    def _order_latest(self, rows: Sequence[int]) -> None:
        """Update the most recently changed rows, by revision of usage."""
        known = [(self.usages[self.rows[uid]].revision, uid) for uid in self._latest if uid in self.rows]
        found = {
            *known,
            *((self.usages[row].revision, self.nodes[row].uid) for row in rows if self.usages[row].revision),
        }
        self._latest = [uid for _, uid in sorted(found)[-LATEST:]]

    # Rows

    def _insert(self, new: list[Node]) -> None:
        """Insert rows for new nodes, in order."""
        new = sorted(new, key=lambda node: place_of(node.uid))
        places = np.array([place_of(node.uid) for node in new], np.uint64)
        before = np.searchsorted(self._order, places)
        was = np.insert(np.arange(self.count), before, -1).tolist()
        self.nodes = [NO_NODE if row < 0 else self.nodes[row] for row in was]
        self.usages = [EMPTY_USAGE if row < 0 else self.usages[row] for row in was]
        self.hints.insert(was)
        self._order = np.insert(self._order, before, places)
        self._each(lambda column: np.insert(column, before, 0, axis=-1))
        self.uids[np.searchsorted(self._order, places)] = [node.uid for node in new]
        self._number()

    def _remove(self, gone: list[int]) -> None:
        """Remove rows."""
        self.stirs += len(gone)
        self._order = np.delete(self._order, gone)
        self._each(lambda column: np.delete(column, gone, axis=-1))
        for row in sorted(gone, reverse=True):
            del self.nodes[row], self.usages[row]
        self.hints.remove(gone)
        self._number()

    def _number(self) -> None:
        """Renumber the rows after some moved."""
        self.rows = {uid: row for row, uid in enumerate(self.uids.tolist())}

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to every column."""
        for name in (*_AMOUNTS, "usable", "overrun", "quarantined", "uids", "stamps", "_touched", "_changed", "_left"):
            setattr(self, name, change(getattr(self, name)))
        self.attributes.each(change)
        self.occupants.each(change)
        self.devices.each(change)
        self.hints.each(change)
        self.victims.each(change)
        self.useful.forget()

    def _describe(self, row: int, node: Node) -> None:
        """Set the attributes of a node."""
        self.nodes[row] = node
        self.usable[row] = usable(node)
        self.overrun[row] = node.overrun
        self.change(row)
        for name, _ in node.capacity.extended:
            if name not in self.resources:
                self._add_resource(name)
        self.attributes.describe(row, node)
        self.devices.describe(row, node)

    def touch(self, rows: int | Numbers) -> None:
        """Mark rows whose free amounts changed."""
        self._stamp += 1
        self._touched[rows] = True
        self.stamps[rows] = self._stamp

    def change(self, row: int) -> None:
        """Mark a row as changed, so that blocked groups are tried again."""
        self._touched[row] = self._changed[row] = True

    def _judge_overruns(self, most: int) -> None:
        """Set the limit of overruns of exclusive runs; mark rows that cross it as changed."""
        if most != self.overrun_most:
            turned = (self.overrun <= most) != (self.overrun <= self.overrun_most)
            self._touched |= turned
            self._changed |= turned
            self.overrun_most = most

    def _add_resource(self, name: str) -> None:
        self.resources[name] = len(self.resources)
        for column in _AMOUNTS:
            old: Numbers = getattr(self, column)
            setattr(self, column, np.concatenate([old, np.zeros((1, old.shape[1]), np.int64)]))

    def _recount(self, rows: list[int]) -> None:
        """Recompute the amounts of these rows."""
        vectors = [self._vectors(self.nodes[row], self.usages[row]) for row in rows]
        taken = np.array(vectors, np.int64).transpose(1, 2, 0)
        at = np.array(rows, np.int64)
        self.capacity[:, at], self._any[:, at], self._firm[:, at] = taken
        self.scale[:, at] = (BEST << SCALE_BITS) // np.maximum(taken[0], 1)
        self.free_any[:, at] = taken[1] - self._mine_any[:, at]
        self.free_firm[:, at] = taken[2] - self._mine_firm[:, at]
        self._least_any[:, at] = np.minimum(self._least_any[:, at], self.free_any[:, at])
        self._least_firm[:, at] = np.minimum(self._least_firm[:, at], self.free_firm[:, at])
        self.touch(at)
        self.devices.recount(rows, self.nodes, self.usages)

    def _vectors(self, node: Node, usage: NodeUsage) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return capacity, free for all work, free for firm work."""
        has, all_, firm, held = node.capacity, usage.all, usage.firm, usage.held
        plain = (
            (has.cpu, has.memory, has.disk, has.gpu),
            (has.cpu - all_.cpu, has.memory - all_.memory, has.disk - all_.disk, has.gpu - all_.gpu),
            (
                has.cpu - firm.cpu - held.cpu, has.memory - firm.memory - held.memory,
                has.disk - firm.disk - held.disk, has.gpu - firm.gpu - held.gpu,
            ),
        )  # fmt: skip
        if len(self.resources) == len(PLAIN):
            return plain
        names = list(self.resources)[len(PLAIN) :]
        full, of_all, of_firm, of_held = (dict(one.extended) for one in (has, all_, firm, held))
        return (
            [*plain[0], *(full.get(name, 0) for name in names)],
            [*plain[1], *(full.get(name, 0) - of_all.get(name, 0) for name in names)],
            [*plain[2], *(full.get(name, 0) - of_firm.get(name, 0) - of_held.get(name, 0) for name in names)],
        )

    # Proposals in flight

    def take(self, rows: Numbers, counts: Numbers, need: Resources, *, firm: bool, tenant: str = "") -> None:
        """Count slots as proposed on these rows, each listed once."""
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self._note_mine(row, count, tenant)
        for name, amount in self.amounts(need):
            number = self.resources.get(name)
            if number is None:
                continue  # no node has any, so nothing was proposed
            total = counts * amount
            columns = [(self._mine_any, self.free_any, self._least_any)]
            if firm:
                columns.append((self._mine_firm, self.free_firm, self._least_firm))
            for mine_of, free, least in columns:
                mine_of[number, rows] += total
                free[number, rows] -= total
                least[number, rows] = np.minimum(least[number, rows], free[number, rows])
        self.touch(rows)

    def take_one(self, row: int, need: Resources, *, firm: bool, tenant: str = "") -> None:
        """The same for one slot: plain numbers are many times faster than arrays of one."""
        self._note_mine(row, 1, tenant)
        for name, amount in self.amounts(need):
            number = self.resources.get(name)
            if number is None:
                continue
            at = number, row
            _take_one(self._mine_any, self.free_any, self._least_any, at, amount)
            if firm:
                _take_one(self._mine_firm, self.free_firm, self._least_firm, at, amount)
        self.touch(row)

    def take_over(self, row: int, claim: NodeClaim, tenant: str, sign: int = 1) -> None:
        """Count a slot with a takeover as proposed on a row; or release it, with a negative sign."""
        self.victims.stale[row] = True
        self._note_mine(row, sign, tenant)
        for amounts, mine, free, least in (
            (claim.amounts, self._mine_any, self.free_any, self._least_any),
            (claim.firm, self._mine_firm, self.free_firm, self._least_firm),
        ):
            for name, amount in self.amounts(amounts):
                number = self.resources.get(name)
                if number is not None:
                    _take_one(mine, free, least, (number, row), sign * amount)
        self.touch(row)

    def give(self, given: list[RowClaim]) -> None:
        """Release proposed slots. Rows may occur several times."""
        for one in given:
            self._note_mine(one.row, -one.slots, one.tenant)
        if not given:
            return
        rows = np.array([one.row for one in given], np.int64)
        firm: Truths = np.array([one.firm for one in given], np.bool_)
        plain = [(one.cpu, one.memory, one.disk, one.gpu) for one in [each.amounts for each in given]]
        totals = np.array(plain, np.int64).T
        for name, number in self.resources.items():
            extended = [amount_of(one.amounts, name) for one in given] if number >= len(PLAIN) else ()
            total: Numbers = np.array(extended, np.int64) if extended else totals[number]
            if total.any():
                np.subtract.at(self._mine_any[number], rows, total)
                np.add.at(self.free_any[number], rows, total)
                np.subtract.at(self._mine_firm[number], rows, total * firm)
                np.add.at(self.free_firm[number], rows, total * firm)
        self.touch(rows)

    def _note_mine(self, row: int, count: int, tenant: str) -> None:
        uid, mine = int(self.uids[row]), self.slots_in_flight
        left = mine.get(uid, 0) + count
        mine[uid] = left
        if not left:
            del mine[uid]
        if not self.occupants.is_empty and self.occupants.take(row, uid, tenant, count):
            self.change(row)

    def amounts(self, need: Resources) -> list[tuple[str, int]]:
        """Return the required resources and amounts."""
        plain = zip(PLAIN, (need.cpu, need.memory, need.disk, need.gpu), strict=True)
        return [(name, amount) for name, amount in (*plain, *need.extended) if amount]


def _take_one(mine: Numbers, free: Numbers, least: Numbers, at: tuple[int, int], amount: int) -> None:
    """Count an amount as proposed in one cell."""
    mine[at] += amount
    free[at] = left = free.item(at) - amount
    if left < least.item(at):
        least[at] = left


_AMOUNTS = (
    "capacity", "scale", "_any", "_firm", "_mine_any", "_mine_firm", "free_any", "free_firm", "_least_any",
    "_least_firm",
)  # fmt: skip
#: Content of a row before its node is described.
NO_NODE = Node("", 0, 0, "", "", Resources())
