"""Load process of `agent.sessions2000`: many agents in one process, each as if alone on its machine.

The agents are those of `holdfast agent`, with a driver that starts nothing. Each has its own connections, so two
agents' heartbeats never share one. They start one after the other, so their heartbeats stay apart.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from holdfast.agent.agent import Agent
from holdfast.bench.load.load_process import run_load, write_line
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.transport import Reply, Request, RequestHandler
from holdfast.host.protocol.commands import RENEWALS
from holdfast.host.protocol.session_client import SessionConfig
from holdfast.host.runtime.telemetry import Metrics
from holdfast.transports.http_transport import HttpTransport
from holdfast.wiring.dev.simulated_nodes import CAPACITY, PORTS, simulated_agent
from holdfast.wiring.process import raise_open_file_limit

#: Pause between two starts, which spreads heartbeats over a lease.
BETWEEN_SECONDS = 0.004


class AgentFleet(Struct, frozen=True):
    """Agents at a server, with one token for all of them."""

    server: str
    token: str
    agents: int


class FleetStats(Struct, frozen=True):
    """Totals of all agents so far: answered heartbeats, broken streams, ended sessions."""

    when: float
    renewed: int
    broken: int
    over: int


class CountingTransport:
    """An agent's transport that counts answered heartbeats and observes the start of its stream."""

    def __init__(self, inner: HttpTransport) -> None:
        self._inner = inner
        self.renewed = 0
        self.stream_began = asyncio.Event()

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        reply = await self._inner.call(peer, request, timeout_ms)
        self.renewed += request.path == RENEWALS and reply.status == 200
        return reply

    async def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        async for message in self._inner.stream(peer, request, idle_ms):
            self.stream_began.set()
            yield message

    def serve(self, serving: RequestHandler) -> None:
        self._inner.serve(serving)

    async def close(self) -> None:
        await self._inner.close()


async def run_fleet(crowd: AgentFleet) -> None:
    """Run all agents. After each input line, print their totals; end with the input."""
    metrics, clock = Metrics(), SystemClock()
    lines: list[CountingTransport] = []
    tasks: list[asyncio.Task[None]] = []
    for number in range(crowd.agents):
        transport = HttpTransport(clock)
        await transport.start()
        lines.append(CountingTransport(transport))
        tasks.append(asyncio.create_task(_agent(crowd, f"agent-{number:04}", lines[-1], clock, metrics).run()))
        await asyncio.sleep(BETWEEN_SECONDS)
    for line in lines:
        await line.stream_began.wait()
    write_line("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        broken, over = metrics.counted("agent_streams_broken"), metrics.counted("agent_sessions_over")
        write_line(FleetStats(time.monotonic(), sum(line.renewed for line in lines), broken, over))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(line.close() for line in lines))


def _agent(crowd: AgentFleet, name: str, line: CountingTransport, clock: Clock, metrics: Metrics) -> Agent:
    proof = (("authorization", f"Bearer {crowd.token}"), ("holdfast-actor", f"agent/{name}"))
    sender = SessionConfig(f"agent/{name}", (crowd.server,), lambda: proof)
    node = RegisterNode(name, "general", "a", CAPACITY["general"], ports=PORTS)
    return simulated_agent(line, clock, sender, node, metrics)


def main() -> None:
    """Run the fleet of the first input line."""
    raise_open_file_limit()
    run_load(run_fleet(msgspec.json.decode(sys.stdin.readline(), type=AgentFleet)))


if __name__ == "__main__":
    main()
