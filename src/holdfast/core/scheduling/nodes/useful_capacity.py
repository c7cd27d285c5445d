"""How much of each node's device capacity typical requests could use, and how much of it one more slot would take away.

    typical shapes ──▶ per shape: what fits by devices, by cpu, by memory ──▶ the least of them ──▶ weighted sum
                                 before the slot, less after it ──▶ the loss

Capacity counts only as far as its companions reach: a device without free cpu is worth nothing. A fraction of a slot
counts by cpu and memory, and only entire slots by devices, since a device is not divided at will. All numbers are
integers in milli-GPU, times the weight of the shape.

Losses are stored per request and window. Only rows that pass the filters and changed since are computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np

from holdfast.core.model.objects.workloads import Template
from holdfast.core.scheduling.nodes.devices import WHOLE, Numbers, Truths
from holdfast.core.scheduling.nodes.typical_shapes import TypicalShape

#: Columns of losses that are stored, the most recently used ones.
COLUMNS_MAX = 256
#: Precision of the capacity per unit of cpu or memory, and the limits that keep products within 62 bits.
_BITS, _RATE_MAX, _AMOUNT_MAX = 20, 1 << 40, (1 << 22) - 1
#: Above every cost of a device.
_NEVER = 1 << 50


class RowRoom(NamedTuple):
    """What rows have free: cpu, memory, and each device with its model. Devices are by index and row."""

    cpu: Numbers
    memory: Numbers
    devices: Numbers
    models: Numbers


class RowUse(NamedTuple):
    """By shape and row: the weighted capacity that devices allow, and idle devices; by row: what can be used."""

    by_devices: Numbers
    idle: Numbers
    useful: Numbers


class LossColumn(NamedTuple):
    """Losses by row of a window, and the stamp of each row when its loss was computed."""

    losses: Numbers
    seen: Numbers


class UsefulCapacity:
    """The capacity of nodes that typical requests can use."""

    def __init__(self) -> None:
        self._columns: OrderedDict[Hashable, LossColumn] = OrderedDict()
        self._split_costs: dict[int, Numbers] = {}
        self._rows: RowUse | None = None
        self._seen: Numbers = np.zeros(0, np.int64)
        self._set((), {})

    def learn(self, shapes: tuple[TypicalShape, ...], models: Mapping[str, int]) -> None:
        """Use these typical shapes from now on. `models`: codes of the models that nodes have."""
        if shapes != self.shapes or len(models) != self._models:
            self._set(shapes, models)

    def _set(self, shapes: tuple[TypicalShape, ...], models: Mapping[str, int]) -> None:
        self.shapes, self._models = shapes, len(models)
        self.forget()
        self._split_costs.clear()
        worth: Numbers = np.array([one.weight * one.gpus * one.milli for one in shapes], np.int64)
        several = [at for at, one in enumerate(shapes) if one.gpus > 1]
        #: Shapes of several devices; their weighted capacity per slot, and devices per slot.
        self._several = np.array(several, np.int64)
        self._worth = worth[several][:, None]
        self._gpus = np.array([shapes[at].gpus for at in several], np.int64)[:, None]
        self._rates = [_rates(worth, [one.cpu for one in shapes]), _rates(worth, [one.memory for one in shapes])]
        #: By shape of one device and free part of it: the weighted capacity that entire slots use.
        self._parts: Numbers = np.zeros((len(shapes), WHOLE + 1), np.int64)
        for at, one in enumerate(shapes):
            if one.gpus == 1:
                self._parts[at] = worth[at] * (np.arange(WHOLE + 1, dtype=np.int64) // one.milli)
        #: By shape and code of a model: whether the shape accepts it. Code 0 is a missing device.
        self._accepts: Truths = np.array(
            [[False, *[not one.models or name in one.models for name in models]] for one in shapes], np.bool_
        ).reshape(len(shapes), len(models) + 1)

    def forget(self) -> None:
        """Forget what is stored by row: rows have moved."""
        self._columns.clear()
        self._rows = None

    def column(self, key: Hashable, rows: int) -> LossColumn:
        """Return the stored losses of a request in a window of so many rows."""
        found = self._columns.pop(key, None)
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.popitem(last=False)
            found = LossColumn(np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        self._columns[key] = found
        return found

    def now(self, rows: Numbers, stamps: Numbers, room: Callable[[Numbers], RowRoom]) -> RowUse:
        """Return what can be used of these rows now. Rows whose stamp is new are computed from their `room`."""
        if self._rows is None:
            each = len(self.shapes), len(stamps)
            self._rows = RowUse(np.zeros(each, np.int64), np.zeros(each, np.int64), np.zeros(len(stamps), np.int64))
            self._seen = np.zeros(len(stamps), np.int64)
        stale = rows[self._seen[rows] < stamps[rows]]
        if len(stale):
            found = self.use_of(room(stale))
            for stored, new in zip(self._rows, found, strict=True):
                stored[..., stale] = new
            self._seen[stale] = stamps[stale]
        return RowUse(*[one[..., rows] for one in self._rows])

    def use_of(self, room: RowRoom) -> RowUse:
        """Return what can be used of rows with this room."""
        accepts = self._accepts[:, room.models]
        by_devices: Numbers = (self._parts[:, room.devices] * accepts).sum(axis=1)
        idle: Numbers = ((room.devices >= WHOLE) & accepts).sum(axis=1)
        if len(self._several):
            by_devices[self._several] = idle[self._several] // self._gpus * self._worth
        return RowUse(by_devices, idle, self._reached(by_devices, room.cpu, room.memory))

    def loss(self, use: RowUse, room: RowRoom, template: Template, accepted: Truths | None) -> Numbers:
        """Return what one slot takes away from typical requests, by row that has room for it.

        `accepted`: devices that the slot accepts, by index and row; None for a slot without devices.
        """
        left = use.by_devices if accepted is None else self._left(use, room, template, accepted)
        need = template.need
        lost: Numbers = use.useful - self._reached(left, room.cpu - need.cpu, room.memory - need.memory)
        return np.maximum(lost, 0, out=lost)

    def split_costs(self, milli: int) -> Numbers:
        """Return, by free part of a device, what typical requests of one device lose when `milli` of it is taken."""
        found = self._split_costs.get(milli)
        if found is None:
            total: Numbers = self._parts.sum(axis=0)
            found = np.full(WHOLE + 1, _NEVER, np.int64)
            found[milli:] = total[milli:] - total[: WHOLE + 1 - milli]
            self._split_costs[milli] = found
        return found

    def _left(self, use: RowUse, room: RowRoom, template: Template, accepted: Truths) -> Numbers:
        """Return the weighted capacity that is left after the slot has taken its devices: those that cost least."""
        milli, gpus = template.gpu_milli, template.gpus
        costs = np.where(accepted, self.split_costs(milli)[room.devices] * (WHOLE + 1) + room.devices, _NEVER * WHOLE)
        chosen, every = costs.argmin(axis=0), np.arange(len(room.cpu))
        part, model = room.devices[chosen, every], room.models[chosen, every]
        accepts = self._accepts[:, model]
        taken = (self._parts[:, part] - self._parts[:, np.maximum(part - milli, 0)]) * accepts
        found: Numbers = use.by_devices - gpus * taken
        if len(self._several):
            idle = use.idle[self._several] - gpus * ((part >= WHOLE) & accepts[self._several])
            found[self._several] = np.maximum(idle, 0) // self._gpus * self._worth
        return found

    def _reached(self, by_devices: Numbers, cpu: Numbers, memory: Numbers) -> Numbers:
        """Return the weighted capacity of rows that all of devices, cpu and memory allow."""
        least = by_devices
        for (rates, unbound), amounts in zip(self._rates, (cpu, memory), strict=True):
            reach = np.minimum(np.maximum(amounts, 0), _AMOUNT_MAX) * rates
            reach >>= _BITS
            if unbound is not None:
                reach += unbound
            least = np.minimum(least, reach, out=reach)
        found: Numbers = least.sum(axis=0)
        return found


def _rates(worth: Numbers, needs: list[int]) -> tuple[Numbers, Numbers | None]:
    """Return by shape the weighted capacity that a unit of a resource carries; and more than any node has for shapes
    that need none of it, if there are such shapes."""
    each: Numbers = np.array(needs, np.int64)
    rates = np.minimum((worth << _BITS) // np.maximum(each, 1), _RATE_MAX)
    return rates[:, None], np.where(each == 0, _NEVER, 0)[:, None] if 0 in needs else None
