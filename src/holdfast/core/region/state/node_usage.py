"""Usage of a node: the sum over its slots and holds.

A slot that waits for victims and these victims are one cluster. Of each resource it takes the larger of what the
victims free and what the successor needs. So no placement gets what a victim still uses, and nothing is lost if either
side ends first (RULES 15).
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.state.sparse_rows import add_count, put_or_drop
from holdfast.core.model.records.node_usage import (
    EMPTY_USAGE,
    DeviceUsage,
    NodeUsage,
    RegionTotals,
    slot_keys,
    with_key,
    without_key,
)
from holdfast.core.model.records.nodes import Node, usable
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_max, nonzero_amounts, subtract, total
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.state.node_kinds import node_kind, node_labels, with_count
from holdfast.core.region.state.tables import RegionState

Milli = dict[int, int]
_FREE = DeviceUsage()


def _devices(
    devices: tuple[DeviceUsage, ...], indexes: Iterable[int], firm: int, all_: int, held: int
) -> tuple[DeviceUsage, ...]:
    rooms = list(devices)
    for index in indexes:
        while len(rooms) <= index:
            rooms.append(DeviceUsage())
        usage = rooms[index]
        rooms[index] = DeviceUsage(usage.firm + firm, usage.all + all_, usage.held + held)
    while rooms and rooms[-1] == _FREE:
        rooms.pop()
    return tuple(rooms)


def with_slot(usage: NodeUsage, slot: Slot, need: Resources, milli: int, revision: Revision) -> NodeUsage:
    """Return the usage with one more slot that waits for no victim."""
    firm = milli if slot.firm else 0
    everything = add(usage.all, need)
    if slot.firm:
        kept = everything if usage.firm is usage.all else add(usage.firm, need)
    else:
        kept = usage.firm
    return NodeUsage(
        kept,
        everything,
        usage.held,
        _devices(usage.devices, slot.devices, firm, milli, 0) if slot.devices else usage.devices,
        tuple(sorted((*usage.ports, *slot.ports))) if slot.ports else usage.ports,
        usage.waiting,
        revision,
        with_key(usage.slots, (slot.workload, slot.ordinal)),
        usage.holds,
    )


def with_plain_slot(usage: NodeUsage, key: SlotKey, need: Resources, revision: Revision, *, firm: bool) -> NodeUsage:
    """Like `with_slot`, for the common case without devices, ports or extended resources.

    If all work is firm, `firm` and `all` are the same object, built once.
    """
    before = usage.all
    everything = Resources(
        before.cpu + need.cpu, before.memory + need.memory, before.disk + need.disk, before.gpu, before.extended
    )
    kept = usage.firm
    if firm:
        kept = everything if kept is before else add(kept, need)
    return NodeUsage(
        kept,
        everything,
        usage.held,
        usage.devices,
        usage.ports,
        usage.waiting,
        revision,
        with_key(usage.slots, key),
        usage.holds,
    )


def without_slot(usage: NodeUsage, slot: Slot, need: Resources, milli: int, revision: Revision) -> NodeUsage:
    """Return the usage without a slot that waited for no victim."""
    key = (slot.workload, slot.ordinal)
    firm = milli if slot.firm else 0
    going = {*slot.ports}
    everything = subtract(usage.all, need)
    kept = usage.firm
    if slot.firm:
        kept = everything if kept is usage.all else subtract(kept, need)
    return NodeUsage(
        kept,
        everything,
        usage.held,
        _devices(usage.devices, slot.devices, -firm, -milli, 0) if slot.devices else usage.devices,
        tuple(port for port in usage.ports if port not in going) if going else usage.ports,
        usage.waiting,
        revision,
        without_key(usage.slots, key),
        usage.holds,
    )


def with_hold(usage: NodeUsage, hold: Reservation, revision: Revision) -> NodeUsage:
    devices = _devices(usage.devices, hold.devices, 0, 0, hold.device_milli) if hold.devices else usage.devices
    held, holds = add(usage.held, hold.need), (*usage.holds, hold.uid)
    return NodeUsage(usage.firm, usage.all, held, devices, usage.ports, usage.waiting, revision, usage.slots, holds)


def without_hold(usage: NodeUsage, hold: Reservation, revision: Revision) -> NodeUsage:
    devices = _devices(usage.devices, hold.devices, 0, 0, -hold.device_milli) if hold.devices else usage.devices
    held, holds = subtract(usage.held, hold.need), tuple(uid for uid in usage.holds if uid != hold.uid)
    return NodeUsage(usage.firm, usage.all, held, devices, usage.ports, usage.waiting, revision, usage.slots, holds)


def remaining_victims(state: RegionState, slot: Slot) -> list[Slot]:
    """Return the victims for which a slot still waits."""
    key = (slot.workload, slot.ordinal)
    found = (state.slots.get(victim) for victim in slot.waits_for)
    return [victim for victim in found if victim is not None and victim.successor == key]


def _milli(state: RegionState, slots: Iterable[Slot]) -> Milli:
    use: Milli = {}
    for slot in slots:
        milli = state.templates[slot.template].gpu_milli
        for index in slot.devices:
            use[index] = use.get(index, 0) + milli
    return use


def _cluster_devices(usage: NodeUsage, leaving: Milli, coming: Milli, *, firm: bool) -> tuple[DeviceUsage, ...]:
    devices = usage.devices
    for index in sorted({**leaving, **coming}):
        amount = max(leaving.get(index, 0), coming.get(index, 0))
        devices = _devices(devices, (index,), amount if firm else 0, 0 if firm else amount, 0)
    return devices


def with_preemption(state: RegionState, usage: NodeUsage, slot: Slot, victims: list[Slot]) -> NodeUsage:
    """Return the usage with a waiting slot and its victims together."""
    need = state.templates[slot.template].need
    needs = [(victim, state.templates[victim.template].need) for victim in victims]
    firm_victims = [victim for victim in victims if victim.firm]
    firm_leaving = total(amount for victim, amount in needs if victim.firm)
    firm = elementwise_max(firm_leaving, need if slot.firm else ZERO)
    everything = elementwise_max(total(amount for _, amount in needs), need)
    coming = _milli(state, [slot])
    devices = _cluster_devices(usage, _milli(state, firm_victims), coming if slot.firm else {}, firm=True)
    room_so_far = NodeUsage(usage.firm, usage.all, usage.held, devices)
    devices = _cluster_devices(room_so_far, _milli(state, victims), coming, firm=False)
    ports = sorted((*usage.ports, *slot.ports, *(port for victim in victims for port in victim.ports)))
    return NodeUsage(
        add(usage.firm, firm),
        add(usage.all, everything),
        usage.held,
        devices,
        tuple(ports),
        usage.waiting + 1,
        usage.revision,
        usage.slots,
        usage.holds,
    )


def recount_usage(
    state: RegionState, node: Revision, revision: Revision, leaving: frozenset[tuple[int, int]] = frozenset()
) -> NodeUsage:
    """Recompute a node's usage from its slots and holds, without the slots in `leaving`."""
    before = state.node_usage.get(node) or EMPTY_USAGE
    usage = NodeUsage(revision=revision)
    for uid in before.holds:
        usage = with_hold(usage, state.holds[uid], revision)
    slots = before.slots
    for key in sorted(leaving):
        slots = without_key(slots, key)
    for key in slot_keys(before):
        if key in leaving:
            continue
        slot = state.slots[key]
        if slot.successor is not None:
            continue
        template = state.templates[slot.template]
        victims = remaining_victims(state, slot) if slot.waits_for else []
        if victims:
            usage = with_preemption(state, usage, slot, victims)
        else:
            usage = with_slot(usage, slot, template.need, template.gpu_milli, revision)
    return NodeUsage(
        usage.firm, usage.all, usage.held, usage.devices, usage.ports, usage.waiting, revision, slots, before.holds
    )


def put_node_usage(state: RegionState, node: Revision, usage: NodeUsage) -> None:
    """Replace a node's usage and update the region's totals."""
    before = state.node_usage.get(node) or EMPTY_USAGE
    state.node_usage.put(node, usage)
    if usable(state.nodes[node]):
        change = subtract(add(usage.firm, usage.held), add(before.firm, before.held))
        if change != ZERO:
            state.totals = RegionTotals(state.totals.capacity, add(state.totals.taken, change), state.totals.shield)


def count_node(state: RegionState, node: Node | None, before: Node | None) -> None:
    """Count a node that is added, changed or removed in totals, domains and kinds."""
    for one, sign in ((before, -1), (node, 1)):
        if one is None or not usable(one):
            continue
        usage = state.node_usage.get(one.uid) or EMPTY_USAGE
        taken = add(usage.firm, usage.held)
        change = add if sign > 0 else subtract
        sums = state.totals
        state.totals = RegionTotals(change(sums.capacity, one.capacity), change(sums.taken, taken), sums.shield)
        add_count(state.domains, ("zone", one.zone), sign)
        add_count(state.domains, ("pool", one.pool), sign)
        kind = node_kind(one)
        add_count(state.node_kinds, kind, sign)
        for label in node_labels(one, kind):
            add_count(state.node_labels, label, sign)
        for name, amount in nonzero_amounts(one.capacity):
            left = with_count(state.node_amounts.get((name, kind)) or (), amount, sign)
            put_or_drop(state.node_amounts, (name, kind), left)
