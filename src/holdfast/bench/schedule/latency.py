"""From creating a workload to hearing that it is bound, at the platform, between the processes of `holdfast dev`.

One platform and three regions with declared nodes, each a server of its own, durable on SQLite. Workloads of one
replica, for one region after the other, are created one by one: the next when the last is bound and a moment has
passed. The way of each:

    write ──▶ assignment ──▶ shipped ──▶ slot opened ──▶ placed ──▶ reported ──▶ status ──▶ watch
    platform  platform       region      region          region     platform     platform

First nothing else happens; then one more process asks all four servers for something else, again and again.
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
#: Between two workloads, so that nothing of the last one is still under way.
PAUSE_SECONDS = 0.1
#: One takes longer only if it is never bound.
SECONDS_EACH = 30
#: Of all other requests one in so many is a write, at the platform.
WRITES = 25
#: The part of the other requests that has to be answered in time, or nothing is said of how it is beside them.
LEAST = 0.95


class LatencySize(NamedTuple):
    """So many workloads after a few that do not count, on so many nodes in each region, and so many other requests in
    a second."""

    warm_up: int
    workloads: int
    nodes: int
    others: int


WHOLE, SMALL = LatencySize(20, 1_000, 24, 1_000), LatencySize(1, 3, 1, 40)


async def measure_latency(sheet: ReportBuilder, folder: Path, *, small: bool = False) -> None:
    """From before the write is sent until a watch tells that all replicas are bound; the baseline is the write."""
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
    """The milliseconds until each was bound, and until its write was answered."""
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
    """The name of a workload of which all replicas are bound; of any other nothing."""
    return str(workload["metadata"]["name"]) if _count(workload) == workload["spec"]["replicas"] else ""


def _count(workload: Document) -> int:
    count: int = workload.get("status", {}).get("bound", 0)
    return count


def _other(version: str) -> Document:
    """A workload that others read and write: it has no replicas, and nothing follows from its change."""
    return workload("other", version, {"replicas": 0})


def _others(clients: BenchClients, rate: int) -> RequestMix:
    """What others ask: reads of every server by turns, and between them writes."""
    platform, *regions = clients.servers
    path = f"/v1/workloads/{TENANT}/other"
    reads = [LoadRequest(platform, path, clients.token)]
    for server, region in zip(regions, REGIONS, strict=True):
        reads.append(LoadRequest(server, f"/v1/nodes/{node_name(region, 0)}", clients.token))
    write = LoadRequest(platform, path, clients.token, msgspec.json.encode(_other(NUMBER)).decode())
    turns = [reads[number % len(reads)] for number in range(WRITES - 1)]
    return RequestMix(rate, (*turns, write))
