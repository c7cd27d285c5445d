"""Images of rows: what proposals in flight change of a row, so that a draft can be taken back exactly."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.scheduling.nodes.devices import DeviceImage
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers

#: Columns of the node table that proposals in flight change.
_COLUMNS = (
    "_mine_any", "_mine_firm", "free_any", "free_firm", "_least_any", "_least_firm", "_touched", "_changed",
)  # fmt: skip


class RowImage(NamedTuple):
    """A row at one time. It is of use until rows move: within one cycle."""

    row: int
    cells: list[Numbers]
    slots: int
    devices: DeviceImage
    tenants: dict[str, int]


def image_of(table: NodeTable, row: int) -> RowImage:
    """Return what proposals in flight change of a row."""
    uid = int(table.uids[row])
    cells = [getattr(table, name)[..., row].copy() for name in _COLUMNS]
    slots = table.slots_in_flight.get(uid, 0)
    return RowImage(row, cells, slots, table.devices.image(row, uid), table.occupants.image(uid))


def restore_row(table: NodeTable, image: RowImage) -> None:
    """Return a row to what it was when the image was taken."""
    row = image.row
    uid = int(table.uids[row])
    table.touch(row)
    for name, cell in zip(_COLUMNS, image.cells, strict=True):
        getattr(table, name)[..., row] = cell
    if image.slots:
        table.slots_in_flight[uid] = image.slots
    else:
        table.slots_in_flight.pop(uid, None)
    table.victims.stale[row] = True
    table.devices.restore(row, uid, image.devices)
    table.occupants.restore(row, uid, image.tenants)
