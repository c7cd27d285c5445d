"""What one placement takes of its node: amounts, parts of devices, and ports.

A placement may take over the place of victims, which end first, and a hold. Until the victims have ended, a node has
the larger of what they free and what the successor needs, of each resource and device. So the placement takes only
what it needs beyond its victims, as the ledger counts it (`region.state.node_usage`). Firm work also takes less by what
its hold has reserved; this may be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.resources import ZERO, Resources, clamp_zero, elementwise_max, subtract, total
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk

#: A part of one device: its index, and the milli-GPU of all work and of firm work on it.
DevicePart = tuple[int, int, int]


class RowClaim(NamedTuple):
    """Total claim of several slots on a row."""

    row: int
    amounts: Resources
    slots: int
    firm: bool
    tenant: str


class DeviceClaim(Struct, frozen=True):
    """Parts of devices, and ports, that one slot takes."""

    parts: tuple[DevicePart, ...]
    ports: tuple[int, ...] = ()


def device_claim(devices: tuple[int, ...], milli: int, ports: tuple[int, ...], *, firm: bool) -> DeviceClaim:
    """Return the claim of a slot that takes nothing over."""
    return DeviceClaim(tuple([(index, milli, milli if firm else 0) for index in devices]), ports)


class Takeover(Struct, frozen=True):
    """The victims that end before a placement starts, and the hold that it uses.

    Of the victims, `limited` are preempted, which counts for the limit per minute, and `reclaimed` are taken back for
    recovery. The others stop anyway.
    """

    victims: tuple[SlotKey, ...] = ()
    hold: Revision = 0
    limited: int = 0
    reclaimed: int = 0


class NodeClaim(Struct, frozen=True):
    """What a placement with a takeover takes: amounts of all work and of firm work, devices and ports.

    `stops` are the assignments of victims that serve. `refund` is the charge of the hold, and its account. `later` is
    what the victims free beyond the successor, for all and for firm work, once they have ended.
    """

    amounts: Resources
    firm: Resources
    devices: DeviceClaim
    takeover: Takeover
    stops: tuple[Revision, ...] = ()
    refund: tuple[str, Resources] = ("", ZERO)
    later: tuple[Resources, Resources] = (ZERO, ZERO)


class Freed(Struct, frozen=True):
    """What victims and a hold free for their successor."""

    victims: tuple[Slot, ...]
    hold: Reservation | None
    #: By device: what victims free, for all work and for firm work; and what the hold frees for firm work.
    leaving: Mapping[int, tuple[int, int]]
    held: Mapping[int, int]

    @property
    def devices(self) -> dict[int, tuple[int, int]]:
        """The freed part of each device, for all work and for firm work."""
        indexes = dict.fromkeys((*self.leaving, *self.held))
        both = {index: self.leaving.get(index, (0, 0)) for index in indexes}
        return {index: (any_, firm + self.held.get(index, 0)) for index, (any_, firm) in both.items()}

    @property
    def ports(self) -> frozenset[int]:
        """The ports of the victims."""
        return frozenset(port for victim in self.victims for port in victim.ports)


def freed_by(state: RegionState, takeover: Takeover) -> Freed | None:
    """Return what a takeover frees; None if the state lacks a part of it."""
    victims = tuple([slot for slot in map(state.slots.get, takeover.victims) if slot is not None])
    hold = state.holds.get(takeover.hold) if takeover.hold else None
    if len(victims) < len(takeover.victims) or (takeover.hold and hold is None):
        return None
    leaving: dict[int, tuple[int, int]] = {}
    for victim in victims:
        milli = state.templates[victim.template].gpu_milli
        for index in victim.devices:
            any_, firm = leaving.get(index, (0, 0))
            leaving[index] = any_ + milli, firm + (milli if victim.firm else 0)
    held = dict.fromkeys(hold.devices, hold.device_milli) if hold is not None else {}
    return Freed(victims, hold, leaving, held)


def claim_of(state: RegionState, ask: SlotAsk, placement: SlotPlacement, freed: Freed, takeover: Takeover) -> NodeClaim:
    """Return what a placement takes of its node beyond what is freed for it."""
    need, hold = ask.template.need, freed.hold
    held = hold.need if hold is not None else ZERO
    leaving, leaving_firm = _needs(state, freed.victims), _needs(state, [one for one in freed.victims if one.firm])
    mine = need if ask.firm else ZERO
    amounts, firm = _beyond(leaving, need), _beyond(leaving_firm, mine)
    later = clamp_zero(subtract(leaving, need)), clamp_zero(subtract(leaving_firm, mine))
    parts = _device_parts(placement.devices, ask.template.gpu_milli, freed, firm=ask.firm)
    ports = tuple([port for port in placement.ports if port not in freed.ports])
    stops = tuple([victim.assignment for victim in freed.victims if victim.phase is Phase.SERVING])
    refund = (hold.account, held) if hold is not None else ("", ZERO)
    return NodeClaim(amounts, subtract(firm, held), DeviceClaim(parts, ports), takeover, stops, refund, later)


def _needs(state: RegionState, victims: Iterable[Slot]) -> Resources:
    return total(state.templates[victim.template].need for victim in victims)


def _beyond(leaving: Resources, coming: Resources) -> Resources:
    """Return what a cluster of victims and successor takes beyond its victims."""
    return subtract(elementwise_max(leaving, coming), leaving)


def _device_parts(devices: tuple[int, ...], milli: int, freed: Freed, *, firm: bool) -> tuple[DevicePart, ...]:
    """Return the parts of devices that a cluster takes beyond its victims, less what the hold reserved."""
    found = []
    for index in sorted({*devices, *freed.leaving, *freed.held}):
        coming = milli if index in devices else 0
        any_, firmly = freed.leaving.get(index, (0, 0))
        more = max(coming, any_) - any_
        more_firm = max(coming if firm else 0, firmly) - firmly - freed.held.get(index, 0)
        if more or more_firm:
            found.append((index, more, more_firm))
    return tuple(found)
