"""Free devices and ports of each node: one array row per index in a node's device list.

Devices are counted as in the ledger: in milli-GPU, each by itself, for all work and for firm work. The arrays have as
many rows as the node with most devices, and none without devices.

Size: columns that are kept in step, as in the node table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.node_usage import NodeUsage
from holdfast.core.model.records.nodes import Node, ports_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.scheduling.nodes.claims import DeviceClaim, DevicePart

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]

#: Milli-GPU of a whole device.
WHOLE = 1_000
#: The code of a missing device. Codes of models are above it.
_NO_MODEL = 0


_NONE_FREED: Mapping[int, tuple[int, int]] = {}


_NO_COSTS: Numbers = np.zeros(WHOLE + 1, np.int64)


class DeviceImage(NamedTuple):
    """What proposals in flight change of one row, at one time."""

    cells: list[Numbers]
    mine: list[DevicePart]
    ports: list[int]


class DeviceColumns:
    """Device and port columns of all nodes. `mine` is in flight."""

    def __init__(self, split_costs: Callable[[int], Numbers]) -> None:
        #: What taking a part of a device costs typical requests, by its free part; and whether `pick` compares it.
        self.split_costs, self.by_use = split_costs, False
        self.models: dict[str, int] = {}
        self._model: Numbers = np.zeros((0, 0), np.int64)
        #: Capacity of each device, and number of ports, used or not.
        self._milli: Numbers = np.zeros((0, 0), np.int64)
        self._handed_out: Numbers = np.zeros(0, np.int64)
        self.free_any: Numbers = np.zeros((0, 0), np.int64)
        self.free_firm: Numbers = np.zeros((0, 0), np.int64)
        #: By row, for all work and for firm work: largest free part of one device; number of entirely free devices.
        self._most_any: Numbers = np.zeros(0, np.int64)
        self._most_firm: Numbers = np.zeros(0, np.int64)
        self._whole_any: Numbers = np.zeros(0, np.int64)
        self._whole_firm: Numbers = np.zeros(0, np.int64)
        self.ports: Numbers = np.zeros(0, np.int64)
        #: Whether a node has devices.
        self.equipped: Truths = np.zeros(0, np.bool_)
        #: Lowest free values since the last `improved_rows`. The total of `gpu` does not show that one device became
        #: free when another was taken.
        self._least_any: Numbers = np.zeros((0, 0), np.int64)
        self._least_firm: Numbers = np.zeros((0, 0), np.int64)
        self._fewest_ports: Numbers = np.zeros(0, np.int64)
        #: By node: parts of devices in flight, and ports.
        self._mine: dict[Revision, list[DevicePart]] = {}
        self._ports: dict[Revision, list[int]] = {}

    def describe(self, row: int, node: Node) -> None:
        """Set the devices of a node."""
        more = len(node.devices) - len(self._model)
        if more > 0:
            none = np.full((more, len(self.ports)), _NO_MODEL, np.int64)
            self._model = np.concatenate([self._model, none])
            for column in ("_milli", *_FREE):
                setattr(self, column, np.concatenate([getattr(self, column), np.zeros_like(none)]))
        if len(self._model):
            codes = [self.models.setdefault(device.model, len(self.models) + 1) for device in node.devices]
            others = [0] * (len(self._model) - len(codes))
            self._model[:, row] = codes + [_NO_MODEL] * len(others)
            self._milli[:, row] = [device.milli for device in node.devices] + others
        self._handed_out[row] = len(ports_of(node))
        self.equipped[row] = bool(node.devices)
        if not node.devices:  # sums are computed only for nodes with devices
            for name in _SUMS:
                getattr(self, name)[row] = 0

    def recount(self, rows: Sequence[int], nodes: list[Node], usages: list[NodeUsage]) -> None:
        """Recompute free devices and ports of these rows."""
        equipped: list[int] = []
        left: list[tuple[list[int], list[int]]] = []
        free: list[int] = []
        for row in rows:
            node, room = nodes[row], usages[row]
            there = ports_of(node)
            # The node's port range may have changed since its ports were taken.
            mine = self._ports.get(node.uid, ())
            taken = {port for port in (*room.ports, *mine) if port in there} if room.ports or mine else ()
            free.append(len(there) - len(taken))
            if node.devices:
                equipped.append(row)
                left.append(self._left(node, room))
        at = np.array(rows, np.int64)
        self.ports[at] = free
        self._fewest_ports[at] = np.minimum(self._fewest_ports[at], self.ports[at])
        if equipped:
            self._put_devices(np.array(equipped, np.int64), np.array(left, np.int64))

    def _put_devices(self, at: Numbers, left: Numbers) -> None:
        """Set free device parts of these rows: by row, all or firm work, index."""
        self.free_any[:, at], self.free_firm[:, at] = left.transpose(1, 2, 0)
        self._least_any[:, at] = np.minimum(self._least_any[:, at], self.free_any[:, at])
        self._least_firm[:, at] = np.minimum(self._least_firm[:, at], self.free_firm[:, at])
        any_, firmly = left[:, 0], left.min(axis=1)
        self._most_any[at], self._most_firm[at] = any_.max(axis=1), firmly.max(axis=1)
        self._whole_any[at], self._whole_firm[at] = (any_ >= WHOLE).sum(axis=1), (firmly >= WHOLE).sum(axis=1)

    def _put_ports(self, row: int, free: int) -> None:
        self.ports[row] = free
        self._fewest_ports[row] = min(int(self._fewest_ports[row]), free)

    def improved_rows(self, at: Numbers) -> Truths:
        """Return which rows gained ports or device parts at some time since the last call."""
        more: Truths = self.ports[at] > self._fewest_ports[at]
        self._fewest_ports[at] = self.ports[at]
        if len(self._model):
            for free, least in ((self.free_any, self._least_any), (self.free_firm, self._least_firm)):
                more |= (free[:, at] > least[:, at]).any(axis=0)
                least[:, at] = free[:, at]
        return more

    def _left(self, node: Node, usage: NodeUsage) -> tuple[list[int], list[int]]:
        """Return the free part of each device for all and for firm work; 0 for a missing device."""
        none = [0] * (len(self._model) - len(node.devices))
        any_ = [device.milli for device in node.devices] + none
        firm = any_.copy()
        for index, taken in enumerate(usage.devices[: len(node.devices)]):
            any_[index] -= taken.all
            firm[index] -= taken.firm + taken.held
        for index, milli, firm_milli in self._mine.get(node.uid, ()):
            any_[index] -= milli
            firm[index] -= firm_milli
        return any_, firm

    def _sum_up(self, row: int) -> None:
        """Summarize the free devices of a row for quick checks."""
        left = self.free_any[:, row].tolist()
        firmly = [min(pair) for pair in zip(left, self.free_firm[:, row].tolist(), strict=True)]
        self._most_any[row], self._most_firm[row] = max(left), max(firmly)
        self._whole_any[row] = sum([one >= WHOLE for one in left])
        self._whole_firm[row] = sum([one >= WHOLE for one in firmly])

    def enough(self, template: Template, at: slice | Numbers, *, firm: bool) -> Truths:
        """Return which rows have enough free devices, of any model."""
        if template.gpus == 1:
            found: Truths = (self._most_firm if firm else self._most_any)[at] >= template.gpu_milli
            return found
        if template.gpu_milli == WHOLE:  # required of templates with several devices
            several: Truths = (self._whole_firm if firm else self._whole_any)[at] >= template.gpus
            return several
        parts: Truths = self.accepted(template, at, firm=firm, models=False).sum(axis=0) >= template.gpus
        return parts

    def there(self, template: Template, at: slice | Numbers) -> Truths:
        """Return which rows have the devices and ports at all, used or not."""
        found: Truths = self._handed_out[at] >= template.ports
        if template.gpus:
            fitting: Truths = (self._model[:, at] != _NO_MODEL) & (self._milli[:, at] >= template.gpu_milli)
            if template.gpu_models:
                fitting &= np.isin(self._model[:, at], self._codes(template))
            found &= fitting.sum(axis=0) >= template.gpus
        return found

    def _codes(self, template: Template) -> list[int]:
        """Codes of the accepted models."""
        return [self.models[name] for name in template.gpu_models if name in self.models]

    def accepted(self, template: Template, at: slice | Numbers, *, firm: bool, models: bool = True) -> Truths:
        """Return which devices have enough free and, with `models`, an accepted model, by index and row."""
        enough: Truths = self.free_any[:, at] >= template.gpu_milli
        if firm:
            enough &= self.free_firm[:, at] >= template.gpu_milli
        enough &= self._model[:, at] != _NO_MODEL
        if models and template.gpu_models:
            enough &= np.isin(self._model[:, at], self._codes(template))
        return enough

    @property
    def any(self) -> bool:
        """Whether any node has devices."""
        return bool(self.equipped.any())

    def parts(self, rows: Numbers) -> Numbers:
        """Return the free part of each device for all work, by index and row, within a whole device."""
        return np.clip(self.free_any[:, rows], 0, WHOLE)

    def model_codes(self, rows: Numbers) -> Numbers:
        """Return the code of each device's model, by index and row; 0 for a missing device."""
        found: Numbers = self._model[:, rows]
        return found

    def pick(
        self, row: int, template: Template, *, firm: bool, freed: Mapping[int, tuple[int, int]] = _NONE_FREED
    ) -> tuple[int, ...]:
        """Select devices on a row that has them: the part that costs typical requests least first, then the smallest
        free part, then the lowest index. `freed`: parts that victims and a hold free, for all work and for firm
        work."""
        # For a few numbers, lists are several times faster than arrays.
        left, firmly = self.free_any[:, row].tolist(), self.free_firm[:, row].tolist()
        for index, (any_, firm_) in freed.items():
            left[index] += any_
            firmly[index] += firm_
        codes = {self.models.get(name) for name in template.gpu_models}
        costs = self.split_costs(template.gpu_milli) if self.by_use else _NO_COSTS
        order = [
            (costs.item(min(left[index], WHOLE)), left[index], index)
            for index, model in enumerate(self._model[:, row].tolist())
            if left[index] >= template.gpu_milli and (not firm or firmly[index] >= template.gpu_milli)
            if model != _NO_MODEL and (not codes or model in codes)
        ]
        return tuple(sorted(index for _, _, index in sorted(order)[: template.gpus]))

    def pick_ports(self, node: Node, usage: NodeUsage, wanted: int, freed: Collection[int] = ()) -> tuple[int, ...]:
        """Return the lowest ports of a node that are neither used, unless `freed` by victims, nor proposed."""
        taken = {*usage.ports, *self._ports.get(node.uid, ())}.difference(freed)
        free = (port for port in ports_of(node) if port not in taken)
        return tuple(port for port, _ in zip(free, range(wanted), strict=False))

    def take(self, row: int, node: Revision, taken: DeviceClaim) -> None:
        """Count devices and ports as proposed on a node in this row."""
        for part in taken.parts:
            index, milli, firm_milli = part
            self._mine.setdefault(node, []).append(part)
            if milli:
                _lower(self.free_any, self._least_any, (index, row), milli)
            if firm_milli:
                _lower(self.free_firm, self._least_firm, (index, row), firm_milli)
        if taken.parts:
            self._sum_up(row)
        if taken.ports:
            self._ports.setdefault(node, []).extend(taken.ports)
            self._put_ports(row, int(self.ports[row]) - len(taken.ports))

    def give(self, node: Revision, taken: DeviceClaim) -> None:
        """Release a proposal's devices and ports. The node may have changed: its row, if any, must be recounted."""
        mine, ports = self._mine.pop(node, []), self._ports.pop(node, [])
        for part in taken.parts:
            mine.remove(part)
        for port in taken.ports:
            ports.remove(port)
        if mine:
            self._mine[node] = mine
        if ports:
            self._ports[node] = ports

    def image(self, row: int, node: Revision) -> DeviceImage:
        """Return what proposals in flight change of a row."""
        cells = [getattr(self, name)[..., row].copy() for name in _IN_FLIGHT]
        return DeviceImage(cells, [*self._mine.get(node, ())], [*self._ports.get(node, ())])

    def restore(self, row: int, node: Revision, image: DeviceImage) -> None:
        """Return a row to what it was when the image was taken."""
        for name, cell in zip(_IN_FLIGHT, image.cells, strict=True):
            getattr(self, name)[..., row] = cell
        for kept, before in ((self._mine, image.mine), (self._ports, image.ports)):
            if before:
                kept[node] = before  # type: ignore[assignment]
            else:
                kept.pop(node, None)

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Apply a change of rows to every column."""
        for column in (*_FREE, "_model", "_milli", "_handed_out", "ports", "equipped", "_fewest_ports", *_SUMS):
            setattr(self, column, change(getattr(self, column)))


def _lower(free: Numbers, least: Numbers, at: tuple[int, int], milli: int) -> None:
    """Subtract from one cell. Plain numbers are several times faster than arrays of one."""
    free[at] = left = free.item(at) - milli
    if left < least.item(at):
        least[at] = left


#: Free parts of devices, and their lowest values.
_FREE = ("free_any", "free_firm", "_least_any", "_least_firm")
#: Summaries of all devices of a row.
_SUMS = ("_most_any", "_most_firm", "_whole_any", "_whole_firm")
#: Columns that proposals in flight change.
_IN_FLIGHT = (*_FREE, "ports", "_fewest_ports", *_SUMS)
