"""From creating a workload to hearing that it is bound, at the platform, between the processes of `holdfast dev`.

One platform and three regions with declared nodes, each a server of its own, durable on SQLite. Workloads of one
replica, for one region after the other, are created one by one: the next when the last is bound and a moment has
passed. The way of each:

    write ──▶ assignment ──▶ shipped ──▶ slot opened ──▶ placed ──▶ reported ──▶ status ──▶ watch
    platform  platform       region      region          region     platform     platform
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from holdfast.bench.asking import Clients, Document, asking, telling, workload
from holdfast.bench.report import Result, at_most, p99
from holdfast.wiring.dev_folder import REGIONS

WARM_UP, WORKLOADS = 20, 1_000
#: In each region: room for all of them.
NODES = 12
#: Between two workloads, so that nothing of the last one is still under way.
PAUSE_SECONDS = 0.1


async def measure_latency(folder: Path, workloads: int = WORKLOADS) -> Result:
    """From before the write is sent until a watch tells that all replicas are bound; the baseline is the write."""
    async with asking(folder, nodes=NODES) as clients:
        times = await _times(clients, WARM_UP + workloads)
    took, wrote = zip(*times[WARM_UP:], strict=True)
    return at_most("schedule.latency_p99", p99(took) * 1_000, "ms", statistics.median(wrote) * 1_000, 50)


async def _times(clients: Clients, workloads: int) -> list[tuple[float, float]]:
    """The seconds until each was bound, and until its write was answered."""
    times: list[tuple[float, float]] = []
    async with telling((clients.platform,), "workloads", _bound) as (watch,):
        for number in range(workloads):
            name, region = f"latency-{number:04}", REGIONS[number % len(REGIONS)]
            document = workload(name, "1", {"replicas": 1, "placement": {"regions": [region]}})
            began = time.monotonic()
            await clients.tenant.put(document)
            written = time.monotonic()
            times.append((await watch.told(name) - began, written - began))
            await asyncio.sleep(PAUSE_SECONDS)
    return times


def _bound(workload: Document) -> str:
    """The name of a workload of which all replicas are bound; of any other nothing."""
    return str(workload["metadata"]["name"]) if _count(workload) == workload["spec"]["replicas"] else ""


def _count(workload: Document) -> int:
    count: int = workload.get("status", {}).get("bound", 0)
    return count
