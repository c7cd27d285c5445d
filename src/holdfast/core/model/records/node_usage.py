"""Usage of a node by slots and holds, per resource and per device."""

from __future__ import annotations

import struct

from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Revision, Row, SlotKey

_KEY = struct.Struct(">QI")

#: Size of one packed key.
KEY_BYTES = _KEY.size


class DeviceUsage(Row, frozen=True):
    """Milli-GPU of one device: used by firm work, used by all work, and held by reservations."""

    firm: int = 0
    all: int = 0
    held: int = 0


class NodeUsage(Row, frozen=True):
    """Usage of a node: always the sum over its slots and reservations; see `region.state.node_usage`.

    The amount `firm` is of work that stays, `all` includes reclaimable work, `held` is of reservations. Firm work fits
    while firm + held and all are within capacity. Reclaimable work fits while all is: it may borrow what is held.
    `waiting` counts bindings that wait for other slots to end. `slots` and `holds` list what is placed on the node.
    Slot keys are packed, so that adding one is a short copy; `slot_keys` lists them.
    """

    firm: Resources = ZERO
    all: Resources = ZERO
    held: Resources = ZERO
    devices: tuple[DeviceUsage, ...] = ()
    ports: tuple[int, ...] = ()
    waiting: int = 0
    revision: Revision = 0
    slots: bytes = b""
    holds: tuple[Revision, ...] = ()


def slot_keys(usage: NodeUsage) -> list[SlotKey]:
    """Return the keys of the slots on a node, in the order in which they were placed."""
    return [(workload, ordinal) for workload, ordinal in _KEY.iter_unpack(usage.slots)]


def with_key(slots: bytes, key: SlotKey) -> bytes:
    """Return the packed keys with one more."""
    return slots + _KEY.pack(*key)


def without_key(slots: bytes, key: SlotKey) -> bytes:
    """Return the packed keys without one of them."""
    packed = _KEY.pack(*key)
    place = slots.index(packed)
    while place % _KEY.size:
        place = slots.index(packed, place + 1)
    return slots[:place] + slots[place + _KEY.size :]


class RegionTotals(Row, frozen=True):
    """Sums over all usable nodes: capacity, usage by firm work and holds, and the unused part of protected capacity."""

    capacity: Resources = ZERO
    taken: Resources = ZERO
    shield: Resources = ZERO


EMPTY_USAGE = NodeUsage()
