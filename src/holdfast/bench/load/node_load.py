"""The other end of `road.c1m_s`: one process that is the nodes of every region, and does nothing but keep them alive.

Each node is an agent of its own to its region: it opens a session, registers, and sends its heartbeats. What is bound
to it is not read and nothing is started: what is measured ends where a replica is bound.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
from msgspec import Struct

from holdfast.bench.load.load_process import run_load, write_line
from holdfast.bench.report import require
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import SystemClock
from holdfast.host.protocol.commands import CommandOutcome
from holdfast.host.protocol.session_client import SessionClient, SessionConfig
from holdfast.transports.http_transport import HttpTransport

ZONES = 3
#: So many come at a time.
AT_ONCE = 20


class NodeFleet(Struct, frozen=True):
    """So many nodes in each region, at its server, with a token that stands for all of them."""

    servers: dict[str, str]
    token: str
    nodes: int
    capacity: Resources


async def run_nodes(standing: NodeFleet) -> None:
    """Be all of them, until the last line."""
    clock = SystemClock()
    transport = HttpTransport(clock)
    await transport.start()
    voices: list[SessionClient] = []
    at_once = asyncio.Semaphore(AT_ONCE)

    async def come(region: str, server: str, number: int) -> None:
        name = f"{region}-{number:03}"
        proof = (("authorization", f"Bearer {standing.token}"), ("holdfast-actor", f"agent/{name}"))
        session = SessionClient(transport, clock, SessionConfig(f"agent/{name}", (server,), lambda: proof), clock.boot)
        node = RegisterNode(name, f"{region}-general", f"{region}-{number % ZONES}", standing.capacity)
        async with at_once:
            for answered in (await session.open(), await session.send(node)):
                require(answered.said is CommandOutcome.LANDED, f"{name} was refused: {answered.message}")
        voices.append(session)

    for region, server in standing.servers.items():
        await asyncio.gather(*(come(region, server, number) for number in range(standing.nodes)))
    beating = [asyncio.create_task(session.keep_alive()) for session in voices]
    write_line("ready")
    await asyncio.to_thread(sys.stdin.readline)
    over = [task.exception() for task in beating if task.done()]
    for task in beating:
        task.cancel()
    await asyncio.gather(*beating, return_exceptions=True)
    await transport.close()
    require(not over, f"{len(over)} nodes lost their sessions: {over[0] if over else ''}")
    write_line("ready")


def main() -> None:
    """Be what the first line says."""
    run_load(run_nodes(msgspec.json.decode(sys.stdin.readline(), type=NodeFleet)))


if __name__ == "__main__":
    main()
