"""The simulator: how much faster than real time a quiet world runs, and what a run of the standing scenarios costs.

In the quiet world every ledger has a server that leads and one that follows, every region a scheduler; every node sends
its heartbeats, every process is well, and is asked whether it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from statistics import mean, median

from msgspec import Struct

from holdfast.bench.fixtures.quiet_logs import quiet_logs
from holdfast.bench.report import BenchReport, ReportBuilder, at_least, at_most, require, stores_per_second
from holdfast.core.model.records.lifecycle import Phase
from holdfast.replay.run_plan import RunPlan
from holdfast.sim.actors.process_behavior import ProcessBehaviors
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.runs.run import run as played
from holdfast.sim.scenario import RegionShape, Scenario, TenantShape, Topology, TrafficSpec, WorkloadShape, read_folder
from holdfast.sim.world.virtual_loop import run_virtual

REGIONS = ("eu", "us", "ap")


class SimSize(Struct, frozen=True):
    """How large the quiet world is; how long it takes to place everything and how long and how often it is watched
    then, in virtual seconds; and how many scenarios are played, from how many seeds each. None: all there are."""

    nodes: int = 20
    replicas: int = 30
    workloads: int = 10
    settle: int = 60
    watched: int = 30
    times: int = 10
    scenarios: int | None = None
    seeds: int = 2


FULL = SimSize()
SMALL = SimSize(nodes=2, replicas=3, workloads=2, settle=30, watched=2, times=2, scenarios=1, seeds=1)


def quiet(size: SimSize = FULL) -> Scenario:
    """A world in which nobody wants anything new."""
    region = RegionShape(nodes=size.nodes, cpu="8", memory="16Gi")
    return Scenario(
        name="quiet",
        says="Nothing happens.",
        network="calm",
        stores="calm",
        tenants={"payments": TenantShape(cpu="600", memory="600Gi")},
        topology=Topology(regions=dict.fromkeys(REGIONS, region)),
        workloads={f"w{n}": WorkloadShape(replicas=size.replicas, exclusive=n == 0) for n in range(size.workloads)},
        traffic=TrafficSpec(kinds={}, readers=0),
    )


def quiet_cluster(size: SimSize = FULL) -> SimulatedCluster:
    """That world, in which nothing goes wrong either: not even with a process."""
    scene = SimulatedCluster(quiet(size), 1, RunPlan(0, (), ()))
    for name, metal in scene.metals.items():
        metal.habit = ProcessBehaviors(scene.world.chance, name, troubles={})
    return scene


def run(*, small: bool = False) -> BenchReport:
    """Both figures: virtual seconds in a second of one core, and such seconds for a run."""
    size, sheet = SMALL if small else FULL, ReportBuilder()
    with (
        sheet.part("sim.speed", "sim.run_s"),
        quiet_logs(logging.CRITICAL),
    ):  # faults are what such servers are there for
        baseline = stores_per_second()
        with sheet.part("sim.speed"):
            speeds = run_virtual(_watch(size))
            sheet.add(at_least("sim.speed", median(speeds), "x", baseline, 120, speeds))
        with sheet.part("sim.run_s"):
            seconds = _play(size)
            sheet.add(at_most("sim.run_s", mean(seconds), "s", baseline, 1.5, seconds))
    return sheet.report()


async def _watch(size: SimSize) -> list[float]:
    scene = quiet_cluster(size)
    try:
        await asyncio.sleep(size.settle)
        states = [scene.audits[name].state for name in REGIONS]
        serving = sum(slot.phase is Phase.SERVING for state in states for slot in state.slots.values())
        require(serving == size.replicas * size.workloads, f"{serving} replicas serve")
        speeds = []
        for _ in range(size.times):
            start = time.process_time()
            await asyncio.sleep(size.watched)
            speeds.append(size.watched / (time.process_time() - start))
    finally:
        await scene.world.end()
    return speeds


def _play(size: SimSize) -> list[float]:
    """How long each run of the standing scenarios takes."""
    standing = [one for one in read_folder().values() if not one.absent]
    took = []
    for scenario in standing[: size.scenarios]:
        for seed in range(1, size.seeds + 1):
            start = time.process_time()
            report = played(scenario, seed)
            took.append(time.process_time() - start)
            require(not report.failed, f"{scenario.name} from seed {seed}: {report.verdicts}")
    return took
