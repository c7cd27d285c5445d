"""The simulator: speed of a cluster without faults against real time, and the cost of runs of the standing scenarios.

In that cluster every ledger has a leader and a follower, every region a scheduler. Every node sends heartbeats, and
every process is healthy and probed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from statistics import mean, median

from msgspec import Struct

from holdfast.bench.fixtures.ledger_load import quiet_logs
from holdfast.bench.report import BenchReport, ReportBuilder, at_least, at_most, require, stores_per_second
from holdfast.core.model.records.lifecycle import Phase
from holdfast.replay.recording import RunPlan
from holdfast.sim.actors.process_behavior import ProcessBehaviors
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.runs.run import run as played
from holdfast.sim.scenario import RegionShape, Scenario, TenantShape, Topology, TrafficSpec, WorkloadShape, read_folder
from holdfast.sim.world.virtual_loop import run_virtual

REGIONS = ("eu", "us", "ap")


class SimSize(Struct, frozen=True):
    """Size of the cluster; virtual seconds to place everything, length and number of measurements; scenarios and seeds
    of each. Scenarios None: all."""

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
    """Return a scenario without changes."""
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
    """Return a cluster of that scenario without faults, also of processes."""
    scene = SimulatedCluster(quiet(size), 1, RunPlan(0, (), ()))
    for name, metal in scene.metals.items():
        metal.habit = ProcessBehaviors(scene.world.chance, name, troubles={})
    return scene


def run(*, small: bool = False) -> BenchReport:
    """Measure both figures: virtual seconds per second of one core, and seconds per run."""
    size, sheet = SMALL if small else FULL, ReportBuilder()
    with (
        sheet.part("sim.speed", "sim.run_s"),
        quiet_logs(logging.CRITICAL),
    ):  # Faults are expected in such servers' log lines.
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
    """Return the seconds of each run of the standing scenarios."""
    standing = [one for one in read_folder().values() if not one.absent]
    took = []
    for scenario in standing[: size.scenarios]:
        for seed in range(1, size.seeds + 1):
            start = time.process_time()
            report = played(scenario, seed)
            took.append(time.process_time() - start)
            require(not report.failed, f"{scenario.name} from seed {seed}: {report.verdicts}")
    return took
