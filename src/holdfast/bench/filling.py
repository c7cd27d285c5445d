"""A region that is two thirds full of real shapes, with their devices taken: filled through its own ledger.

How full a node is, is drawn: from a third to all of what it has most of. So some are full, some have room for one more,
as where work comes and goes.
"""

from __future__ import annotations

from random import Random
from typing import Any

from holdfast.bench.region import SCHEDULER, SETTINGS, TENANTS, BenchRegion, Machine
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.allotment import Assignment, Purpose, Share, Stage
from holdfast.core.model.workload import Template
from holdfast.core.region import commands as c

#: So many shapes are tried on a node in a row, of which none fits, before it is left.
TRIES = 12
#: The parts of a node that are taken, in thousandths, at least and at most: two thirds of all in the middle.
LEAST, MOST = 540, 1_000


class _Space:
    """What is left of a node."""

    def __init__(self, machine: Machine, limit: int) -> None:
        has = machine.capacity
        self._left = [has.cpu * limit // 1_000, has.memory * limit // 1_000]
        self._devices = [1_000] * len(machine.devices)
        self._models = [device.model for device in machine.devices]
        self._gpu = has.gpu * limit // 1_000

    def take(self, template: Template) -> tuple[int, ...] | None:
        """Take room for one slot; its devices, or None if there is none."""
        need, milli = template.need, template.gpu_milli
        if need.cpu > self._left[0] or need.memory > self._left[1] or need.gpu > self._gpu:
            return None
        fitting = [
            index
            for index, free in enumerate(self._devices)
            if free >= milli and (not template.gpu_models or self._models[index] in template.gpu_models)
        ]
        chosen = tuple(sorted(sorted(fitting, key=lambda index: self._devices[index])[: template.gpus]))
        if len(chosen) < template.gpus:
            return None
        self._left = [self._left[0] - need.cpu, self._left[1] - need.memory]
        self._gpu -= need.gpu
        for index in chosen:
            self._devices[index] -= milli
        return chosen


def filled(nodes: int, asked: list[Template], machines: list[Machine]) -> BenchRegion:
    """A region of so many nodes, two thirds full."""
    region, chance = BenchRegion(nodes, machines=machines), Random(3)
    names = [name for name, _ in region.state.node_names.items()]
    placed: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    known: dict[str, Template] = {template_digest(one): one for one in dict.fromkeys(asked)}
    digests = [template_digest(one) for one in asked]
    for name, uid in zip(names, region.node_uids, strict=True):
        space, misses = _Space(machines[int(name[5:]) % len(machines)], chance.randint(LEAST, MOST)), 0
        while misses < TRIES:
            digest = chance.choice(digests)
            devices = space.take(known[digest])
            misses = misses + 1 if devices is None else 0
            if devices is not None:
                placed.setdefault(digest, []).append((uid, devices))
    for digest, slots in placed.items():
        _place(region, digest, known[digest], slots)
    return region


def _place(region: BenchRegion, digest: str, template: Template, slots: list[tuple[int, tuple[int, ...]]]) -> None:
    """One workload, each slot of which stands on its node with its devices."""
    number = region.state.place.cursor + 1
    tenant = TENANTS[number % len(TENANTS)]
    assignment = Assignment(
        20_000_000 + number, 1, number, f"full-{number}", tenant, "bench", Purpose.SERVING, Stage.ACTIVE, 1,
        (Share(digest, len(slots)),), (f"quota/{tenant}",), "normal",
    )  # fmt: skip
    region.ship(c.TemplateShipped(digest, template), c.AssignmentShipped(assignment))
    for first in range(0, len(slots), 1_000):
        ordinals = tuple(range(first, min(first + 1_000, len(slots))))
        region.run(("controller/replica", c.OpenSlots(assignment.uid, digest, ordinals)))
        placements = tuple(c.Placement(ordinal, slots[ordinal][0], slots[ordinal][1]) for ordinal in ordinals)
        command = c.Propose((c.Group(assignment.uid, digest, placements),), region.at + SETTINGS.proposal_life - 1_000)
        region.commit([_envelope(region, command)])


def _envelope(region: BenchRegion, command: Any) -> Envelope[Any]:
    view = region.state.facts.seq << 20
    return Envelope(SCHEDULER, command, region.at, region.session, region.next_sequence(), view=view)
