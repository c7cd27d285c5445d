"""Nodes and victims for slots of a group that no node accepts: a stage after the filters.

    filters but those that victims cure ──▶ rows where victims free enough, best first ──▶ the best victims of some rows
        ──▶ one slot per node and round ──▶ added to the draft ──▶ next round, on what that has left

Rows are ordered by how many tiers of victims it takes, by how much they lack, and by their tie rank. The victims are
chosen exactly, on the `BEST_ROWS` first rows that have some. Nothing is preempted before all columns are counted.

Size: one search, from the rows to the victims.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import slot_keys
from holdfast.core.model.records.slots import Slot
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
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.assignments import disruption_left
from holdfast.core.region.queries.preemptions import Preemptor, is_reclaimed, preemptions_left, spared_until
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.framework import SchedulingProfile, VictimPlugin, spares
from holdfast.core.scheduling.nodes.claims import Takeover
from holdfast.core.scheduling.nodes.table import Numbers, Truths
from holdfast.core.scheduling.nodes.tie_break import bits_for, tie_ranks
from holdfast.core.scheduling.nodes.victims import LEAVING, NEVER, Tier, is_open_to, may_leave, tier_of
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
        limited = sum([one.limited for one in self.victims])
        reclaimed = sum([not one.limited and one.tier[0] != LEAVING for one in self.victims])
        return Takeover(tuple([one.key for one in self.victims]), 0, limited, reclaimed)


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
        #: Whether amounts alone decide, so that what fits can be counted.
        self._is_plain = self._is_known and not (self._ask.template.gpus or self._ask.template.ports or passing.domains)
        #: The rows that every filter accepts that victims do not cure.
        self._accepts: Truths = np.zeros(0, np.bool_)
        self._stops = dict(flight.stops)
        self._left = preemptions_left(state, now, flight.preempted)
        self._standing: Resources = flight.firm
        #: Whether an amount leaves protected capacity free, beyond what stands.
        self._protects: dict[Resources, bool] = {}
        #: The highest tier that a row needs, by the columns.
        self._highest: dict[int, Tier] = {}

    def choose(self, count: int, promised: dict[Revision, int]) -> list[ChosenVictims]:
        """Return nodes with victims for up to `count` slots, one slot on each: for one round.

        Slots that fit into what victims free beyond their successors wait for that: nothing is stopped for them. It is
        counted once per cycle, by node in `promised`.
        """
        found: list[ChosenVictims] = []
        rows = iter(self._rows() if self._is_known else ())
        pool: list[ChosenVictims] = []
        count -= self._waits_for_later(promised)
        while count > 0:
            count -= 1
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
                    count -= self._fits_beside(best)
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
        self._accepts = mask
        ranks, tiers = table.victims.ranks(table, self._preemptor, [one[1:] for one in self._needs], firm=ask.firm)
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
        self._highest = {row: tiers[rank] for row, rank in zip(ordered, ranks[ordered].tolist(), strict=True)}
        return [row for row in ordered if self._is_open(row)] if passing.domains is not None else ordered

    def _waits_for_later(self, promised: dict[Revision, int]) -> int:
        """Return how many slots fit into what victims on accepting nodes free later, and promise it."""
        table, later = self._table, {**self._table.victims.later}
        for node, (any_, firm) in self._flight.later.items():
            known = later.get(node, (ZERO, ZERO))
            later[node] = add(known[0], any_), add(known[1], firm)
        found = 0
        for node, amounts in later.items() if self._is_plain else ():
            row = table.rows.get(node)
            if row is None or not self._accepts[row]:
                continue
            fits = self._count_fitting(row, *amounts) - promised.get(node, 0)
            if fits > 0:
                promised[node] = promised.get(node, 0) + fits
                found += fits
        return found

    def _fits_beside(self, chosen: ChosenVictims) -> int:
        """Return how many more slots fit on a node once the victims have ended, beside the successor."""
        if not self._is_plain:
            return 0
        need = self._ask.template.need
        any_ = subtract(total([one.need for one in chosen.victims]), need)
        firm = subtract(total([one.need for one in chosen.victims if one.is_firm]), need if self._ask.firm else ZERO)
        return self._count_fitting(chosen.row, any_, firm)

    def _count_fitting(self, row: int, any_: Resources, firm: Resources) -> int:
        """Return how many slots fit on a row when these amounts are free as well."""
        table, fits = self._table, PARTS_MAX
        for name, number, amount in self._needs:
            fits = min(fits, (table.free_any.item(number, row) + amount_of(any_, name)) // amount)
            if self._ask.firm:
                fits = min(fits, (table.free_firm.item(number, row) + amount_of(firm, name)) // amount)
        return max(0, fits)

    def _is_open(self, row: int) -> bool:
        """Whether the rules over domains accept the node."""
        domains, node = self._passing.domains, self._table.nodes[row]
        assert domains is not None
        return domains.takes(node) > 0 and domains.closed_by(domains.lane(node)) is None

    def _on(self, row: int) -> ChosenVictims | None:
        """Return the best victims on one row."""
        found = self._choose(row, self._highest[row]) or self._choose(row, None)
        return ChosenVictims(row, tuple(found), cost_of(found)) if found else None

    def _choose(self, row: int, highest: Tier | None) -> list[Victim]:
        """Return the best victims of these tiers; None: of all that are open."""
        victims = self._victims(row, highest)
        return (choose_victims(victims, self._lack(row, victims)) if victims else None) or []

    def _is_allowed(self, chosen: ChosenVictims) -> bool:
        """Whether it is within what the choices before it have left of budgets and limits."""
        victims = [*chosen.victims]
        lack = Lack((), (), self._budgets(victims), self._left, lambda _: True)
        return is_allowed(victims, lack) and self._leaves_protected(victims)

    def _victims(self, row: int, highest: Tier | None) -> list[Victim]:
        """Return the slots on a row that may be stopped now, up to a tier."""
        state, found, mine = self._state, list[Victim](), self._preemptor
        for key in slot_keys(self._table.usages[row]):
            slot = state.slots.get(key)
            if slot is None or key in self._flight.victims or not may_leave(state, slot):
                continue
            tier = tier_of(state, slot)
            if not is_open_to(tier, mine) or (highest is not None and tier > highest):
                continue
            leaves, reclaimed = tier[0] == LEAVING, is_reclaimed(mine, slot)
            if not leaves and ((not reclaimed and self._is_spared(slot)) or spares(self._plugins, self._ask, slot)):
                continue
            template = state.templates[slot.template]
            amounts = tuple([amount_of(template.need, name) for name, _, _ in self._needs])
            firm = amounts if slot.firm else (0,) * len(amounts)
            costs = slot.phase is Phase.SERVING and not leaves and not reclaimed
            one = Victim(
                key, tier, amounts, firm, slot.bound_at, slot.devices, template.gpu_milli, slot.firm, slot.ports,
                template.need, slot.assignment if costs else 0, not leaves and not reclaimed,
            )  # fmt: skip
            found.append(one)
        return found

    def _is_spared(self, slot: Slot) -> bool:
        """Whether run time or budget spares a slot."""
        if self._now < spared_until(self._state, slot):
            return True
        if slot.phase is not Phase.SERVING:
            return False
        assignment = self._state.assignments[slot.assignment]
        return disruption_left(self._state, assignment, self._stops.get(assignment.uid, 0)) <= 0

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

    def _leaves_protected(self, victims: Sequence[Victim]) -> bool:
        """Whether what the slot takes beyond its victims leaves the capacity of protected tenants free."""
        if not self._ask.firm or self._state.totals.shield == ZERO:
            return True
        beyond = clamp_zero(self._beyond(victims))
        known = self._protects.get(beyond)
        if known is None:
            gate = protected_gate(self._state, self._ask, self._standing, self._flight.owed, beyond)
            known = self._protects[beyond] = gate.most > 0
        return known

    def _beyond(self, victims: Sequence[Victim]) -> Resources:
        before = total([one.need for one in victims if one.is_firm])
        return subtract(elementwise_max(before, self._ask.template.need), before)

    def _spend(self, chosen: ChosenVictims) -> None:
        """Count a choice before it is in the draft."""
        for victim in chosen.victims:
            if victim.budget:
                self._stops[victim.budget] = self._stops.get(victim.budget, 0) + 1
            self._left -= victim.limited
        if self._ask.firm:
            beyond = self._beyond(chosen.victims)
            if beyond != ZERO:
                self._standing = add(self._standing, beyond)
                self._protects.clear()
