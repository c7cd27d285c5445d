"""Load process of `road.c1m_s`: the nodes of every region, which only stay connected.

Each node is its own agent for its region: it opens a session, registers, and sends heartbeats. It reads no bindings and
starts nothing, because the measurement ends when a replica is bound.
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
#: Nodes that register at the same time.
AT_ONCE = 20


class NodeFleet(Struct, frozen=True):
    """Nodes of each region, their servers, and one token for all of them."""

    servers: dict[str, str]
    token: str
    nodes: int
    capacity: Resources


async def run_nodes(standing: NodeFleet) -> None:
    """Run all nodes until the last input line."""
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
    """Run the nodes of the first input line."""
    run_load(run_nodes(msgspec.json.decode(sys.stdin.readline(), type=NodeFleet)))


if __name__ == "__main__":
    main()
