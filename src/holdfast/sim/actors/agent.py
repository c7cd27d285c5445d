"""The program of a node: the production agent, restarted when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.definition import REGION
from holdfast.host.protocol.session_client import SessionConfig, Superseded
from holdfast.host.runtime.telemetry import Metrics
from holdfast.sim.actors.ack_recorder import AckRecorder, AckSink
from holdfast.sim.actors.node_processes import SimulatedNode
from holdfast.sim.variety import NodeProfile
from holdfast.sim.world.world import Program, SimProcess
from holdfast.wiring.agent_parts import AgentPorts, build_agent

#: Agents start at random times within this span.
APART_MS = DEFAULTS.session_lease // 4


class _Asking:
    """Probes the processes of the simulated node directly."""

    def __init__(self, metal: SimulatedNode) -> None:
        self._metal = metal

    async def probe(self, one: BoundSlot, template: Template, probe: Probe) -> str:
        return "" if self._metal.answers(one.slot, one.epoch) else "connection refused"


def agent(
    metals: Mapping[str, SimulatedNode],
    servers: Sequence[str],
    furnished: NodeProfile,
    heard: AckSink,
    metrics: Metrics,
) -> Program:
    """Return the program of a node's agent, on its simulated node. Its address is the node's name."""

    async def run(process: SimProcess) -> None:
        metal, clock = metals[process.machine], process.clock
        actor = process.transport.certificate = f"agent/{metal.name}"
        node = RegisterNode(
            metal.name, furnished.pool, metal.zone, furnished.capacity, furnished.devices, furnished.ports,
            furnished.labels, metal.name, metal.identity, shares_user=False,
        )  # fmt: skip
        way = AckRecorder(process.transport, dict.fromkeys(servers, (REGION, heard)))
        chance = process.chance("agent")
        while True:
            await clock.sleep(chance.randrange(APART_MS))
            terms, driver = TermFence(metal.newest, metal.keep), SimulatedDriver(metal)
            ports = AgentPorts(driver, _Asking(metal), terms, metal.times)
            try:
                await build_agent(node, SessionConfig(actor, tuple(servers)), way, clock, ports, metrics).run()
            except Superseded:
                continue  # the network duplicated the request that opened its session, and the copy came late

    return run
