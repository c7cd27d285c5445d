"""Four schedulers in processes of their own: they follow the region's log over HTTP and propose in sessions.

slots are opened while they run ──▶ the last one is bound. The server and four processes share the machine's processors.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from holdfast.api.server.app import ApiServer
from holdfast.api.server.context import ServerContext
from holdfast.bench.fixtures.live_region import LiveRegion, live_region
from holdfast.bench.report import BenchResult, at_least, require
from holdfast.bench.sharing.embedded import SCHEDULERS, WITHIN_S, counted, fill, wanted
from holdfast.core.model.objects.principals import Token, TokenSpec, format_token, hash_secret
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c
from holdfast.host.ports.clock import SystemClock
from holdfast.transports.http_transport import HttpTransport

ROWS = ("sharing.standalone4", "sharing.standalone4_conflicts")
SECRET = "s" * 43
#: Time in which the processes start and load the region.
STARTED_S = 60


async def measure_standalone(folder: Path, nodes: int, slots: int) -> list[BenchResult]:
    """Measure the rate of four processes, and their conflicts per placement."""
    async with live_region(folder, nodes) as yard:
        await fill(yard)
        clock = SystemClock()
        transport = HttpTransport(clock, listen="127.0.0.1:0")
        api = ApiServer(ServerContext(yard.ledger, transport, decisions=yard.decisions))
        transport.serve(api.serve)
        await transport.start()
        keeping = asyncio.create_task(api.run())
        found: list[asyncio.subprocess.Process] = []
        try:
            for name in [f"s{number}" for number in range(1, SCHEDULERS + 1)]:
                one = await _start(yard, folder, transport.address, name)
                found.append(one)
            took = await _round(yard, keeping, slots)
        finally:
            await _stop(found)
            keeping.cancel()
            await asyncio.wait({keeping})
            await transport.close()
        placed, refused = counted(yard, "scheduler_bound"), counted(yard, "scheduler_conflicts")
        rate = slots / took
        return [
            at_least(ROWS[0], rate, "bound/s", rate, 0),
            at_least(ROWS[1], refused / max(1, placed), "refused per placed", rate, 0),
        ]


async def _start(yard: LiveRegion, folder: Path, server: str, name: str) -> asyncio.subprocess.Process:
    """Start one scheduler with a token of its own."""
    spec = TokenSpec(
        principal=f"scheduler/{name}", hash=hash_secret(SECRET), expires=yard.ledger.clock.wall() + 10**9, any=False
    )
    await yard.ship(c.ShippedToken(Token(meta=Meta(name=name), spec=spec)))
    file = folder / f"{name}.token"
    file.touch(mode=0o600)
    file.write_text(format_token(name, SECRET), encoding="utf-8")
    words = ["scheduler", "--server", server, "--name", name, "--token-file", str(file)]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast.cli.main", *words,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def _round(yard: LiveRegion, keeping: asyncio.Task[None], slots: int) -> float:
    """Wait until all schedulers are live; then open work, and return the seconds until the last slot is bound."""
    leader, until = yard.ledger.leader, time.perf_counter() + STARTED_S
    assert leader is not None
    while len(leader.term.schedulers.live()) < SCHEDULERS:
        require(time.perf_counter() < until, f"only {leader.term.schedulers.live()} are live after {STARTED_S} s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(yard.state.info.settings.session_lease / 3_000)  # all have heard of all
    start = time.perf_counter()
    await yard.open(wanted("standalone", slots))
    await yard.placed(WITHIN_S, keeping)
    return time.perf_counter() - start


async def _stop(found: list[asyncio.subprocess.Process]) -> None:
    for one in found:
        if one.returncode is None:
            one.terminate()
    for one in found:
        await one.wait()
