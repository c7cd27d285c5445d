"""The programs of a node and of a standalone scheduler: the production ones, restarted when they end; and a plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.definition import REGION
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.protocol.session_client import SessionConfig, Superseded
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.scheduler.standalone import StandaloneScheduler
from holdfast.sim.actors.ack_recorder import AckRecorder, AckSink, SendListener
from holdfast.sim.actors.node_processes import SimulatedNode
from holdfast.sim.variety import NodeProfile
from holdfast.sim.world.world import Program, SimProcess
from holdfast.wiring.agent_parts import AgentPorts, build_agent
from holdfast.wiring.scheduler import build_scheduler

#: Range of the wait before a restart.
AGAIN_MS = 1_000, 3_000

#: Called for every scheduler that starts, with its machine.
Begun = Callable[[str, StandaloneScheduler, Metrics], None]
#: One in this many templates is reserved first; one in this many of its slots fails its first binding.
RESERVED_ONE_IN = 4
UNBOUND_ONE_IN = 8
#: Agents start at random times within this span.
APART_MS = DEFAULTS.session_lease // 4


def scheduler(servers: Sequence[str], heard: AckSink, said: SendListener, begun: Begun) -> Program:
    """Return the program of a scheduler of the region with these servers."""

    async def run(process: SimProcess) -> None:
        actor = process.transport.certificate = f"scheduler/{process.machine}"
        way = AckRecorder(process.transport, dict.fromkeys(servers, (REGION, heard)), said)
        chance = process.chance("scheduler")
        while True:
            metrics, sender = Metrics(), SessionConfig(actor, tuple(servers))
            one = build_scheduler(sender, way, process.clock, with_reserve_then_bind(), metrics, process.machine)
            begun(process.machine, one, metrics)
            try:
                await one.run()
            except Superseded:  # the network duplicated the request that opened its session, and the copy came late
                await process.clock.sleep(chance.randrange(*AGAIN_MS))

    return run


class ReserveThenBind:
    """Reserves the slots of some templates first, and refuses the first binding of some of these slots."""

    name, version = "two-steps", "1"

    def __init__(self) -> None:
        self._doubted: set[SlotKey] = set()

    def waits(self, ask: SlotAsk) -> bool:
        """Decide by the template digest."""
        return int(ask.digest[:4], 16) % RESERVED_ONE_IN == 0

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        """Decide by the slot and its node."""
        if slot in self._doubted or (slot[1] + node) % UNBOUND_ONE_IN:
            return ""
        self._doubted.add(slot)
        return "it thought better of it"


def with_reserve_then_bind() -> Plugins:
    """Return the plugins of one incarnation of a scheduler."""
    two_steps = ReserveThenBind()
    return replace(BUILT_IN, binds=(two_steps,), reserves=(two_steps,))


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
