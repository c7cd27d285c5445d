"""The largest exclusive workload is created and deleted, while another tenant's workload is read.

    apply ──▶ rights granted, in parts ──▶ listed ──▶ shipped ──▶ every slot waits
    delete ──▶ slots withdrawn ──▶ rights returned, in parts ──▶ assignment, rights and workload are deleted

The servers are those of `holdfast dev`, each on SQLite with every commit synced. The region has no nodes: nothing is
placed. From the first request to the last, another tenant's workload is read at the platform repeatedly, and every
server records which callbacks hold its loop.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from holdfast.bench.fixtures.dev_clients import CLASS, TENANT, BenchClients, Document, dev_clients, document, workload
from holdfast.bench.fixtures.loop_stalls import longest, stalls_of
from holdfast.bench.report import BenchResult, at_most, p99, require
from holdfast.client.async_client import AsyncClient
from holdfast.client.errors import NotFoundError
from holdfast.wiring.dev.data_folder import REGIONS

REPLICAS, SMALL_REPLICAS = 100_000, 50
ROWS = ("limits.exclusive_100k_s", "limits.exclusive_stall_ms", "limits.neighbour_p99_ms")
SECONDS, STALL_MS, NEIGHBOUR_MS = 60, 100, 100
NAME, NEIGHBOUR = "largest", "neighbour"
#: Interval between two polls of the progress, and between two reads of the other workload.
LOOK_SECONDS, READ_SECONDS = 0.1, 0.02
WITHIN_SECONDS = 600.0


async def measure_exclusive(folder: Path, rows_ms: float, *, small: bool = False) -> list[BenchResult]:
    """Measure creation plus deletion; baseline: creation. The longest callback of any server; baseline: storing 10,000
    rows. The 99th percentile of the reads; baseline: the fastest read."""
    replicas, took = SMALL_REPLICAS if small else REPLICAS, list[float]()
    async with dev_clients(folder, is_measured=True) as clients:
        await _make_neighbour(clients.platform, replicas)
        began = time.monotonic()
        reading = asyncio.create_task(_read_on(clients.platform, took))
        try:
            came = await _come(clients, replicas)
            gone = await _go(clients)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
    stalls = [one for name in ("platform", *REGIONS) for one in stalls_of(folder / name)]
    return [
        at_most("limits.exclusive_100k_s", came + gone, "s", came, SECONDS),
        at_most("limits.exclusive_stall_ms", longest(stalls, began).ms, "ms", rows_ms, STALL_MS),
        at_most("limits.neighbour_p99_ms", p99(took), "ms", min(took), NEIGHBOUR_MS, took),
    ]


async def _make_neighbour(platform: AsyncClient, replicas: int) -> None:
    """Create another tenant with a workload of one replica, and raise the first tenant's limit of pending replicas."""
    tenant = {"priorityClasses": [CLASS], "submitsPerMinute": 1_000_000, "pendingMax": max(20_000, 2 * replicas)}
    mine = document("Workload", NEIGHBOUR, workload(NEIGHBOUR, "1", {"replicas": 1})["spec"], NEIGHBOUR)
    hard = {"hard": {"cpu": "10", "memory": "10Gi"}}
    await platform.batch(
        [document("Tenant", TENANT, tenant), document("Tenant", NEIGHBOUR, {**tenant, "pendingMax": 9})]
    )
    await platform.batch([document("Quota", NEIGHBOUR, hard), mine])


async def _read_on(platform: AsyncClient, took: list[float]) -> None:
    """Read the other workload until cancelled, and record the milliseconds of each read."""
    while True:
        began = time.monotonic()
        await platform.get("workloads", NEIGHBOUR, NEIGHBOUR)
        took.append((time.monotonic() - began) * 1_000)
        await asyncio.sleep(READ_SECONDS)


async def _come(clients: BenchClients, replicas: int) -> float:
    """Return the seconds from the write until every slot waits in the region."""
    spec: Document = {
        "replicas": replicas, "exclusive": True, "failover": "acknowledged", "placement": {"regions": [REGIONS[0]]},
    }  # fmt: skip
    began = time.monotonic()
    await clients.tenant.put(workload(NAME, "1", spec))
    while await _waiting(clients.regions[0]) < replicas:
        await _pause(began)
    return time.monotonic() - began


async def _waiting(region: AsyncClient) -> int:
    """Return the number of the workload's slots that wait in the region."""
    found = [one for one in (await region.list("assignments")).items if one["spec"]["workload"] == NAME]
    return sum(one["status"].get("phases", {}).get("pending", 0) for one in found)


async def _go(clients: BenchClients) -> float:
    """Return the seconds from the request until the platform has neither the workload nor an assignment of it. Its
    rights are deleted with its last assignment."""
    began = time.monotonic()
    await clients.tenant.delete("workloads", NAME, TENANT)
    with suppress(NotFoundError):
        while True:
            await clients.tenant.get("workloads", NAME, TENANT)
            await _pause(began)
    left = [one for one in (await clients.platform.list("assignments")).items if one["spec"]["workload"] == NAME]
    require(not left, f"{len(left)} assignments are left")
    return time.monotonic() - began


async def _pause(began: float) -> None:
    require(time.monotonic() - began < WITHIN_SECONDS, f"not finished after {WITHIN_SECONDS:g} s")
    await asyncio.sleep(LOOK_SECONDS)
