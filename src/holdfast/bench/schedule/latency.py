"""From creating a workload to its `bound` status at the platform, between the processes of `holdfast dev`.

One platform and three regions with declared nodes, each with its own server, durable on SQLite. Workloads of one
replica, in one region after the other, are created one by one: the next after the last is bound and a short pause. The
path of each:

    write ──▶ assignment ──▶ shipped ──▶ slot opened ──▶ placed ──▶ reported ──▶ status ──▶ watch
    platform  platform       region      region          region     platform     platform

First nothing else happens; then another process sends other requests to all four servers.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.bench.fixtures.dev_clients import TENANT, BenchClients, Document, dev_clients, watch_timers, workload
from holdfast.bench.load.latency_load import NUMBER, LoadRequest, RequestCounts, RequestMix
from holdfast.bench.load.load_process import LoadProcess
from holdfast.bench.report import BenchResult, ReportBuilder, at_most, p99, require, time_limit
from holdfast.wiring.dev.data_folder import REGIONS, node_name

ROWS = ("schedule.latency_p99", "schedule.latency_busy_p99")
LOAD_MODULE = "holdfast.bench.load.latency_load"
#: Pause between two workloads, so that the first has no work left in progress.
PAUSE_SECONDS = 0.1
#: Time limit per workload.
SECONDS_EACH = 30
#: One in this many other requests is a write, at the platform.
WRITES = 25
#: Share of the other requests that must be answered in time for the busy figure to count.
LEAST = 0.95


class LatencySize(NamedTuple):
    """Warm-up and measured workloads, nodes in each region, and other requests per second."""

    warm_up: int
    workloads: int
    nodes: int
    others: int


WHOLE, SMALL = LatencySize(20, 1_000, 24, 1_000), LatencySize(1, 3, 1, 40)


async def measure_latency(sheet: ReportBuilder, folder: Path, *, small: bool = False) -> None:
    """Measure from before the write until a watch shows all replicas bound. Baseline: the write."""
    size = SMALL if small else WHOLE
    async with dev_clients(folder, nodes=size.nodes) as clients:
        with sheet.part("schedule.latency_p99"):
            sheet.add(await _measure("schedule.latency_p99", clients, size, "latency", 50))
        with sheet.part("schedule.latency_busy_p99"):
            await clients.tenant.put(_other("0"))
            async with LoadProcess.running(LOAD_MODULE, _others(clients, size.others)) as other:
                other.tell()
                found = await _measure("schedule.latency_busy_p99", clients, size, "busy", 150)
                other.tell()
                asked = msgspec.json.decode(await other.hear(), type=RequestCounts)
            require(not asked.failed, f"{asked.failed} of the other requests failed: {asked.why}")
            rate = asked.answered / asked.seconds
            require(small or rate >= size.others * LEAST, f"{rate:,.0f} other requests a second, not {size.others:,}")
            sheet.add(found)


async def _measure(name: str, clients: BenchClients, size: LatencySize, prefix: str, most: float) -> BenchResult:
    count = size.warm_up + size.workloads
    async with time_limit(SECONDS_EACH * count):
        times = await _times(clients, prefix, count)
    took, wrote = zip(*times[size.warm_up :], strict=True)
    return at_most(name, p99(took), "ms", statistics.median(wrote), most, took)


async def _times(clients: BenchClients, prefix: str, workloads: int) -> list[tuple[float, float]]:
    """Return for each workload the milliseconds until it was bound, and until its write was answered."""
    times: list[tuple[float, float]] = []
    async with watch_timers((clients.platform,), "workloads", _bound) as (watch,):
        for number in range(workloads):
            name, region = f"{prefix}-{number:04}", REGIONS[number % len(REGIONS)]
            document = workload(name, "1", {"replicas": 1, "placement": {"regions": [region]}})
            began = time.monotonic()
            await clients.tenant.put(document)
            written = time.monotonic()
            times.append(((await watch.told(name) - began) * 1_000, (written - began) * 1_000))
            await asyncio.sleep(PAUSE_SECONDS)
    return times


def _bound(workload: Document) -> str:
    """Return the name of a workload whose replicas are all bound; empty for all others."""
    return str(workload["metadata"]["name"]) if _count(workload) == workload["spec"]["replicas"] else ""


def _count(workload: Document) -> int:
    count: int = workload.get("status", {}).get("bound", 0)
    return count


def _other(version: str) -> Document:
    """Return a workload for the other requests: without replicas, so that its changes have no consequences."""
    return workload("other", version, {"replicas": 0})


def _others(clients: BenchClients, rate: int) -> RequestMix:
    """Return the other requests: reads of every server in turn, with a write now and then."""
    platform, *regions = clients.servers
    path = f"/v1/workloads/{TENANT}/other"
    reads = [LoadRequest(platform, path, clients.token)]
    for server, region in zip(regions, REGIONS, strict=True):
        reads.append(LoadRequest(server, f"/v1/nodes/{node_name(region, 0)}", clients.token))
    write = LoadRequest(platform, path, clients.token, msgspec.json.encode(_other(NUMBER)).decode())
    turns = [reads[number % len(reads)] for number in range(WRITES - 1)]
    return RequestMix(rate, (*turns, write))
