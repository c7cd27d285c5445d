"""The nodes of a region as arrays: one column for each thing that a filter or a score asks about.

Rows are in a mixed order of the nodes' uids: any stretch of them is a fair sample of all pools, zones and kinds of
nodes, in whatever order they were registered. Which row a node has follows from the state alone, so that a replayed
decision sees the same rows.

What is free is kept twice, as the ledger counts it: for all work (capacity less all that stands there), and for firm
work (capacity less firm work and what is held). Both less what this scheduler has proposed and not heard of yet.

Size: columns that are kept in step row by row; apart from one another they would have to know each other's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node, usable
from holdfast.core.model.values.resources import Resources, amount_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.queries.fence import overrun_max
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.nodes.attributes import NodeAttributes
from holdfast.core.scheduling.nodes.devices import DeviceColumns
from holdfast.core.scheduling.nodes.hints import NodeHints
from holdfast.core.scheduling.nodes.tenants import NodeTenants

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]

#: The highest score: a whole.
BEST = 1_000
#: The resources that every node has; extended ones get rows of their own when a node has some.
PLAIN = ("cpu", "memory", "disk", "gpu")
#: So many rows that changed last are known.
LATEST = 128
#: How many parts of a capacity are told apart, as a power of two: by it what is used is scaled without a division.
SCALE_BITS = 20


class RowClaim(NamedTuple):
    """What so many slots took of a row together, and whose they are."""

    row: int
    amounts: Resources
    slots: int
    firm: bool
    tenant: str


class NodeTable:
    """Columns of all nodes. `revision` is the place in the log of the state that they are of."""

    def __init__(self) -> None:
        self.revision: Revision = 0
        self.rows: dict[Revision, int] = {}
        self.nodes: list[Node] = []
        self.usages: list[NodeUsage] = []
        #: Which resource each row of the amounts is of.
        self.resources: dict[str, int] = {name: number for number, name in enumerate(PLAIN)}
        self._order: NDArray[np.uint64] = np.zeros(0, np.uint64)
        nothing: Numbers = np.zeros((len(PLAIN), 0), np.int64)
        self.capacity = nothing
        #: What one unit is of the whole: `BEST << SCALE_BITS` over the capacity.
        self.scale = nothing
        #: What is free for all work, and for firm work, by the state.
        self._any = self._firm = nothing
        #: What this scheduler has proposed, of all work and of firm work, and has no answer to.
        self._mine_any = self._mine_firm = nothing
        #: What is free, less that: what filters and scores look at.
        self.free_any = self.free_firm = nothing
        #: The least of that since it was last asked what has grown, and the rows of which it may have.
        self._least_any = self._least_firm = nothing
        self._touched: Truths = np.zeros(0, np.bool_)
        #: How often rows changed, or left, up to when it was last asked which have grown.
        self.stirs = 0
        #: Rows that are new, or changed what they are for, since then.
        self._changed: Truths = np.zeros(0, np.bool_)
        #: Rows that a slot has left since then. What it took may be taken by another: its place among those who keep
        #: apart from it is free all the same.
        self._left: Truths = np.zeros(0, np.bool_)
        self.usable: Truths = np.zeros(0, np.bool_)
        #: How long at most what is exclusive lives on there after its lease, and how long it may.
        self.overrun: Numbers = np.zeros(0, np.int64)
        self.overrun_most = 0
        #: About which this view and the ledger do not agree: see `quarantine`.
        self.quarantined: Truths = np.zeros(0, np.bool_)
        self.uids: Numbers = np.zeros(0, np.int64)
        self._latest: list[Revision] = []
        #: By node: how many slots were proposed there and not answered.
        self._mine: dict[Revision, int] = {}
        #: By pool: what a node of it costs.
        self.costs: dict[str, int] = {}
        self.attributes = NodeAttributes()
        self.devices = DeviceColumns()
        self.occupants = NodeTenants()
        self.hints = NodeHints()

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    def refresh(self, state: RegionState, uids: Iterable[Revision], at: Revision) -> None:
        """Take these nodes anew.

        `at` is up to where in the log these are all that have changed; the state may be newer.
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
            self._left[row] |= not usage.slots.startswith(before.slots)  # they are in the order in which they came
            self.hints.take(row, state.node_reports.get(node.uid))
            if self.occupants.refresh(row, node, state):
                self.change(row)
        if rows:
            self._recount(rows)
        self._order_latest(rows if not gone else range(self.count))

    def touched_rows(self) -> list[int]:
        """Rows of which anything may be another than when it was last asked which have grown."""
        found: list[int] = np.flatnonzero(self._touched).tolist()
        return found

    def changed(self) -> list[int]:
        """Rows that are new, or changed what they are for, since it was last asked which have grown."""
        found: list[int] = np.flatnonzero(self._changed).tolist()
        return found

    def hint(self, state: RegionState, uids: Iterable[Revision]) -> None:
        """Take anew how these nodes fare: they rank otherwise, and are to whoever waits what they were."""
        for uid in uids:
            row = self.rows.get(uid)
            if row is not None:
                self.hints.take(row, state.node_reports.get(uid))

    def improved_rows(self) -> list[int]:
        """Rows that are new, changed, lost a slot, or have more free than at some time since this was asked last."""
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
        """The rows that this scheduler has proposed something on, and those whose rooms changed last."""
        uids = {*islice(reversed(self._mine), LATEST), *self._latest}
        return np.array(sorted([self.rows[uid] for uid in uids if uid in self.rows]), np.int64)

    def _order_latest(self, rows: Sequence[int]) -> None:
        """Note which of these rows, and of those known, changed last: by the revision of their rooms."""
        known = [(self.usages[self.rows[uid]].revision, uid) for uid in self._latest if uid in self.rows]
        found = {
            *known,
            *((self.usages[row].revision, self.nodes[row].uid) for row in rows if self.usages[row].revision),
        }
        self._latest = [uid for _, uid in sorted(found)[-LATEST:]]

    # Rows

    def _insert(self, new: list[Node]) -> None:
        """Make rows for these, where they belong."""
        new = sorted(new, key=lambda node: _place(node.uid))
        places = np.array([_place(node.uid) for node in new], np.uint64)
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
        """Close the gaps."""
        self.stirs += len(gone)
        self._order = np.delete(self._order, gone)
        self._each(lambda column: np.delete(column, gone, axis=-1))
        for row in sorted(gone, reverse=True):
            del self.nodes[row], self.usages[row]
        self.hints.remove(gone)
        self._number()

    def _number(self) -> None:
        """Which row each node has, after some moved."""
        self.rows = {uid: row for row, uid in enumerate(self.uids.tolist())}

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Change the rows of every column alike."""
        for name in (*_AMOUNTS, "usable", "overrun", "quarantined", "uids", "_touched", "_changed", "_left"):
            setattr(self, name, change(getattr(self, name)))
        self.attributes.each(change)
        self.occupants.each(change)
        self.devices.each(change)
        self.hints.each(change)

    def _describe(self, row: int, node: Node) -> None:
        """What the node is and is for."""
        self.nodes[row] = node
        self.usable[row] = usable(node)
        self.overrun[row] = node.overrun
        self.change(row)
        for name, _ in node.capacity.extended:
            if name not in self.resources:
                self._add_resource(name)
        self.attributes.describe(row, node)
        self.devices.describe(row, node)

    def change(self, row: int) -> None:
        """A row is another one than before to whoever waits for a node."""
        self._touched[row] = self._changed[row] = True

    def _judge_overruns(self, most: int) -> None:
        """How long what is exclusive may live on after its lease: who is within it now and was not, or was, changed."""
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
        """What is free on these rows, by the state and by what was proposed."""
        vectors = [self._vectors(self.nodes[row], self.usages[row]) for row in rows]
        taken = np.array(vectors, np.int64).transpose(1, 2, 0)
        at = np.array(rows, np.int64)
        self.capacity[:, at], self._any[:, at], self._firm[:, at] = taken
        self.scale[:, at] = (BEST << SCALE_BITS) // np.maximum(taken[0], 1)
        self.free_any[:, at] = taken[1] - self._mine_any[:, at]
        self.free_firm[:, at] = taken[2] - self._mine_firm[:, at]
        self._least_any[:, at] = np.minimum(self._least_any[:, at], self.free_any[:, at])
        self._least_firm[:, at] = np.minimum(self._least_firm[:, at], self.free_firm[:, at])
        self._touched[at] = True
        self.devices.recount(rows, self.nodes, self.usages)

    def _vectors(self, node: Node, usage: NodeUsage) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Capacity, what is free for all work, what is free for firm work."""
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

    # What is proposed and not answered

    def take(self, rows: Numbers, counts: Numbers, need: Resources, *, firm: bool, tenant: str = "") -> None:
        """Count slots as proposed on these rows, each named once."""
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self._note_mine(row, count, tenant)
        for name, amount in self.amounts(need):
            number = self.resources.get(name)
            if number is None:
                continue  # no node has any of it, so nothing was proposed
            total = counts * amount
            columns = [(self._mine_any, self.free_any, self._least_any)]
            if firm:
                columns.append((self._mine_firm, self.free_firm, self._least_firm))
            for mine_of, free, least in columns:
                mine_of[number, rows] += total
                free[number, rows] -= total
                least[number, rows] = np.minimum(least[number, rows], free[number, rows])
        self._touched[rows] = True

    def take_one(self, row: int, need: Resources, *, firm: bool, tenant: str = "") -> None:
        """The same of one slot: as numbers they are many times quicker counted than as arrays of one."""
        self._note_mine(row, 1, tenant)
        for name, amount in self.amounts(need):
            number = self.resources.get(name)
            if number is None:
                continue
            at = number, row
            _take_one(self._mine_any, self.free_any, self._least_any, at, amount)
            if firm:
                _take_one(self._mine_firm, self.free_firm, self._least_firm, at, amount)
        self._touched[row] = True

    def give(self, given: list[RowClaim]) -> None:
        """Count slots as proposed no more, rows being named as often as it takes."""
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
        self._touched[rows] = True

    def _note_mine(self, row: int, count: int, tenant: str) -> None:
        uid, mine = int(self.uids[row]), self._mine
        left = mine.get(uid, 0) + count
        mine[uid] = left
        if not left:
            del mine[uid]
        if not self.occupants.is_empty and self.occupants.take(row, uid, tenant, count):
            self.change(row)

    def amounts(self, need: Resources) -> list[tuple[str, int]]:
        """What is needed more than nothing of."""
        plain = zip(PLAIN, (need.cpu, need.memory, need.disk, need.gpu), strict=True)
        return [(name, amount) for name, amount in (*plain, *need.extended) if amount]


def _take_one(mine: Numbers, free: Numbers, least: Numbers, at: tuple[int, int], amount: int) -> None:
    """Count an amount as proposed at one place of these columns."""
    mine[at] += amount
    free[at] = left = free.item(at) - amount
    if left < least.item(at):
        least[at] = left


_MASK = (1 << 64) - 1


def _place(uid: Revision) -> int:
    """Where among all rows a node belongs: a one-to-one mixing of its uid."""
    mixed = uid * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & _MASK
    return mixed ^ mixed >> 32


_AMOUNTS = (
    "capacity", "scale", "_any", "_firm", "_mine_any", "_mine_firm", "free_any", "free_firm", "_least_any",
    "_least_firm",
)  # fmt: skip
#: What stands in a row until its node is described.
NO_NODE = Node("", 0, 0, "", "", Resources())
