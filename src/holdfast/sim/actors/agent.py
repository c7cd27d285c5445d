"""The program of a node: the production agent, and whoever looks after it and starts it again when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.agent.agent import AgentSuperseded
from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.definition import REGION
from holdfast.host.protocol.session_client import SessionConfig
from holdfast.host.runtime.telemetry import Metrics
from holdfast.sim.actors.ack_recorder import AckRecorder, AckSink
from holdfast.sim.actors.node_processes import SimulatedNode
from holdfast.sim.variety import NodeProfile
from holdfast.sim.world.world import Program, SimProcess
from holdfast.wiring.agent_parts import AgentPorts, build_agent

#: Not all agents begin in one moment.
APART_MS = DEFAULTS.session_lease // 4


class _Asking:
    """Asks what really runs on a machine."""

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
    """The program of a node's agent, on the metal of its machine. Its address is its name."""

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
            except AgentSuperseded:
                continue  # this network copies questions: an opening of its own came twice, and once too late

    return run
