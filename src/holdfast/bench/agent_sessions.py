"""The cost of 2,000 agents for their region's server while nothing changes: processor time, and entries in its log.

    2,000 agents in one process ──▶ heartbeats, four in a lease ──▶ one region's server of `holdfast dev`
                                ◀── a stream for each

The server's processor time is read from the operating system. It is first measured without agents.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.bench.fixtures.dev_clients import SECRET, BenchClients, dev_clients, document
from holdfast.bench.load.agent_load import AgentFleet, FleetStats
from holdfast.bench.load.load_process import LoadProcess
from holdfast.bench.report import BenchResult, Unmeasured, at_least, at_most, require
from holdfast.client.async_client import AsyncClient
from holdfast.core.model.objects.principals import format_token, hash_secret
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.wiring.dev.data_folder import REGIONS, read_ready_file

ROWS = ("agent.sessions2000", "agent.sessions2000_log", "agent.sessions2000_rate")
#: Required share of all heartbeats: one that waits for a core is late.
LEAST = 0.85
TOKEN = "agents"
LOAD_MODULE = "holdfast.bench.load.agent_load"


class SessionsSize(NamedTuple):
    """Number of agents and three times: without agents, settling after the last registration, and with agents."""

    agents: int
    alone_seconds: float
    settle_seconds: float
    watched_seconds: float


WHOLE, SMALL = SessionsSize(2_000, 10, 10, 20), SessionsSize(20, 3, 3, 3)


class ServerSample(Struct, frozen=True):
    """A server at one moment: processor seconds used by its process, and the last batch of its log."""

    when: float
    used: float
    seq: int


async def measure_sessions(folder: Path, *, small: bool = False) -> list[BenchResult]:
    """Measure percent of one core, batches in the log, and answered heartbeats per second.

    The baselines: the same server without agents, all answered heartbeats, and four per lease.
    """
    size = SMALL if small else WHOLE
    async with dev_clients(folder) as clients:
        await admit_agents(clients)
        region, ready = clients.regions[0], read_ready_file(folder / REGIONS[0])
        if ready is None:
            raise Unmeasured("the region's server is no longer ready")
        alone, _ = await _watched(region, ready.pid, size.alone_seconds)
        async with LoadProcess.running(
            LOAD_MODULE, AgentFleet(ready.address, format_token(TOKEN, SECRET), size.agents)
        ) as other:
            await asyncio.sleep(size.settle_seconds)
            before = await _lived(other)
            percent, batches = await _watched(region, ready.pid, size.watched_seconds)
            after = await _lived(other)
    require(
        (after.broken, after.over) == (before.broken, before.over), f"streams or sessions ended: {before} to {after}"
    )
    answered, wanted = after.renewed - before.renewed, size.agents * 4_000 / DEFAULTS.session_lease
    return [
        at_most("agent.sessions2000", percent, "percent", alone, 20),
        at_most("agent.sessions2000_log", batches, "batches", answered, 0),
        at_least("agent.sessions2000_rate", answered / (after.when - before.when), "/s", wanted, wanted * LEAST),
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
