"""A proposal in the making: chosen rows become placements, request by request, and are deducted as they are added."""

from __future__ import annotations

from collections import Counter

from holdfast.core.model.resources import NOTHING
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.workload import is_counted
from holdfast.core.region.charging import affordable
from holdfast.core.region.commands import NAMED_MAX, Placement
from holdfast.core.region.commands import Group as Placed
from holdfast.core.region.state import RegionState
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.devices import Taken
from holdfast.core.scheduling.domains import Where, standing_in
from holdfast.core.scheduling.flight import Flight, Part
from holdfast.core.scheduling.groups import Entry, Group, GroupKey
from holdfast.core.scheduling.table import NodeTable

#: Placements by request.
_Placed = tuple[tuple[Entry, tuple[Placement, ...]], ...]
#: A slot that waits: its request and its ordinal.
Waiting = tuple[Entry, int]


class Drafting:
    """Placements of one proposal, up to as many as one may name."""

    def __init__(self, state: RegionState, now: Instant, table: NodeTable, flight: Flight) -> None:
        self._state = state
        self._now = now
        self._table = table
        self._flight = flight
        self.left = NAMED_MAX
        self.parts: list[Part] = []
        self.groups: list[Placed] = []
        #: What each of the groups asks for.
        self.asks: list[Ask] = []
        #: With whom each of them waited.
        self.waited: list[GroupKey] = []

    def slots(self, entries: list[Entry], payable: int, most: int) -> list[Waiting]:
        """The slots of requests that can be paid for, in their order; those that are charged need no payer."""
        found: list[Waiting] = []
        most = min(most, self.left)
        for entry in entries:
            for ordinal in entry.look_up(self._state):
                if len(found) == most:
                    return found
                if ordinal in entry.charged:
                    found.append((entry, ordinal))
                elif payable > 0:
                    payable -= 1
                    found.append((entry, ordinal))
        return found

    def add(self, group: Group, slots: list[Waiting], rows: list[int]) -> int:
        """Place slots on rows, one on each; how many came to be placements."""
        need, spent = group.ask.template.need, self._flight.spent
        purse: list[list[str | int]] = [
            [account, max(0, affordable(self._state, account, self._now, need, spent.get(account, NOTHING)))]
            for account in group.accounts
        ]
        placed: dict[Entry, list[Placement]] = {}
        simple = not (group.ask.template.gpus or group.ask.template.ports)
        for (entry, ordinal), row, uid in zip(slots, rows, self._table.uids[rows].tolist(), strict=False):
            placement = Placement(ordinal, uid) if simple else self._with_devices(group, ordinal, row, uid)
            if placement is not None:
                placed.setdefault(entry, []).append(placement)
        if not placed:
            return 0
        whole = tuple([(entry, tuple(placements)) for entry, placements in placed.items()])
        unpaid = sum(self._propose(entry, placements) for entry, placements in whole)
        self.asks += [group.ask] * len(whole)
        self.waited += [group.key] * len(whole)
        paid = _paid(purse, unpaid)
        part = Part(group.ask, whole, paid, self._stands(group.ask, whole), self._owed(group.ask, whole, paid))
        self._flight.count(part)
        self.parts.append(part)
        count = sum(len(placements) for _, placements in whole)
        self.left -= count
        return count

    def _owed(self, ask: Ask, placed: _Placed, paid: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """By account that is owed protected room: how many placements take of that. What is charged has its payer."""
        state = self._state
        if not ask.firm or state.sums.shield == NOTHING:
            return ()
        counts = Counter(dict(paid))
        for entry, placements in placed:
            workload = state.assignments[entry.key[0]].workload
            for ordinal in [one.ordinal for one in placements if one.ordinal in entry.charged]:
                slot = state.slots.get((workload, ordinal))
                counts[slot.account if slot is not None else ""] += 1
        rows = {account: state.allowances.get(account) for account in counts}
        return tuple((account, counts[account]) for account, row in rows.items() if row and row.protected != NOTHING)

    def _stands(self, ask: Ask, placed: _Placed) -> tuple[Where, ...]:
        """Where placements are counted over domains, if they are."""
        if not is_counted(ask.template):
            return ()
        nodes, rows = self._table.nodes, self._table.rows
        return tuple(
            where
            for _, placements in placed
            for placement in placements
            for where in standing_in(ask, nodes[rows[placement.node]])
        )

    def _propose(self, entry: Entry, placements: tuple[Placement, ...]) -> int:
        """Add placements of one request; how many of them somebody has yet to pay for."""
        self.groups.append(Placed(*entry.key, placements))
        chosen = {placement.ordinal for placement in placements}
        entry.propose(chosen)
        return len(chosen - entry.charged)

    def _with_devices(self, group: Group, ordinal: int, row: int, uid: Revision) -> Placement | None:
        """A placement with the devices and ports that it takes; None when the row has not as many after all."""
        template, firm, devices = group.ask.template, group.ask.firm, self._table.devices
        picked = devices.pick(row, template, firm=firm) if template.gpus else ()
        ports = devices.pick_ports(self._table.nodes[row], self._table.rooms[row], template.ports)
        if len(picked) < template.gpus or len(ports) < template.ports:
            return None
        devices.take(row, uid, Taken(picked, template.gpu_milli, ports, firm))
        return Placement(ordinal, uid, picked, ports)


def _paid(purse: list[list[str | int]], count: int) -> tuple[tuple[str, int], ...]:
    """Who pays for so many slots, the first account as far as it can."""
    found = []
    for pocket in purse:
        account, left = str(pocket[0]), int(pocket[1])
        paid = min(left, count)
        if paid:
            found.append((account, paid))
            pocket[1] = left - paid
            count -= paid
    return tuple(found)
