"""Agents, between processes: from a workload to a serving process, and the cost of 2,000 sessions for a region.

Serving: the example's service, one replica, in one region after the other. Each workload is deleted completely before
the next is created, so that nothing else happens meanwhile. Its path:

    write ──▶ assigned ──▶ shipped ──▶ placed ──▶ started ──▶ ready ──▶ probed ──▶ reported ──▶ watch
    platform  platform     region      region     agent       agent     region     platform     platform

2,000 agents in one process ──▶ heartbeats, four in a lease ──▶ one region's server of `holdfast dev`
                                ◀── a stream for each

The server's processor time is read from the operating system. It is first measured without agents.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.bench import report
from holdfast.bench.fixtures.dev_clients import (
    CLASS,
    LOOK_SECONDS,
    SECRET,
    TENANT,
    BenchClients,
    Document,
    dev_clients,
    document,
    watch_timers,
)
from holdfast.bench.load.agent_load import AgentFleet, FleetStats
from holdfast.bench.load.load_process import LoadProcess
from holdfast.client.async_client import AsyncClient
from holdfast.client.errors import NotFoundError
from holdfast.core.model.objects.principals import format_token, hash_secret
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.wiring.dev.data_folder import REGIONS, documents_in, example, read_ready_file

SESSION_ROWS = ("agent.sessions2000", "agent.sessions2000_log", "agent.sessions2000_rate")
#: Required share of all heartbeats: one that waits for a core is late.
LEAST = 0.85
TOKEN = "agents"
LOAD_MODULE = "holdfast.bench.load.agent_load"
#: Workloads for warm-up, and measured workloads.
SERVING, SERVING_SMALL = (3, 100), (0, 3)
SERVING_ROWS = ("agent.serving_p50", "agent.serving_p99")
#: Nodes per region, each with an agent.
NODES = 1
#: Time limit per workload.
SECONDS_EACH = 60
#: Pause between two workloads, so that the first has no work left in progress.
PAUSE_SECONDS = 0.1


class SessionsSize(NamedTuple):
    """Number of agents and three times: without agents, settling after the last registration, and with agents."""

    agents: int
    alone_seconds: float
    settle_seconds: float
    watched_seconds: float


SESSIONS, SESSIONS_SMALL = SessionsSize(2_000, 10, 10, 20), SessionsSize(20, 3, 3, 3)


class ServerSample(Struct, frozen=True):
    """A server at one moment: processor seconds used by its process, and the last batch of its log."""

    when: float
    used: float
    seq: int


async def measure_sessions(folder: Path, *, small: bool = False) -> list[report.BenchResult]:
    """Measure percent of one core, batches in the log, and answered heartbeats per second.

    The baselines: the same server without agents, all answered heartbeats, and four per lease.
    """
    size = SESSIONS_SMALL if small else SESSIONS
    async with dev_clients(folder) as clients:
        await admit_agents(clients)
        region, ready = clients.regions[0], read_ready_file(folder / REGIONS[0])
        if ready is None:
            raise report.Unmeasured("the region's server is no longer ready")
        alone, _ = await _watched(region, ready.pid, size.alone_seconds)
        async with LoadProcess.running(
            LOAD_MODULE, AgentFleet(ready.address, format_token(TOKEN, SECRET), size.agents)
        ) as other:
            await asyncio.sleep(size.settle_seconds)
            before = await _lived(other)
            percent, batches = await _watched(region, ready.pid, size.watched_seconds)
            after = await _lived(other)
    report.require(
        (after.broken, after.over) == (before.broken, before.over), f"streams or sessions ended: {before} to {after}"
    )
    answered, wanted = after.renewed - before.renewed, size.agents * 4_000 / DEFAULTS.session_lease
    return [
        report.at_most("agent.sessions2000", percent, "percent", alone, 20),
        report.at_most("agent.sessions2000_log", batches, "batches", answered, 0),
        report.at_least("agent.sessions2000_rate", answered / (after.when - before.when), "/s", wanted, wanted * LEAST),
    ]


async def admit_agents(clients: BenchClients) -> None:
    """Create a principal and a token for agents at the platform, which ships them to its regions."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    spec = {"principal": "agent/*", "hash": hash_secret(SECRET), "expires": expires, "any": True}
    await clients.platform.batch([document("Principal", "agent/*", {}), document("Token", TOKEN, spec)])


async def _lived(other: LoadProcess) -> FleetStats:
    other.tell()
    return msgspec.json.decode(await other.hear(), type=FleetStats)


async def _watched(region: AsyncClient, pid: int, seconds: float) -> tuple[float, int]:
    """Return the percent of one core that the server used, and the batches that it wrote."""
    before = await _look(region, pid)
    await asyncio.sleep(seconds)
    after = await _look(region, pid)
    return (after.used - before.used) * 100 / (after.when - before.when), after.seq - before.seq


async def _look(region: AsyncClient, pid: int) -> ServerSample:
    status = await region.status()
    clock = (~pid << 3) | 2  # The process's clock, as Linux names it: in nanoseconds, not in ticks.
    return ServerSample(time.monotonic(), time.clock_gettime(clock), int(status["token"].split(":")[2]))


async def measure_serving(folder: Path, *, small: bool = False) -> list[report.BenchResult]:
    """Measure from before the write until a watch shows the serving replica. Baseline: the write."""
    warm_up, workloads = SERVING_SMALL if small else SERVING
    async with dev_clients(folder, agents=NODES) as clients, report.time_limit(SECONDS_EACH * (warm_up + workloads)):
        times = await _times(clients, warm_up + workloads)
    took, wrote = zip(*times[warm_up:], strict=True)
    written = statistics.median(wrote)
    return [
        report.at_most("agent.serving_p50", statistics.median(took), "s", written, 1, took),
        report.at_most("agent.serving_p99", report.p99(took), "s", written, 3, took),
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
        raise report.Unmeasured("the example, whose service is started, exists only in a source checkout")
    (found,) = [one for one in documents_in(file) if one["metadata"]["name"] == "risk-api"]
    return found["spec"]["template"]


def _serving(workload: Document) -> str:
    """Return the name of a workload whose replica serves; empty for all others."""
    return str(workload["metadata"]["name"]) if workload.get("status", {}).get("serving") == 1 else ""


def run(*, small: bool = False) -> report.BenchReport:
    """Measure all figures of agents."""
    sheet = report.ReportBuilder()
    with sheet.part(*SERVING_ROWS, *SESSION_ROWS), report.temporary_folder() as folder:
        with sheet.part(*SERVING_ROWS):
            sheet.add(*asyncio.run(measure_serving(folder / "serving", small=small)))
        with sheet.part(*SESSION_ROWS):
            sheet.add(*asyncio.run(measure_sessions(folder / "sessions", small=small)))
    return sheet.report()
