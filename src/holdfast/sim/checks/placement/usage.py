"""Usage of a region, counted from its stored rows: no sum of the ledger is trusted.

Amounts are plain dicts by the name of the resource; a missing resource is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node, NodeHealth
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Instant, SlotKey
from holdfast.core.region.state.tables import RegionState

Amounts = dict[str, int]

NOWHERE = (Phase.PENDING, Phase.RELEASED)


def amounts(of: Resources) -> Amounts:
    """Return every resource by its name."""
    return {"cpu": of.cpu, "memory": of.memory, "disk": of.disk, "gpu": of.gpu, **dict(of.extended)}


def grow(into: Amounts, by: Amounts) -> None:
    """Add one amount to another."""
    for name, amount in by.items():
        into[name] = into.get(name, 0) + amount


def larger(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger amount of each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def is_open(node: Node) -> bool:
    """Return whether a node accepts new slots: its agent has a session, and no operator closed it."""
    closed = node.cordoned or node.draining or node.health is not NodeHealth.READY
    return node.session != 0 and not closed


def outlives_its_fence(node: Node, settings: Settings) -> bool:
    """Return whether a process there may outlive the fence of its identity, since its agent uses older settings."""
    slow = -(-settings.session_lease * settings.drift_per_million // 1_000_000)
    return settings.session_lease + slow + node.overrun > settings.fence_time


def place_of(node: Node, key: str) -> str:
    """Return the node's domain of a topology key."""
    return {"zone": node.zone, "pool": node.pool, "node": node.name}[key]


class CountedNode:
    """Usage of a node: firm work, all work, holds; ports; the slots and holds."""

    def __init__(self) -> None:
        self.firm: Amounts = {}
        self.all: Amounts = {}
        self.held: Amounts = {}
        self.ports: set[int] = set()
        self.slots: list[Slot] = []
        self.holds: list[Reservation] = []

    def take(self, firm: Amounts, everything: Amounts) -> None:
        """Add usage."""
        grow(self.firm, firm)
        grow(self.all, everything)


class CountedRegion:
    """Usage of a region at one ledger time, without some slots."""

    def __init__(self, state: RegionState, at: Instant, without: Collection[SlotKey] = ()) -> None:
        self.state, self.at = state, at
        self.nodes = dict(state.nodes.items())
        self.slots = {key: slot for key, slot in state.slots.items() if key not in without}
        self.templates = dict(state.templates.items())
        self.on = {uid: CountedNode() for uid in self.nodes}
        #: By account: its charge, and what its firm slots on nodes use.
        self.charged: dict[str, Amounts] = {}
        self.placed: dict[str, Amounts] = {}
        for slot in self.slots.values():
            self._count_slot(slot)
        for hold in state.holds.values():
            where = self.on[hold.node]
            where.holds.append(hold)
            grow(where.held, _with_devices(amounts(hold.need), hold.devices, hold.device_milli))
            grow(self.charged.setdefault(hold.account, {}), amounts(hold.need))
        for where in self.on.values():
            self._count_node(where)

    def template(self, slot: Slot) -> Template:
        return self.templates[slot.template]

    def tenant(self, slot: Slot) -> str:
        return self.state.assignments[slot.assignment].tenant

    def standing(self) -> Iterable[Slot]:
        """Return every slot that is on a node."""
        return (slot for where in self.on.values() for slot in where.slots)

    def _count_slot(self, slot: Slot) -> None:
        need = amounts(self.template(slot).need)
        stands = slot.phase not in NOWHERE
        if stands:
            self.on[slot.node].slots.append(slot)
        if slot.account:
            grow(self.charged.setdefault(slot.account, {}), need)
            if stands and slot.firm:
                grow(self.placed.setdefault(slot.account, {}), need)

    def _count_node(self, where: CountedNode) -> None:
        """Count a node's slots. A successor and its victims use the larger of the two amounts."""
        for slot in where.slots:
            where.ports.update(slot.ports)
            if slot.successor is not None:
                continue
            mine = self._takes(slot)
            leaving = [self.slots[key] for key in slot.waits_for if key in self.slots]
            leaving = [one for one in leaving if one.successor == (slot.workload, slot.ordinal)]
            firm, everything = _sum(self._takes(one) for one in leaving if one.firm), _sum(map(self._takes, leaving))
            where.take(larger(firm, mine if slot.firm else {}), larger(everything, mine))

    def _takes(self, slot: Slot) -> Amounts:
        template = self.template(slot)
        return _with_devices(amounts(template.need), slot.devices, template.gpu_milli)


def _with_devices(need: Amounts, devices: Iterable[int], milli: int) -> Amounts:
    """Add the used devices to the amounts, each as its own resource."""
    return {**need, **{device(index): milli for index in devices}}


def device(index: int) -> str:
    """Return the resource name of one device."""
    return f"device {index}"


def _sum(many: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for one in many:
        grow(found, one)
    return found
