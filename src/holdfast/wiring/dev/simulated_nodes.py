"""Declared nodes: normal agents in one process, with simulated runs.

    python -m holdfast.wiring.dev.simulated_nodes DATA PORT COUNT    for the platform in the folder DATA

So a region can have thousands of nodes for trying placement. When the process ends, all simulated runs end with it: the
next process registers the same names, reports that nothing is left, and starts them again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.agent import Agent
from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver, SimulatedMachine
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.session_client import SessionConfig
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Metrics
from holdfast.observe import log_output
from holdfast.transports.http_transport import HttpTransport
from holdfast.wiring.agent import READY, write_ready_file
from holdfast.wiring.agent_parts import AgentPorts, build_agent
from holdfast.wiring.config.private_files import NoToken, TokenCredentials
from holdfast.wiring.dev.data_folder import NODES, REGIONS, address, node_name, token_file
from holdfast.wiring.process import until_signalled

ZONES = ("a", "b", "c")
#: Regions in which the example has a pool of nodes with much memory beside the general one.
MEMORY = ("eu-central", "us-east")
#: By pool: general nodes have 2 GiB for each cpu, memory nodes 16.
CAPACITY = {"general": Resources(8_000, 16 << 10, 100 << 10, 0), "memory": Resources(8_000, 128 << 10, 200 << 10, 0)}
PORTS = (30_000, 30_999)


def nodes_of(region: str, count: int) -> list[RegisterNode]:
    """Return `count` nodes, in each zone by turns, of the general pool and, where it exists, of the memory pool."""
    found = []
    for number in range(count):
        turn, zone = divmod(number, len(ZONES))
        shape = "memory" if turn % 2 and region in MEMORY else "general"
        labels = (("shape", shape),)
        name, pool, place = node_name(region, number), f"{region}-{shape}", f"{region}-{ZONES[zone]}"
        found.append(RegisterNode(name, pool, place, CAPACITY[shape], (), PORTS, labels))
    return found


class HealthyProber:
    """Passes every probe, for simulated runs."""

    async def probe(self, one: BoundSlot, template: Template, probe: Probe) -> str:
        """Return no failure."""
        del one, template, probe
        return ""


def simulated_agent(
    transport: Transport, clock: Clock, sender: SessionConfig, node: RegisterNode, metrics: Metrics | None = None
) -> Agent:
    """Return the agent of a node with simulated runs, which go on until they are stopped or this process ends."""
    driver = SimulatedDriver(SimulatedMachine(clock, lambda _work: SimulatedBehavior()))
    terms = TermFence(("", 0), lambda _log_id, _term: None)
    return build_agent(node, sender, transport, clock, AgentPorts(driver, HealthyProber(), terms), metrics or Metrics())


async def run(data: Path, port: int, count: int, asked: asyncio.Event) -> None:
    """Run all agents until a stop is requested. `NoToken` if there is no token."""
    clock, credentials = SystemClock(), TokenCredentials(token_file(data))
    transport = HttpTransport(clock)
    await transport.start()

    def sender(region: str, node: RegisterNode) -> SessionConfig:
        actor = f"agent/{node.name}"
        return SessionConfig(actor, (address(region, port),), credentials.speaking_as(actor))

    nodes = [
        simulated_agent(transport, clock, sender(region, node), node)
        for region in REGIONS
        for node in nodes_of(region, count)
    ]
    ready = data / NODES / READY
    try:
        await run_until_first(*(node.run() for node in nodes), write_ready_file(nodes, ready), asked.wait())
    finally:
        ready.unlink(missing_ok=True)
        await transport.close()


def main(words: Sequence[str]) -> int:
    """Run the process; return its exit code."""
    data, port, count = words
    log_output.configure_logging("info", "text")
    try:
        asyncio.run(until_signalled(lambda asked: run(Path(data), int(port), int(count), asked)))
    except NoToken as error:
        log_output.print_status(f"declared nodes: cannot start: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
