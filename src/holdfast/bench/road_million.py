"""A million replicas from the platform: a thousand workloads of different shapes, applied at once, over three regions.

    apply ──▶ assigned ──▶ shipped ──▶ opened, placed ──▶ reported ──▶ statuses that show all replicas bound
    platform  platform     link        each region        link         platform

The servers are those of `holdfast dev`, durable on SQLite. The nodes are one more process: see `load.node_load`.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from holdfast.bench.agent import TOKEN, admit_agents
from holdfast.bench.fixtures.dev_clients import CLASS, SECRET, TENANT, BenchClients, Document, dev_clients, document
from holdfast.bench.load.load_process import LoadProcess
from holdfast.bench.load.node_load import NodeFleet
from holdfast.bench.report import BenchResult, at_most, require, time_limit
from holdfast.core.model.objects.principals import format_token
from holdfast.core.model.values.resources import Resources
from holdfast.wiring.dev.data_folder import REGIONS

ROWS = ("road.c1m_s",)
LOAD_MODULE = "holdfast.bench.load.node_load"
LOOK_SECONDS = 1.0
WITHIN_SECONDS = 1_200
#: Capacity for all replicas on a hundred nodes per region, and about as much again.
CAPACITY = Resources(256_000, 512 << 10, 1 << 20)


class RoadMillionSize(NamedTuple):
    """Workloads, replicas of each, and nodes in each region."""

    workloads: int
    replicas: int
    nodes: int


WHOLE, SMALL = RoadMillionSize(1_000, 1_000, 100), RoadMillionSize(4, 6, 2)


async def measure_road_million(folder: Path, *, small: bool = False) -> list[BenchResult]:
    """Measure from sending the documents until statuses show all replicas bound. Baseline: the request."""
    size = SMALL if small else WHOLE
    async with dev_clients(folder) as clients:
        await admit_agents(clients)
        await _allow(clients, size)
        servers = dict(zip(REGIONS, clients.servers[1:], strict=True))
        task = NodeFleet(servers, format_token(TOKEN, SECRET), size.nodes, CAPACITY)
        async with LoadProcess.running(LOAD_MODULE, task) as nodes, time_limit(WITHIN_SECONDS):
            began = time.monotonic()
            for one in await clients.tenant.batch([_workload(number, size) for number in range(size.workloads)]):
                require(one.outcome == "created", one)
            written = time.monotonic()
            bound: list[int] = [0]
            while bound[-1] < size.workloads * size.replicas:
                await asyncio.sleep(LOOK_SECONDS)
                bound.append(await _bound(clients))
            took = time.monotonic() - began
            nodes.tell()
            await nodes.hear()
    return [at_most("road.c1m_s", took, "s", written - began, 90)]


async def _allow(clients: BenchClients, size: RoadMillionSize) -> None:
    """Set the quota for all replicas, and the limit of pending ones."""
    waiting = max(20_000, 2 * size.workloads * size.replicas)
    tenant = {"priorityClasses": [CLASS], "submitsPerMinute": 1_000_000, "pendingMax": waiting}
    hard = {"hard": {"cpu": "100000", "memory": "200000Gi"}}
    await clients.platform.batch([document("Tenant", TENANT, tenant), document("Quota", TENANT, hard)])


def _workload(number: int, size: RoadMillionSize) -> Document:
    """Return a workload whose resource requests differ from all others."""
    need = {"cpu": f"{10 + number % 40}m", "memory": f"{16 + number // 40}Mi"}
    template = {"command": ["serve", f"shape-{number}"], "need": need}
    spec = {"template": template, "priorityClass": CLASS, "replicas": size.replicas}
    return document("Workload", f"many-{number:04}", spec, TENANT)


async def _bound(clients: BenchClients) -> int:
    """Return the number of bound replicas in all statuses."""
    found = (await clients.platform.list("workloads")).items
    return sum(int(one.get("status", {}).get("bound", 0)) for one in found)
