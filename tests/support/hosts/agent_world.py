"""An agent of one node on virtual time: its machine, its line to the region, and the lives it has."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.agent.agent import Agent
from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver, SimulatedMachine
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.agent.node_load import NodeLoad
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.nodes import NO_MACHINE
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import Pairs
from holdfast.host.protocol.session_client import SessionClient, SessionConfig
from holdfast.host.runtime.telemetry import Metrics
from tests.support.api.api_cluster import Part, World, bearer
from tests.support.hosts.link_world import CuttableTransport
from tests.support.ledgers.region import CLASSES, a_template, an_assignment

LINK, REPLICA, SCHEDULER = "controller/link", "controller/replica", "controller/scheduler"
UID = 100


class ScriptedProber:
    """What processes say to probes: by the probe's kind, why it fails."""

    def __init__(self) -> None:
        self.why: dict[str, str] = {}
        #: What asking raises instead.
        self.error: Exception | None = None
        self.asked = 0

    async def probe(self, one: BoundSlot, template: Template, probe: Probe) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        kinds = {"startup": template.startup, "readiness": template.readiness, "liveness": template.liveness}
        return next((self.why.get(kind, "") for kind, known in kinds.items() if known is probe), "")


class Node:
    """A machine with an agent, which can be killed and started again."""

    def __init__(self, world: World, region: Part, name: str = "n1") -> None:
        self.world = world
        self.region = region
        self.name = name
        self.pool = "general"
        #: The name of the token that it shows.
        self.token = "agents"
        self.habits: dict[int, SimulatedBehavior] = {}
        self.machine = SimulatedMachine(world.clock, lambda work: self.habits.get(work.slot[1], SimulatedBehavior()))
        self.answers = ScriptedProber()
        self.metrics = Metrics()
        #: How the node fares; None: nobody is told.
        self.fares: NodeLoad | None = None
        self.newest = ("", 0)
        #: What its agent says of it, and the numbers that it keeps.
        self.identity = NO_MACHINE
        self.shares_user = False
        self.times = AgentLeaseTimes()
        #: That of the agent's last life.
        self.session = 0
        self.line = CuttableTransport(world.network.join(name))
        self.task: asyncio.Task[None] | None = None

    def _proof(self) -> Pairs:
        return (("authorization", bearer(self.token)), ("holdfast-actor", f"agent/{self.name}"))

    def _keep(self, log_id: str, term: int) -> None:
        self.newest = log_id, term

    def start(self) -> Node:
        """A new life of its agent."""
        clock = self.world.clock
        voice = SessionClient(
            self.line, clock, SessionConfig(f"agent/{self.name}", (self.region.name,), self._proof), clock.boot
        )
        capacity = Resources(10**5, 10**6, 10**6, 0)
        node = c.RegisterNode(
            self.name, self.pool, "a", capacity, ports=(30_000, 30_100), machine=self.identity,
            shares_user=self.shares_user,
        )  # fmt: skip
        terms, driver = TermFence(self.newest, self._keep), SimulatedDriver(self.machine)
        faring = self if self.fares is not None else None
        agent = Agent(node, voice, self.line, driver, self.answers, terms, clock, self.metrics, faring, self.times)
        self.task = asyncio.create_task(agent.run())
        return self

    async def look(self) -> NodeLoad:
        """How it fares now."""
        assert self.fares is not None
        return self.fares

    async def kill(self) -> None:
        """Its agent is gone; what runs stays."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})
        self.task = None
        self.session = self.region.state.nodes[self.uid].session if self.uid else 0

    def running(self) -> list[int]:
        """The ordinals whose processes run."""
        lives = SimulatedDriver(self.machine).runs()
        return sorted(live.slot[1] for live in lives if live.state.value == "running")

    @property
    def uid(self) -> int:
        found: int = self.region.state.node_names.get(self.name) or 0
        return found

    async def is_known(self) -> None:
        await self.world.until(lambda: bool(self.uid) and self.region.state.nodes[self.uid].session > self.session)


async def a_region(world: World, template: Template | None = None, **assigned: Any) -> Part:
    """A region with one workload of a template, of which slots can be opened."""
    region = await world.region()
    template = template or a_template(cpu=100)
    puts: tuple[c.ShippedItem, ...] = (
        *[c.ShippedPriorityClass(one) for one in CLASSES],
        c.ShippedTemplate(template_digest(template), template),
        c.ShippedAssignment(an_assignment(uid=UID, template=template, count=100, **assigned)),
        c.ShippedGrant("quota/acme", 1, Resources(10**6, 10**6, 10**6, 0), world.clock.wall() + 86_400_000),
    )
    await region.submit(LINK, c.Ship("log-platform", 1, 1, 2, puts))
    return region


async def bind(region: Part, node: Node, *ordinals: int) -> None:
    """Slots that are bound to the node."""
    digest = region.state.assignments[UID].shares[0].template
    await region.submit(REPLICA, c.OpenSlots(UID, digest, ordinals))
    await place(region, node, *ordinals)


async def place(region: Part, node: Node, *ordinals: int) -> None:
    """Put slots that wait on the node."""
    digest = region.state.assignments[UID].shares[0].template
    group = c.PlacementGroup(UID, digest, tuple(c.SlotPlacement(ordinal, node.uid) for ordinal in ordinals))
    await region.submit(SCHEDULER, c.Propose((group,), region.state.info.at + 4_000))


def phases(region: Part) -> dict[int, str]:
    """The phase of each slot by its ordinal."""
    return {key[1]: slot.phase.value for key, slot in region.state.slots.items()}
