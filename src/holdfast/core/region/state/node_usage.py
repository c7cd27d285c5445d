"""What stands on a node and what it takes.

A room is always the sum over its slots and holds. A binding that waits for others (its victims) and those others are
one cluster: together they take, of each resource, the larger of what leaves and what comes. So nobody is promised
what a victim still uses, and nothing is lost when either side goes first (RULES 15).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from holdfast.core.ledger.state.table import Table
from holdfast.core.model.records.node_usage import EMPTY_ROOM, DeviceRoom, Room, Sums, standing, with_key, without_key
from holdfast.core.model.records.nodes import Node, usable
from holdfast.core.model.records.slots import Reservation, Slot
from holdfast.core.model.values.resources import NOTHING, Resources, add, amounts_in, greatest, subtract, total
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.state.node_kinds import counted, kind_of, labels_of
from holdfast.core.region.state.tables import RegionState

K = TypeVar("K")


Milli = dict[int, int]
_FREE = DeviceRoom()


def _devices(
    devices: tuple[DeviceRoom, ...], indexes: Iterable[int], firm: int, all_: int, held: int
) -> tuple[DeviceRoom, ...]:
    rooms = list(devices)
    for index in indexes:
        while len(rooms) <= index:
            rooms.append(DeviceRoom())
        room = rooms[index]
        rooms[index] = DeviceRoom(room.firm + firm, room.all + all_, room.held + held)
    while rooms and rooms[-1] == _FREE:
        rooms.pop()
    return tuple(rooms)


def with_slot(room: Room, slot: Slot, need: Resources, milli: int, revision: Revision) -> Room:
    """The room once a slot that waits for nobody stands in it too."""
    firm = milli if slot.firm else 0
    everything = add(room.all, need)
    if slot.firm:
        kept = everything if room.firm is room.all else add(room.firm, need)
    else:
        kept = room.firm
    return Room(
        kept,
        everything,
        room.held,
        _devices(room.devices, slot.devices, firm, milli, 0) if slot.devices else room.devices,
        tuple(sorted((*room.ports, *slot.ports))) if slot.ports else room.ports,
        room.waiting,
        revision,
        with_key(room.slots, (slot.workload, slot.ordinal)),
        room.holds,
    )


def with_plain_slot(room: Room, key: SlotKey, need: Resources, revision: Revision, *, firm: bool) -> Room:
    """`with_slot` for the common case, without devices, ports or extended resources.

    Where all work is firm, `firm` and `all` are one and the same object: it is made once.
    """
    before = room.all
    everything = Resources(
        before.cpu + need.cpu, before.memory + need.memory, before.disk + need.disk, before.gpu, before.extended
    )
    kept = room.firm
    if firm:
        kept = everything if kept is before else add(kept, need)
    return Room(
        kept,
        everything,
        room.held,
        room.devices,
        room.ports,
        room.waiting,
        revision,
        with_key(room.slots, key),
        room.holds,
    )


def without_slot(room: Room, slot: Slot, need: Resources, milli: int, revision: Revision) -> Room:
    """The room once a slot that waited for nobody has left it."""
    key = (slot.workload, slot.ordinal)
    firm = milli if slot.firm else 0
    going = {*slot.ports}
    everything = subtract(room.all, need)
    kept = room.firm
    if slot.firm:
        kept = everything if kept is room.all else subtract(kept, need)
    return Room(
        kept,
        everything,
        room.held,
        _devices(room.devices, slot.devices, -firm, -milli, 0) if slot.devices else room.devices,
        tuple(port for port in room.ports if port not in going) if going else room.ports,
        room.waiting,
        revision,
        without_key(room.slots, key),
        room.holds,
    )


def with_hold(room: Room, hold: Reservation, revision: Revision) -> Room:
    """The room once it is held too."""
    devices = _devices(room.devices, hold.devices, 0, 0, hold.device_milli) if hold.devices else room.devices
    held, holds = add(room.held, hold.need), (*room.holds, hold.uid)
    return Room(room.firm, room.all, held, devices, room.ports, room.waiting, revision, room.slots, holds)


def without_hold(room: Room, hold: Reservation, revision: Revision) -> Room:
    """The room once the hold has ended."""
    devices = _devices(room.devices, hold.devices, 0, 0, -hold.device_milli) if hold.devices else room.devices
    held, holds = subtract(room.held, hold.need), tuple(uid for uid in room.holds if uid != hold.uid)
    return Room(room.firm, room.all, held, devices, room.ports, room.waiting, revision, room.slots, holds)


def victims_left(state: RegionState, slot: Slot) -> list[Slot]:
    """The slots that this one still waits for."""
    key = (slot.workload, slot.ordinal)
    found = (state.slots.get(victim) for victim in slot.after)
    return [victim for victim in found if victim is not None and victim.heir == key]


def _milli(state: RegionState, slots: Iterable[Slot]) -> Milli:
    use: Milli = {}
    for slot in slots:
        milli = state.templates[slot.template].gpu_milli
        for index in slot.devices:
            use[index] = use.get(index, 0) + milli
    return use


def _cluster_devices(room: Room, leaving: Milli, coming: Milli, *, firm: bool) -> tuple[DeviceRoom, ...]:
    devices = room.devices
    for index in sorted({**leaving, **coming}):
        amount = max(leaving.get(index, 0), coming.get(index, 0))
        devices = _devices(devices, (index,), amount if firm else 0, 0 if firm else amount, 0)
    return devices


def with_cluster(state: RegionState, room: Room, slot: Slot, victims: list[Slot]) -> Room:
    """The room once a waiting slot and the victims it waits for stand in it together."""
    need = state.templates[slot.template].need
    needs = [(victim, state.templates[victim.template].need) for victim in victims]
    firm_victims = [victim for victim in victims if victim.firm]
    firm_leaving = total(amount for victim, amount in needs if victim.firm)
    firm = greatest(firm_leaving, need if slot.firm else NOTHING)
    everything = greatest(total(amount for _, amount in needs), need)
    coming = _milli(state, [slot])
    devices = _cluster_devices(room, _milli(state, firm_victims), coming if slot.firm else {}, firm=True)
    room_so_far = Room(room.firm, room.all, room.held, devices)
    devices = _cluster_devices(room_so_far, _milli(state, victims), coming, firm=False)
    ports = sorted((*room.ports, *slot.ports, *(port for victim in victims for port in victim.ports)))
    return Room(
        add(room.firm, firm),
        add(room.all, everything),
        room.held,
        devices,
        tuple(ports),
        room.waiting + 1,
        room.revision,
        room.slots,
        room.holds,
    )


def recount(
    state: RegionState, node: Revision, revision: Revision, leaving: frozenset[tuple[int, int]] = frozenset()
) -> Room:
    """The node's room, counted anew from who stands there; `leaving` are counted no more."""
    before = state.rooms.get(node) or EMPTY_ROOM
    room = Room(revision=revision)
    for uid in before.holds:
        room = with_hold(room, state.holds[uid], revision)
    slots = before.slots
    for key in sorted(leaving):
        slots = without_key(slots, key)
    for key in standing(before):
        if key in leaving:
            continue
        slot = state.slots[key]
        if slot.heir is not None:
            continue
        template = state.templates[slot.template]
        victims = victims_left(state, slot) if slot.after else []
        if victims:
            room = with_cluster(state, room, slot, victims)
        else:
            room = with_slot(room, slot, template.need, template.gpu_milli, revision)
    return Room(room.firm, room.all, room.held, room.devices, room.ports, room.waiting, revision, slots, before.holds)


def put_room(state: RegionState, node: Revision, room: Room) -> None:
    """Replace a node's room and settle the region's sums."""
    before = state.rooms.get(node) or EMPTY_ROOM
    state.rooms.put(node, room)
    if usable(state.nodes[node]):
        change = subtract(add(room.firm, room.held), add(before.firm, before.held))
        if change != NOTHING:
            state.sums = Sums(state.sums.capacity, add(state.sums.taken, change), state.sums.shield)


def put_node(state: RegionState, node: Node | None, before: Node | None) -> None:
    """Count a node that came, changed or went into the sums, the domains and the kinds."""
    for one, sign in ((before, -1), (node, 1)):
        if one is None or not usable(one):
            continue
        room = state.rooms.get(one.uid) or EMPTY_ROOM
        taken = add(room.firm, room.held)
        change = add if sign > 0 else subtract
        sums = state.sums
        state.sums = Sums(change(sums.capacity, one.capacity), change(sums.taken, taken), sums.shield)
        _count(state.domains, ("zone", one.zone), sign)
        _count(state.domains, ("pool", one.pool), sign)
        kind = kind_of(one)
        _count(state.node_kinds, kind, sign)
        for label in labels_of(one, kind):
            _count(state.node_labels, label, sign)
        for name, amount in amounts_in(one.capacity):
            left = counted(state.node_amounts.get((name, kind)) or (), amount, sign)
            state.node_amounts.put((name, kind), left) if left else state.node_amounts.drop((name, kind))


def _count(table: Table[K, int], key: K, change: int) -> None:
    """Count in a table; none leave no row."""
    left = (table.get(key) or 0) + change
    table.put(key, left) if left else table.drop(key)
