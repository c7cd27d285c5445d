"""What victims may free on each node: one column per tier and resource.

A tier is a kind of victim and its priority, in the order in which victims are chosen: what is leaving anyway, then
reclaimable work, then work that stays; each by priority. A row is counted again when its node has changed, and only
once somebody may preempt: regions without such a class pay nothing. Columns ignore run times and budgets, so they show
which nodes may do; `scheduling.victims` finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.node_usage import KEY_BYTES, NodeUsage, slot_keys
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import ZERO, Resources, add, amount_of, clamp_zero, subtract, times, total
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.queries.preemptions import Preemptor, priority_of
from holdfast.core.region.state.node_usage import remaining_victims
from holdfast.core.region.state.tables import RegionState

if TYPE_CHECKING:
    from holdfast.core.scheduling.nodes.table import NodeTable

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]
#: A kind of victim, and its priority.
Tier = tuple[int, int]
#: Kinds of victims.
LEAVING, RECLAIMABLE, FIRM = 0, 1, 2
#: Slots read at once: in about 20 ms. The rest follows in the next cycles, and nothing is preempted before.
SLOTS_MAX = 20_000
#: Below every priority: of a class that the region does not know.
UNKNOWN = -(1 << 40)
#: The rank of a row whose victims do not free enough.
NEVER = 1 << 20


def may_leave(state: RegionState, slot: Slot) -> bool:
    """Whether a slot may be a victim for somebody: it is leaving or stoppable, and no other slot waits."""
    if slot.successor is not None or (slot.waits_for and remaining_victims(state, slot)):
        return False
    return slot.phase is Phase.TERMINATING or slot.phase in STOPPABLE


def tier_of(state: RegionState, slot: Slot) -> Tier:
    """Return the tier of a slot that may leave."""
    return _tier(state, slot.assignment, firm=slot.firm, leaves=slot.phase is Phase.TERMINATING)


def _tier(state: RegionState, assignment: Revision, *, firm: bool, leaves: bool) -> Tier:
    if leaves:
        return LEAVING, 0
    priority = priority_of(state, state.assignments[assignment])
    return (FIRM if firm else RECLAIMABLE), UNKNOWN if priority is None else priority


def is_open_to(tier: Tier, preemptor: Preemptor) -> bool:
    """Whether a preemptor may take victims of this tier."""
    kind, priority = tier
    if kind == LEAVING or (kind == RECLAIMABLE and preemptor.recovery):
        return True
    return preemptor.may_preempt and priority < preemptor.priority


class VictimColumns:
    """The columns of all nodes. Those of firm victims count for firm work as well."""

    def __init__(self) -> None:
        self.stale: Truths = np.zeros(0, np.bool_)
        self._tiers: dict[Tier, int] = {}
        #: By tier, resource and row: amounts of all work, and of firm work.
        self._any: Numbers = np.zeros((0, 0, 0), np.int64)
        self._firm: Numbers = np.zeros((0, 0, 0), np.int64)
        #: By node with slots that wait for victims: what these free beyond them, for all and for firm work.
        self.later: dict[Revision, tuple[Resources, Resources]] = {}

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to every column."""
        self.stale = change(self.stale)
        self._any, self._firm = change(self._any), change(self._firm)

    def count(self, table: NodeTable, state: RegionState, proposed: Container[SlotKey]) -> bool:
        """Count rows that changed, without victims that are `proposed`. Return whether all rows are counted."""
        left = SLOTS_MAX
        for row in np.flatnonzero(self.stale).tolist():
            usage = table.usages[row]
            if left <= 0:
                return False
            left -= len(usage.slots) // KEY_BYTES + 1
            self._count_row(table, state, row, usage, proposed)
            self.stale[row] = False
        return True

    def _count_row(
        self, table: NodeTable, state: RegionState, row: int, usage: NodeUsage, proposed: Container[SlotKey]
    ) -> None:
        alike: dict[tuple[Revision, str, bool, bool], int] = {}
        clusters: dict[SlotKey, list[Slot]] = {}
        for key in slot_keys(usage):
            slot = state.slots.get(key)
            if slot is not None and slot.successor is not None:
                clusters.setdefault(slot.successor, []).append(slot)
            if slot is not None and key not in proposed and may_leave(state, slot):
                kind = slot.assignment, slot.template, slot.firm, slot.phase is Phase.TERMINATING
                alike[kind] = alike.get(kind, 0) + 1
        sums: dict[Tier, tuple[Resources, Resources]] = {}
        for (assignment, template, is_firm, leaves), count in alike.items():
            tier = _tier(state, assignment, firm=is_firm, leaves=leaves)
            any_, firm = sums.get(tier, (ZERO, ZERO))
            more = times(state.templates[template].need, count)
            sums[tier] = add(any_, more), add(firm, more) if is_firm else firm
        self.later.pop(int(table.uids[row]), None)
        if clusters:
            self.later[int(table.uids[row])] = _later(state, clusters)
        names = list(table.resources)
        self._fit(sums, len(names), table.count)
        self._any[:, :, row] = self._firm[:, :, row] = 0
        for tier, (any_, firm) in sums.items():
            number = self._tiers[tier]
            self._any[number, :, row] = [amount_of(any_, name) for name in names]
            self._firm[number, :, row] = [amount_of(firm, name) for name in names]

    def _fit(self, tiers: dict[Tier, Any], resources: int, rows: int) -> None:
        """Add columns for new tiers and resources."""
        for tier in tiers:
            self._tiers.setdefault(tier, len(self._tiers))
        more = len(self._tiers) - len(self._any), resources - self._any.shape[1], rows - self._any.shape[2]
        if any(more):
            self._any, self._firm = (np.pad(one, [(0, size) for size in more]) for one in (self._any, self._firm))

    def ranks(
        self, table: NodeTable, preemptor: Preemptor, needs: list[tuple[int, int]], *, firm: bool
    ) -> tuple[Numbers, list[Tier]]:
        """Return for each row how many tiers it takes until enough is free of `needs` (resource and amount), and the
        highest tier of each number."""
        found: Numbers = np.full(table.count, NEVER, np.int64)
        any_ = [table.free_any[number].copy() for number, _ in needs]
        firmly = [table.free_firm[number].copy() for number, _ in needs] if firm else []
        usable = sorted(tier for tier in self._tiers if is_open_to(tier, preemptor))
        for rank, tier in enumerate([None, *usable]):
            if tier is not None:
                at = self._tiers[tier]
                for place, (number, _) in enumerate(needs):
                    any_[place] += self._any[at, number]
                    if firm:
                        firmly[place] += self._firm[at, number]
            enough = found == NEVER
            for place, (_, amount) in enumerate(needs):
                enough &= any_[place] >= amount
                if firm:
                    enough &= firmly[place] >= amount
            found[enough] = rank
        return found, [(LEAVING, 0), *usable]


def _later(state: RegionState, clusters: dict[SlotKey, list[Slot]]) -> tuple[Resources, Resources]:
    """Return what victims free beyond their successors, for all and for firm work."""
    any_ = firm = ZERO
    for key, victims in clusters.items():
        successor = state.slots.get(key)
        if successor is not None:
            need = state.templates[successor.template].need
            leaving = total(state.templates[one.template].need for one in victims)
            staying = total(state.templates[one.template].need for one in victims if one.firm)
            any_ = add(any_, clamp_zero(subtract(leaving, need)))
            firm = add(firm, clamp_zero(subtract(staying, need if successor.firm else ZERO)))
    return any_, firm
