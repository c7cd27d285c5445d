"""The simulator: how much faster than real time a quiet world of three regions, 60 nodes and 300 replicas runs.

Every ledger has a server that leads and one that follows, every region a scheduler; every node sends its heartbeats.
"""

from __future__ import annotations

import asyncio
import time

from holdfast.bench.report import Report, at_least, machine, stores_per_second
from holdfast.core.model.lifecycle import Phase
from holdfast.sim.loop import run_virtual
from holdfast.sim.plan import Plan
from holdfast.sim.scenario import Asked, Regional, Scenario, Tenancy, Topology, Traffic
from holdfast.sim.scene import Scene

NODES, REPLICAS, WORKLOADS = 20, 30, 10
REGIONS = ("eu", "us", "ap")
#: How long the world takes to place everything, how long it is watched then, in virtual seconds, and how often.
SETTLE, WATCHED, TIMES = 60, 30, 10


def quiet() -> Scenario:
    """A world in which nothing goes wrong and nobody wants anything new."""
    region = Regional(nodes=NODES, cpu="8", memory="16Gi")
    return Scenario(
        name="quiet",
        says="Nothing happens.",
        network="calm",
        stores="calm",
        tenants={"payments": Tenancy(cpu="600", memory="600Gi")},
        topology=Topology(regions=dict.fromkeys(REGIONS, region)),
        workloads={f"w{number}": Asked(replicas=REPLICAS, exclusive=number == 0) for number in range(WORKLOADS)},
        traffic=Traffic(kinds={}, readers=0),
    )


def run() -> Report:
    """The one figure: virtual seconds in a second, of the watched spans the one that was disturbed least."""
    baseline = stores_per_second()
    speed = run_virtual(_watch())
    return Report(machine(), (at_least("sim.speed", speed, "x", baseline, 200),))


async def _watch() -> float:
    scene = Scene(quiet(), 1, Plan(0, (), ()))
    try:
        await asyncio.sleep(SETTLE)
        states = [scene.audits[name].state for name in REGIONS]
        serving = sum(slot.phase is Phase.SERVING for state in states for slot in state.slots.values())
        assert serving == REPLICAS * WORKLOADS, f"{serving} replicas serve"
        speeds = []
        for _ in range(TIMES):
            start = time.process_time()
            await asyncio.sleep(WATCHED)
            speeds.append(WATCHED / (time.process_time() - start))
    finally:
        await scene.world.end()
    return max(speeds)
