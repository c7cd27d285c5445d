"""The proposal builder: selected rows become placements per request, deducted as they are added.

    savepoint ──▶ add, add, ... ──▶ keep, or take back: table, flight and queue are as they were

A placement may take over victims and a hold (`Takeover`). What has more than one step is tried in the draft: every step
sees the steps before it, and nothing is left of what is taken back. Savepoints may be nested, and last for one cycle.

Size: adding and taking back are one idea, each of which is read beside the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.commands import PlacementGroup as Placed
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.nodes.claims import NodeClaim, Takeover, claim_of, device_claim, freed_by
from holdfast.core.scheduling.nodes.domain_rules import DomainKey, standing_in
from holdfast.core.scheduling.nodes.row_images import RowImage, image_of, restore_row
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.proposed_parts import ProposedPart
from holdfast.core.scheduling.queue.request_groups import GroupKey, QueuedRequest, RequestGroup

#: Placements by request.
_Placed = tuple[tuple[QueuedRequest, tuple[SlotPlacement, ...]], ...]
#: A waiting slot: its request and its ordinal.
Waiting = tuple[QueuedRequest, int]
_NONE_CHARGED: Mapping[tuple[QueuedRequest, int], str] = {}


class Savepoint(Struct, frozen=True):
    """The size of a draft at one time, and how many savepoints were open."""

    depth: int
    parts: int
    groups: int
    left: int
    steps: int


class _Step(Struct, frozen=True):
    """What one `add` changed: rows as they were, and the waiting ordinals of its requests."""

    rows: tuple[RowImage, ...]
    waiting: tuple[tuple[QueuedRequest, list[int] | None], ...]


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
        #: Number of open savepoints, and the steps since the first of them.
        self._depth = 0
        self._steps: list[_Step] = []

    def savepoint(self) -> Savepoint:
        """Note the present size. Ends with `keep` or `take_back`."""
        found = Savepoint(self._depth, len(self.parts), len(self.groups), self.left, len(self._steps))
        self._depth += 1
        return found

    def keep(self, savepoint: Savepoint) -> None:
        """Keep everything since a savepoint, which ends; so do later ones."""
        self._close(savepoint)

    def take_back(self, savepoint: Savepoint) -> None:
        """Undo everything since a savepoint, which ends; so do later ones."""
        for step, part in zip(
            reversed(self._steps[savepoint.steps :]), reversed(self.parts[savepoint.parts :]), strict=True
        ):
            self._flight.uncount(part)
            for image in reversed(step.rows):
                restore_row(self._table, image)
            placed = dict(part.placed)
            for entry, waiting in step.waiting:
                entry.take_back({one.ordinal for one in placed[entry]}, waiting)
        del self._steps[savepoint.steps :], self.parts[savepoint.parts :]
        del self.groups[savepoint.groups :], self.asks[savepoint.groups :], self.waited[savepoint.groups :]
        self.left = savepoint.left
        self._close(savepoint)

    def _close(self, savepoint: Savepoint) -> None:
        assert savepoint.depth < self._depth, "the savepoint has ended"
        self._depth = savepoint.depth
        if not self._depth:
            self._steps.clear()

    def victims_since(self, groups: int) -> int:
        """Return the number of victims of all groups after the first ones."""
        return sum([len(one.waits_for) for group in self.groups[groups:] for one in group.placements])

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

    def add(
        self,
        group: RequestGroup,
        slots: list[Waiting],
        rows: list[int],
        purses: tuple[int, ...],
        takeovers: Sequence[Takeover] = (),
    ) -> int:
        """Place slots on rows, one each, and return their number. `purses`: slots that each account can pay.

        `takeovers`: one for each slot, or none at all.
        """
        images = tuple([image_of(self._table, row) for row in dict.fromkeys(rows)]) if self._depth else ()
        placed, claims = self._placements(group, slots, rows, takeovers)
        if not placed:
            return 0
        if self._depth:
            self._steps.append(_Step(images, tuple([(entry, entry.waiting) for entry in placed])))
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
        taken = tuple([claim for entry in placed for claim in claims.get(entry, ())])
        part = ProposedPart(group.ask, whole, paid, self._stands(group.ask, whole), owed, charged, taken)
        self._flight.count(part)
        self.parts.append(part)
        self.left -= count
        return count

    def _placements(
        self, group: RequestGroup, slots: list[Waiting], rows: list[int], takeovers: Sequence[Takeover]
    ) -> tuple[dict[QueuedRequest, list[SlotPlacement]], dict[QueuedRequest, list[NodeClaim]]]:
        """Return the placements by request; and what each takes, if there are takeovers."""
        template = group.ask.template
        simple = not (template.gpus or template.ports or takeovers)
        placed: dict[QueuedRequest, list[SlotPlacement]] = {}
        claims: dict[QueuedRequest, list[NodeClaim]] = {}
        named: set[SlotKey | Revision] = set()
        uids = self._table.uids[rows].tolist()
        for place, ((entry, ordinal), row, uid) in enumerate(zip(slots, rows, uids, strict=False)):
            if simple:
                placement: SlotPlacement | None = SlotPlacement(ordinal, uid)
            elif takeovers:
                over = takeovers[place]
                mine = {*over.victims, *((over.hold,) if over.hold else ())}
                found = self._take_over(group, ordinal, row, uid, over) if named.isdisjoint(mine) else None
                placement = found[0] if found else None
                if found:
                    named |= mine
                    claims.setdefault(entry, []).append(found[1])
            else:
                placement = self._with_devices(group, ordinal, row, uid)
            if placement is None:
                continue
            if entry in placed:
                placed[entry].append(placement)
            else:
                placed[entry] = [placement]
        return placed, claims

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
        devices.take(row, uid, device_claim(picked, template.gpu_milli, ports, firm=firm))
        return SlotPlacement(ordinal, uid, picked, ports)

    def _take_over(
        self, group: RequestGroup, ordinal: int, row: int, uid: Revision, takeover: Takeover
    ) -> tuple[SlotPlacement, NodeClaim] | None:
        """Return a placement with its takeover, and what it takes; None if a part is gone, proposed, or too little."""
        flight = self._flight
        freed = freed_by(self._state, takeover)
        if freed is None or takeover.hold in flight.holds or not flight.victims.isdisjoint(takeover.victims):
            return None
        ask, devices, node = group.ask, self._table.devices, self._table.nodes[row]
        template = ask.template
        picked = devices.pick(row, template, firm=ask.firm, freed=freed.devices) if template.gpus else ()
        free = freed.ports
        ports = devices.pick_ports(node, self._table.usages[row], template.ports, free) if template.ports else ()
        if len(picked) < template.gpus or len(ports) < template.ports:
            return None
        placement = SlotPlacement(ordinal, uid, picked, ports, takeover.victims, takeover.hold)
        claim = claim_of(self._state, ask, placement, freed, takeover)
        devices.take(row, uid, claim.devices)
        return placement, claim


def _paid(accounts: tuple[str, ...], purses: tuple[int, ...], count: int) -> tuple[tuple[str, int], ...]:
    """Distribute slots over the accounts, the first one as far as it can pay."""
    found = []
    for account, left in zip(accounts, purses, strict=False):
        paid = min(left, count)
        if paid:
            found.append((account, paid))
            count -= paid
    return tuple(found)
