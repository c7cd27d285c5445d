"""Preemption in a full region: every placement needs the place of a victim. All is durable on SQLite.

    nodes full of work of three priorities ──▶ urgent slots are opened ──▶ a scheduler runs ──▶ the last one is bound

Of twenty slots on a node, eight are reclaimable, six stay and have a low priority, and six have a normal one. Each
urgent slot is as large as one of them. The minimum run time and the limit per minute are off: both would pause it.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.report import BenchResult, at_least, require
from holdfast.bench.sharing.embedded import FILLER
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.tenants import PriorityClass, PriorityClassSpec
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c

ROWS = ("sharing.preempt",)
CLASSES = {
    "batch": PriorityClassSpec(10, reclaimable=True),
    "low": PriorityClassSpec(20),
    "urgent": PriorityClassSpec(100, may_preempt=True),
}
#: Slots of each class on a node: together they fill it.
THERE = (("batch", 8), ("low", 6), ("normal", 6))
#: Slots of one urgent workload.
EACH = 50


async def measure_preempting(folder: Path, nodes: int, slots: int) -> list[BenchResult]:
    """Measure durable placements per second of urgent slots, each of which preempts one. Baseline: on free nodes."""
    async with live_region(folder / "free", nodes) as yard:
        await yard.open(_urgent(slots))
        plain_s = await yard.schedule()
    async with live_region(folder / "full", nodes) as yard:
        await _prepare(yard)
        for name, count in THERE:
            await _fill(yard, name, count)
        await yard.open(_urgent(slots), "urgent")
        taken_s = await yard.schedule()
        victims = sum(slot.phase is Phase.TERMINATING for _, slot in yard.state.slots.unordered())
        require(victims == slots, f"{victims:,} slots were preempted by {slots:,}")
    return [at_least("sharing.preempt", slots / taken_s, "bound/s", slots / plain_s, 1_000)]


def _urgent(slots: int) -> list[tuple[Template, int]]:
    """Return workloads of equal requests, each as large as a victim."""
    left = slots % EACH
    return [(FILLER, EACH)] * (slots // EACH) + ([(FILLER, left)] if left else [])


async def _prepare(yard: LiveRegion) -> None:
    """Ship the classes, and switch off what would pause preemption."""
    await yard.ship(
        *(c.ShippedPriorityClass(PriorityClass(meta=Meta(name=name), spec=spec)) for name, spec in CLASSES.items())
    )
    settings = replace(yard.state.info.settings, preempt_after=0, preempt_max=1_000_000)
    answer = await yard.ledger.submit(Envelope("person/bench", Configure(settings), yard.region.at, key="preempting"))
    require(isinstance(answer, Committed), answer)


async def _fill(yard: LiveRegion, name: str, count: int) -> None:
    """Bind slots of a class, as many on each node."""
    places = [uid for uid in yard.region.node_uids for _ in range(count)]
    await yard.open([(FILLER, len(places))], name)
    ((uid, (request,)),) = [(uid, rows) for uid, rows in yard.state.requests.items()]
    for first in range(0, len(places), 1_000):
        some = enumerate(places[first : first + 1_000], first)
        group = c.PlacementGroup(uid, request.template, tuple(c.SlotPlacement(number, node) for number, node in some))
        now = yard.ledger.clock.wall()
        answer = await yard.ledger.submit(Envelope("controller/scheduler", c.Propose((group,), now + 60_000), now))
        require(isinstance(answer, Committed) and not answer.answer, answer)
