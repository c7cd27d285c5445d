"""Nodes and victims for slots of a group that no node accepts: a stage after the filters.

    filters but those that victims cure ──▶ rows where victims free enough, best first ──▶ the best victims of some rows
        ──▶ one slot per node and round ──▶ added to the draft ──▶ next round, on what that has left

Rows are ordered by how many tiers of victims it takes, by how much they lack, and by their tie rank. The victims are
chosen exactly, on the `BEST_ROWS` first rows that have some. Nothing is preempted before all columns are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.values.resources import (
    ZERO,
    Resources,
    add,
    amount_of,
    clamp_zero,
    elementwise_max,
    subtract,
    total,
)
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.queries.assignments import disruption_left
from holdfast.core.region.queries.preemptions import Preemptor, is_reclaimed, preemptions_left, refuse_victim
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.framework import SchedulingProfile, VictimPlugin, spares
from holdfast.core.scheduling.nodes.claims import Takeover
from holdfast.core.scheduling.nodes.table import Numbers
from holdfast.core.scheduling.nodes.tie_break import bits_for, tie_ranks
from holdfast.core.scheduling.nodes.victims import LEAVING, NEVER, is_open_to, tier_of
from holdfast.core.scheduling.nodes.window import all_rows
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.quota_gates import protected_gate
from holdfast.core.scheduling.selection import PassContext, apply_filters
from holdfast.core.scheduling.victims.choice import Cost, Lack, Victim, choose_victims, cost_of, is_allowed

#: Rows whose victims are compared exactly for one slot.
BEST_ROWS = 8
#: Rows examined for one group in a round at most: on some, budgets and run times spare all victims.
ROWS_MAX = 256
#: Limit of the part of a row's key that says how much it lacks.
_LACK_MAX = (1 << 20) - 1


class ChosenVictims(Struct, frozen=True):
    """A row for one slot, with the victims that end first."""

    row: int
    victims: tuple[Victim, ...]
    cost: Cost

    @property
    def takeover(self) -> Takeover:
        """What the placement takes over."""
        return Takeover(tuple([one.key for one in self.victims]), 0, sum([one.limited for one in self.victims]))


class Preemption:
    """The search for one group. `rows` are those that pass every filter that victims do not cure."""

    def __init__(
        self,
        passing: PassContext,
        state: RegionState,
        now: Instant,
        flight: InFlight,
        preemptor: Preemptor,
        plugins: Sequence[VictimPlugin],
    ) -> None:
        self._passing, self._table, self._ask = passing, passing.table, passing.ask
        self._state, self._now, self._flight = state, now, flight
        self._preemptor, self._plugins = preemptor, plugins
        #: The resources that it needs, their rows in the table, and the amounts.
        amounts, resources = self._table.amounts(self._ask.template.need), self._table.resources
        self._needs = [(name, resources[name], amount) for name, amount in amounts if name in resources]
        self._is_known = len(self._needs) == len(amounts)
        self._stops = dict(flight.stops)
        self._left = preemptions_left(state, now, flight.preempted)
        self._standing: Resources = flight.firm

    def choose(self, count: int) -> list[ChosenVictims]:
        """Return up to `count` nodes with victims, one slot on each: for one round."""
        found: list[ChosenVictims] = []
        rows = iter(self._rows() if self._is_known else ())
        pool: list[ChosenVictims] = []
        for _ in range(count):
            while len(pool) < BEST_ROWS and (row := next(rows, None)) is not None:
                chosen = self._on(row)
                if chosen is not None:
                    pool.append(chosen)
            while pool:
                best = min(pool, key=lambda one: one.cost)
                pool.remove(best)
                if self._is_allowed(best):
                    found.append(best)
                    self._spend(best)
                    break
                again = self._on(best.row)  # budgets were spent on slots before it
                if again is not None:
                    pool.append(again)
            else:
                break
        return found

    def _rows(self) -> list[int]:
        """Return the rows that may do, best first."""
        table, ask, passing = self._table, self._ask, self._passing
        others = tuple(one for one in passing.rules.filters if not getattr(one, "is_cured_by_victims", False))
        window = all_rows(table, ask, passing.avoided, passing.domains)
        mask = apply_filters(SchedulingProfile(others, (), True), window, {})
        mask &= table.devices.there(ask.template, slice(0, table.count))
        ranks = table.victims.ranks(table, self._preemptor, [one[1:] for one in self._needs], firm=ask.firm)
        rows: Numbers = np.flatnonzero(mask & (ranks < NEVER))
        if not len(rows):
            return []
        short: Numbers = np.zeros(len(rows), np.int64)
        for _, number, amount in self._needs:
            free = table.free_any[number, rows]
            if ask.firm:
                free = np.minimum(free, table.free_firm[number, rows])
            short += np.maximum(0, amount - free) * 1_000 // np.maximum(table.capacity[number, rows], 1)
        bits = bits_for(table.count)
        keys = (ranks[rows] << 20 | np.minimum(short, _LACK_MAX)) << bits | tie_ranks(rows.copy(), passing.seed, bits)
        ordered: list[int] = rows[np.argsort(keys, kind="stable")][:ROWS_MAX].tolist()
        return [row for row in ordered if self._is_open(row)] if passing.domains is not None else ordered

    def _is_open(self, row: int) -> bool:
        """Whether the rules over domains accept the node."""
        domains, node = self._passing.domains, self._table.nodes[row]
        assert domains is not None
        return domains.takes(node) > 0 and domains.closed_by(domains.lane(node)) is None

    def _on(self, row: int) -> ChosenVictims | None:
        """Return the best victims on one row."""
        victims = self._victims(row)
        found = choose_victims(victims, self._lack(row, victims)) if victims else None
        if not found:
            return None
        return ChosenVictims(row, tuple(found), cost_of(found))

    def _is_allowed(self, chosen: ChosenVictims) -> bool:
        """Whether it is within what the choices before it have left of budgets and limits."""
        victims = [*chosen.victims]
        lack = Lack((), (), self._budgets(victims), self._left, lambda _: True)
        return is_allowed(victims, lack) and self._leaves_protected(victims)

    def _victims(self, row: int) -> list[Victim]:
        """Return the slots on a row that may be stopped now."""
        state, found = self._state, list[Victim]()
        for key in slot_keys(self._table.usages[row]):
            slot = state.slots.get(key)
            tier = tier_of(state, slot) if slot is not None and key not in self._flight.victims else None
            if slot is None or tier is None or not is_open_to(tier, self._preemptor):
                continue
            leaves, reclaimed = tier[0] == LEAVING, is_reclaimed(self._preemptor, slot)
            if not leaves:
                lost = self._stops.get(slot.assignment, 0)
                if refuse_victim(state, self._now, self._preemptor, slot, 0, lost) is not None:
                    continue
                if spares(self._plugins, self._ask, slot):
                    continue
            template = state.templates[slot.template]
            amounts = tuple([amount_of(template.need, name) for name, _, _ in self._needs])
            costs = slot.phase is Phase.SERVING and not leaves and not reclaimed
            firm = amounts if slot.firm else (0,) * len(amounts)
            one = Victim(
                key, tier, amounts, firm, slot.bound_at, slot.devices, template.gpu_milli, slot.firm, slot.ports,
                slot.assignment if costs else 0, not leaves and not reclaimed,
            )  # fmt: skip
            found.append(one)
        return found

    def _lack(self, row: int, victims: list[Victim]) -> Lack:
        table, is_firm = self._table, self._ask.firm
        lacks = [max(0, amount - table.free_any.item(number, row)) for _, number, amount in self._needs]
        firm = [is_firm * max(0, amount - table.free_firm.item(number, row)) for _, number, amount in self._needs]
        budgets = self._budgets(victims)
        return Lack(tuple(lacks), tuple(firm), budgets, self._left, lambda found: self._suits(row, found))

    def _budgets(self, victims: Sequence[Victim]) -> dict[Revision, int]:
        """Return how many serving replicas of each assignment may still be stopped."""
        state, named = self._state, dict.fromkeys([one.budget for one in victims if one.budget])
        return {uid: disruption_left(state, state.assignments[uid], self._stops.get(uid, 0)) for uid in named}

    def _suits(self, row: int, victims: list[Victim]) -> bool:
        """Whether devices, ports and protected capacity allow it."""
        template, devices = self._ask.template, self._table.devices
        if template.gpus:
            freed: dict[int, tuple[int, int]] = {}
            for victim in victims:
                for index in victim.devices:
                    any_, firm = freed.get(index, (0, 0))
                    freed[index] = any_ + victim.milli, firm + (victim.milli if victim.is_firm else 0)
            if len(devices.pick(row, template, firm=self._ask.firm, freed=freed)) < template.gpus:
                return False
        if template.ports:
            free = frozenset(port for victim in victims for port in victim.ports)
            node, usage = self._table.nodes[row], self._table.usages[row]
            if len(devices.pick_ports(node, usage, template.ports, free)) < template.ports:
                return False
        return self._leaves_protected(victims)

    def _leaves_protected(self, victims: list[Victim]) -> bool:
        """Whether what the slot takes beyond its victims leaves the capacity of protected tenants free."""
        if not self._ask.firm or self._state.totals.shield == ZERO:
            return True
        beyond = self._beyond([one.key for one in victims])
        return protected_gate(self._state, self._ask, self._standing, self._flight.owed, clamp_zero(beyond)).most > 0

    def _beyond(self, victims: Sequence[SlotKey]) -> Resources:
        state = self._state
        slots = [state.slots[key] for key in victims]
        before = total(state.templates[slot.template].need for slot in slots if slot.firm)
        return subtract(elementwise_max(before, self._ask.template.need), before)

    def _spend(self, chosen: ChosenVictims) -> None:
        """Count a choice before it is in the draft."""
        for victim in chosen.victims:
            if victim.budget:
                self._stops[victim.budget] = self._stops.get(victim.budget, 0) + 1
            self._left -= victim.limited
        if self._ask.firm:
            self._standing = add(self._standing, self._beyond([one.key for one in chosen.victims]))
