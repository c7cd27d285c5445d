"""From creating a workload to its `serving` status at the platform, with agents that start real processes.

The example's service, one replica, in one region after the other. Each workload is deleted completely before the next
is created, so that nothing else happens meanwhile. Its path:

    write ──▶ assigned ──▶ shipped ──▶ placed ──▶ started ──▶ ready ──▶ probed ──▶ reported ──▶ watch
    platform  platform     region      region     agent       agent     region     platform     platform
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

from holdfast.bench.fixtures.dev_clients import (
    CLASS,
    LOOK_SECONDS,
    TENANT,
    BenchClients,
    Document,
    dev_clients,
    document,
    watch_timers,
)
from holdfast.bench.report import BenchResult, Unmeasured, at_most, p99, time_limit
from holdfast.client.errors import NotFoundError
from holdfast.wiring.dev.data_folder import REGIONS, documents_in, example

#: Workloads for warm-up, and measured workloads.
WHOLE, SMALL = (3, 100), (0, 3)
ROWS = ("agent.serving_p50", "agent.serving_p99")
#: Nodes per region, each with an agent.
NODES = 1
#: Time limit per workload.
SECONDS_EACH = 60
#: Pause between two workloads, so that the first has no work left in progress.
PAUSE_SECONDS = 0.1


async def measure_serving(folder: Path, *, small: bool = False) -> list[BenchResult]:
    """Measure from before the write until a watch shows the serving replica. Baseline: the write."""
    warm_up, workloads = SMALL if small else WHOLE
    async with dev_clients(folder, agents=NODES) as clients, time_limit(SECONDS_EACH * (warm_up + workloads)):
        times = await _times(clients, warm_up + workloads)
    took, wrote = zip(*times[warm_up:], strict=True)
    written = statistics.median(wrote)
    return [
        at_most("agent.serving_p50", statistics.median(took), "s", written, 1, took),
        at_most("agent.serving_p99", p99(took), "s", written, 3, took),
    ]


async def _times(clients: BenchClients, workloads: int) -> list[tuple[float, float]]:
    """Return for each workload the seconds until it served, and until its write was answered."""
    times: list[tuple[float, float]] = []
    template = _service()
    async with watch_timers((clients.platform,), "workloads", _serving) as (watch,):
        for number in range(workloads):
            name, region = f"serving-{number:04}", REGIONS[number % len(REGIONS)]
            spec = {"replicas": 1, "priorityClass": CLASS, "placement": {"regions": [region]}, "template": template}
            began = time.monotonic()
            await clients.tenant.put(document("Workload", name, spec, TENANT))
            written = time.monotonic()
            times.append((await watch.told(name) - began, written - began))
            await _delete(clients, name)
            await asyncio.sleep(PAUSE_SECONDS)
    return times


async def _delete(clients: BenchClients, name: str) -> None:
    """Delete a workload and wait until it is deleted everywhere."""
    await clients.tenant.delete("workloads", name, TENANT)
    while True:
        try:
            await clients.tenant.get("workloads", name, TENANT)
        except NotFoundError:
            return
        await asyncio.sleep(LOOK_SECONDS)


def _service() -> Any:
    """Return the template of the example's critical service."""
    file = example()
    if file is None:
        raise Unmeasured("the example, whose service is started, exists only in a source checkout")
    (found,) = [one for one in documents_in(file) if one["metadata"]["name"] == "risk-api"]
    return found["spec"]["template"]


def _serving(workload: Document) -> str:
    """Return the name of a workload whose replica serves; empty for all others."""
    return str(workload["metadata"]["name"]) if workload.get("status", {}).get("serving") == 1 else ""
