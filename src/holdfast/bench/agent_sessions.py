"""What 2,000 agents cost their region's server while nothing changes: processor time, and entries in its log.

    2,000 agents in one process ──▶ heartbeats, four in a lease ──▶ one region's server of `holdfast dev`
                                ◀── a stream for each

The server's processor time is what the system says of its process. First it is watched without agents.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.bench.fixtures.dev_clients import SECRET, Clients, asking, document
from holdfast.bench.load.agent_load import Crowd, Lived
from holdfast.bench.load.load_process import Other
from holdfast.bench.report import Result, Unmeasured, at_least, at_most, must
from holdfast.client.async_client import Holdfast
from holdfast.core.model.objects.principals import hashed, spoken
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.wiring.dev.data_folder import REGIONS, ready_in

ROWS = ("agent.sessions2000", "agent.sessions2000_log", "agent.sessions2000_rate")
#: The part of all heartbeats that has to come: one that waits for a core comes late.
LEAST = 0.85
TOKEN = "agents"
OTHER = "holdfast.bench.load.agent_load"


class Size(NamedTuple):
    """So many agents. A server is watched without them; then, after the last has registered, until nothing of it is
    under way any more; and then with them."""

    agents: int
    alone_seconds: float
    settle_seconds: float
    watched_seconds: float


WHOLE, SMALL = Size(2_000, 10, 10, 20), Size(20, 3, 3, 3)


class Look(Struct, frozen=True):
    """A server at a moment: the seconds of a core that its process has used, and the last batch of its log."""

    when: float
    used: float
    seq: int


async def measure_sessions(folder: Path, *, small: bool = False) -> list[Result]:
    """The percent of one core, the batches in the log meanwhile, and the heartbeats answered in a second.

    The baselines are the same server without agents, all heartbeats that were answered, and four in each lease.
    """
    size = SMALL if small else WHOLE
    async with asking(folder) as clients:
        await admit_agents(clients)
        region, ready = clients.regions[0], ready_in(folder / REGIONS[0])
        if ready is None:
            raise Unmeasured("the region's server is not ready any more")
        alone, _ = await _watched(region, ready.pid, size.alone_seconds)
        async with Other.running(OTHER, Crowd(ready.address, spoken(TOKEN, SECRET), size.agents)) as other:
            await asyncio.sleep(size.settle_seconds)
            before = await _lived(other)
            percent, batches = await _watched(region, ready.pid, size.watched_seconds)
            after = await _lived(other)
    must((after.broken, after.over) == (before.broken, before.over), f"it was not quiet: {before} to {after}")
    answered, wanted = after.renewed - before.renewed, size.agents * 4_000 / DEFAULTS.session_lease
    return [
        at_most("agent.sessions2000", percent, "percent", alone, 20),
        at_most("agent.sessions2000_log", batches, "batches", answered, 0),
        at_least("agent.sessions2000_rate", answered / (after.when - before.when), "/s", wanted, wanted * LEAST),
    ]


async def admit_agents(clients: Clients) -> None:
    """Agents can prove who they are, at the platform and at the region that is asked."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    spec = {"principal": "agent/*", "hash": hashed(SECRET), "expires": expires, "any": True}
    await clients.platform.batch([document("Principal", "agent/*", {}), document("Token", TOKEN, spec)])


async def _lived(other: Other) -> Lived:
    other.tell()
    return msgspec.json.decode(await other.hear(), type=Lived)


async def _watched(region: Holdfast, pid: int, seconds: float) -> tuple[float, int]:
    """The percent of one core that the server used for so long, and how many batches it wrote."""
    before = await _look(region, pid)
    await asyncio.sleep(seconds)
    after = await _look(region, pid)
    return (after.used - before.used) * 100 / (after.when - before.when), after.seq - before.seq


async def _look(region: Holdfast, pid: int) -> Look:
    status = await region.status()
    clock = (~pid << 3) | 2  # the clock of that process, as Linux names it: counted in nanoseconds, not in ticks
    return Look(time.monotonic(), time.clock_gettime(clock), int(status["token"].split(":")[2]))
