"""The scheduler of a region: one request of many slots, many of one, spread over zones, a million slots, many nodes.

All is durable on SQLite with every commit synced, with every gate, and 5,000 nodes whose agents renew their sessions
meanwhile. Slots are opened before the measurement, except for the million, which are opened within it. The latency from
a write at the platform is measured between processes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.fixtures.openb_trace import node_shapes, workload_shapes
from holdfast.bench.fixtures.region import NodeShape
from holdfast.bench.report import BenchReport, BenchResult, ReportBuilder, at_least, temporary_folder
from holdfast.bench.schedule import growth, latency, million
from holdfast.bench.store import RawFile
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Spread, Template
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.resources import Resources

REQUIRES = (("arch", "x86"),)
TOLERATES = (Toleration("dedicated", "batch"),)
PLAIN = Template(command=("serve",), need=Resources(100, 128, 10), require=REQUIRES, tolerate=TOLERATES)
SPREAD = Template(
    command=("serve",), need=Resources(100, 128, 10), require=REQUIRES, tolerate=TOLERATES, spread=(Spread("zone", 1),)
)

Wanted = list[tuple[Template, int]]

RATES = ("schedule.group10k", "schedule.spread", "schedule.unlike")


class ScheduleSize(NamedTuple):
    """Nodes of the region, and slots in each round. Shapes of the trace fit for a few rounds only."""

    nodes: int
    slots: int
    rounds: int
    single_rounds: int


WHOLE, SMALL = ScheduleSize(5_000, 10_000, 5, 2), ScheduleSize(60, 200, 1, 1)


def run(traces: Path, *, small: bool = False) -> BenchReport:
    """Measure all figures of the scheduler."""
    sheet, size = ReportBuilder(), SMALL if small else WHOLE
    with sheet.part(*RATES, "schedule.single10k", *million.ROWS, *latency.ROWS), temporary_folder() as folder:
        with sheet.part(*RATES):
            asyncio.run(_rates(sheet, folder, size))
        with sheet.part("schedule.single10k"):
            sheet.add(asyncio.run(_singles(folder, size, *_trace(traces, small=small))))
        with sheet.part(*million.ROWS):
            sheet.add(*asyncio.run(million.measure_million(folder, size.nodes, small=small)))
        with sheet.part(*latency.ROWS):
            asyncio.run(latency.measure_latency(sheet, folder / "latency", small=small))
    with sheet.part(*growth.ROWS):
        real, asked = _trace(traces, small=small)
        sheet.add(*growth.measure_growth(asked, real, small=small))
    return sheet.report()


def _trace(folder: Path, *, small: bool) -> tuple[list[NodeShape], list[Template]]:
    """Return nodes of a real cluster and the requests of its pods; with `small`, a few built-in ones."""
    if not small:
        return node_shapes(folder), workload_shapes(folder, REQUIRES, TOLERATES)
    own = [NodeShape(Resources(32_000, 131_072)), NodeShape(Resources(64_000, 262_144, 0, 2_000), (Device("T4"),) * 2)]
    share = Template(
        ("work",), need=Resources(500, 1_024, 0, 500), gpus=1, gpu_milli=500, gpu_models=("P100", "T4"),
        require=REQUIRES, tolerate=TOLERATES,
    )  # fmt: skip
    return own, [Template(("work",), need=Resources(1_000, 2_048), require=REQUIRES, tolerate=TOLERATES), share]


async def _rates(sheet: ReportBuilder, folder: Path, size: ScheduleSize) -> None:
    raw = RawFile(folder / "raw")
    async with live_region(folder / "rates", size.nodes) as yard:
        rounds = range(size.rounds)
        with sheet.part("schedule.group10k"):
            many = [[(PLAIN, size.slots)] for _ in rounds]
            sheet.add(await _rate(yard, raw, "schedule.group10k", many, 30_000))
        with sheet.part("schedule.spread"):
            spread = [[(SPREAD, 100)] * (size.slots // 100) for _ in rounds]
            sheet.add(await _rate(yard, raw, "schedule.spread", spread, 10_000))
        with sheet.part("schedule.unlike"):
            unlike = [_unlike(number, size.slots) for number in rounds]
            sheet.add(await _rate(yard, raw, "schedule.unlike", unlike, 4_000))


def _unlike(turn: int, count: int) -> Wanted:
    """Return workloads of one slot whose requests all differ, so that each needs its own pass."""
    found: Wanted = []
    for number in range(count):
        need = Resources(100 + number % 97, 128 + number % 89, 10 + number % 83)
        own = (("NUMBER", f"{turn}-{number}"),)
        found.append((Template(("serve",), need=need, environment=own, require=REQUIRES, tolerate=TOLERATES), 1))
    return found


async def _singles(folder: Path, size: ScheduleSize, real: list[NodeShape], asked: list[Template]) -> BenchResult:
    """Measure workloads of one slot each, with random shapes from the list."""
    chance = Random(1)
    async with live_region(folder / "singles", size.nodes, real) as yard:
        rounds = [[(chance.choice(asked), 1) for _ in range(size.slots)] for _ in range(size.single_rounds)]
        return await _rate(yard, RawFile(folder / "raw"), "schedule.single10k", rounds, 6_000)


async def _rate(yard: LiveRegion, raw: RawFile, name: str, rounds: list[Wanted], least: float) -> BenchResult:
    """Measure durably bound slots per second. Baseline: the rate of a plain file with such batches."""
    rates: list[tuple[float, float]] = []
    for wanted in rounds:
        await yard.open(wanted)
        count = sum(one for _, one in wanted)
        durable = yard.ledger.durable
        seq, size = durable.state.info.seq, durable.log_bytes
        took = await yard.schedule()
        yard.must_be_bound()
        batches = durable.state.info.seq - seq
        plain = raw.times((durable.log_bytes - size) // batches, 50)
        rates.append((count / took, count / batches * 50 / sum(plain)))
    bound, written = zip(*rates, strict=True)
    return at_least(name, median(bound), "bound/s", median(written), least, bound)
