"""The proposal builder: selected rows become placements per request, deducted as they are added."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.commands import PlacementGroup as Placed
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.devices import DeviceClaim
from holdfast.core.scheduling.nodes.domain_rules import DomainKey, standing_in
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.in_flight import InFlight, ProposedPart
from holdfast.core.scheduling.queue.request_groups import GroupKey, QueuedRequest, RequestGroup

#: Placements by request.
_Placed = tuple[tuple[QueuedRequest, tuple[SlotPlacement, ...]], ...]
#: A waiting slot: its request and its ordinal.
Waiting = tuple[QueuedRequest, int]
_NONE_CHARGED: Mapping[tuple[QueuedRequest, int], str] = {}


class ProposalBuilder:
    """The placements of one proposal, at most `PARTS_MAX`."""

    def __init__(self, state: RegionState, now: Instant, table: NodeTable, flight: InFlight) -> None:
        self._state = state
        self._now = now
        self._table = table
        self._flight = flight
        self.left = PARTS_MAX
        self.parts: list[ProposedPart] = []
        self.groups: list[Placed] = []
        #: The ask of each group.
        self.asks: list[SlotAsk] = []
        #: The key of each group's request group.
        self.waited: list[GroupKey] = []

    def slots(self, entries: list[QueuedRequest], payable: int, most: int) -> list[Waiting]:
        """Return the slots that can be paid for, in order. Charged slots need no payer."""
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

    def add(self, group: RequestGroup, slots: list[Waiting], rows: list[int], purses: tuple[int, ...]) -> int:
        """Place slots on rows, one each, and return their number. `purses`: slots that each account can pay."""
        template = group.ask.template
        simple = not (template.gpus or template.ports)
        placed: dict[QueuedRequest, list[SlotPlacement]] = {}
        for (entry, ordinal), row, uid in zip(slots, rows, self._table.uids[rows].tolist(), strict=False):
            placement = SlotPlacement(ordinal, uid) if simple else self._with_devices(group, ordinal, row, uid)
            if placement is None:
                continue
            if entry in placed:
                placed[entry].append(placement)
            else:
                placed[entry] = [placement]
        if not placed:
            return 0
        whole = tuple([(entry, tuple(placements)) for entry, placements in placed.items()])
        charged, count = _NONE_CHARGED, 0
        for entry, placements in whole:
            self._propose(entry, placements)
            count += len(placements)
            if entry.charged:
                charged = {**charged, **self._charged(entry, placements)}
            self.asks.append(group.ask)
            self.waited.append(group.key)
        paid = _paid(group.accounts, purses, count - len(charged))
        owed = self._owed(group.ask, paid, charged)
        part = ProposedPart(group.ask, whole, paid, self._stands(group.ask, whole), owed, charged)
        self._flight.count(part)
        self.parts.append(part)
        self.left -= count
        return count

    def _charged(
        self, entry: QueuedRequest, placements: tuple[SlotPlacement, ...]
    ) -> dict[tuple[QueuedRequest, int], str]:
        """Return the account of each placement that is already charged."""
        workload, found = self._state.assignments[entry.key[0]].workload, dict[tuple[QueuedRequest, int], str]()
        for ordinal in [one.ordinal for one in placements if one.ordinal in entry.charged]:
            slot = self._state.slots.get((workload, ordinal))
            found[entry, ordinal] = slot.account if slot is not None else ""
        return found

    def _owed(
        self, ask: SlotAsk, paid: tuple[tuple[str, int], ...], charged: Mapping[tuple[QueuedRequest, int], str]
    ) -> tuple[tuple[str, int], ...]:
        """Return how many placements use protected capacity of their account, charged ones included."""
        state = self._state
        if not ask.firm or state.totals.shield == ZERO:
            return ()
        counts = dict(paid)
        for account in charged.values():
            counts[account] = counts.get(account, 0) + 1
        rows = {account: state.accepted_grants.get(account) for account in counts}
        return tuple((account, counts[account]) for account, row in rows.items() if row and row.protected != ZERO)

    def _stands(self, ask: SlotAsk, placed: _Placed) -> tuple[DomainKey, ...]:
        """Return the domains under which the placements are counted, if any."""
        if not has_domain_rules(ask.template):
            return ()
        nodes, rows = self._table.nodes, self._table.rows
        return tuple(
            where
            for _, placements in placed
            for placement in placements
            for where in standing_in(ask, nodes[rows[placement.node]])
        )

    def _propose(self, entry: QueuedRequest, placements: tuple[SlotPlacement, ...]) -> None:
        """Add the placements of one request."""
        self.groups.append(Placed(*entry.key, placements))
        entry.propose({placement.ordinal for placement in placements})

    def _with_devices(self, group: RequestGroup, ordinal: int, row: int, uid: Revision) -> SlotPlacement | None:
        """Return a placement with devices and ports; None if the row has too few after all."""
        template, firm, devices = group.ask.template, group.ask.firm, self._table.devices
        picked = devices.pick(row, template, firm=firm) if template.gpus else ()
        node, room = self._table.nodes[row], self._table.usages[row]
        ports = devices.pick_ports(node, room, template.ports) if template.ports else ()
        if len(picked) < template.gpus or len(ports) < template.ports:
            return None
        devices.take(row, uid, DeviceClaim(picked, template.gpu_milli, ports, firm))
        return SlotPlacement(ordinal, uid, picked, ports)


def _paid(accounts: tuple[str, ...], purses: tuple[int, ...], count: int) -> tuple[tuple[str, int], ...]:
    """Distribute slots over the accounts, the first one as far as it can pay."""
    found = []
    for account, left in zip(accounts, purses, strict=False):
        paid = min(left, count)
        if paid:
            found.append((account, paid))
            count -= paid
    return tuple(found)
