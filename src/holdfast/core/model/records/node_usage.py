"""What slots and holds take of a node: by resource and by device."""

from __future__ import annotations

import struct

from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Revision, Row, SlotKey

_KEY = struct.Struct(">QI")

#: What one key takes among the packed ones.
KEY_BYTES = _KEY.size


class DeviceUsage(Row, frozen=True):
    """Milli-GPU taken of one device: by firm work, by all work, and held by reservations."""

    firm: int = 0
    all: int = 0
    held: int = 0


class NodeUsage(Row, frozen=True):
    """What is taken of a node. Always the sum over its slots and reservations; see `region.state.node_usage`.

    `firm` counts work that stays, `all` also reclaimable work, `held` what reservations keep for later. Firm work fits
    while firm + held and all stay within capacity; reclaimable work fits while all does: it borrows what is held.
    `waiting` counts bindings here that wait for others to end; `slots` and `holds` are who stands here. The keys of
    slots are packed, so that one more is a short copy and not a touch of every key; `slot_keys` lists them.
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
    """The slots that stand in a room, in the order in which they came."""
    return [(workload, ordinal) for workload, ordinal in _KEY.iter_unpack(usage.slots)]


def with_key(slots: bytes, key: SlotKey) -> bytes:
    """The packed keys with one more."""
    return slots + _KEY.pack(*key)


def without_key(slots: bytes, key: SlotKey) -> bytes:
    """The packed keys without one that is among them."""
    packed = _KEY.pack(*key)
    place = slots.index(packed)
    while place % _KEY.size:
        place = slots.index(packed, place + 1)
    return slots[:place] + slots[place + _KEY.size :]


class RegionTotals(Row, frozen=True):
    """Over all usable nodes: what they have, what firm work and holds take, and what protected tenants are owed."""

    capacity: Resources = ZERO
    taken: Resources = ZERO
    shield: Resources = ZERO


EMPTY_USAGE = NodeUsage()
