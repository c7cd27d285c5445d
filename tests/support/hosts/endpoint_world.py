"""A region's server that publishes: replicas on nodes with addresses, and whether somebody answers at each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import commands as c
from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.host.controllers.endpoint_checks import EndpointController
from holdfast.host.ports.endpoint_prober import EndpointOptions, EndpointProber
from tests.support.hosts.ledger_world import Server
from tests.support.ledgers.region import LINK, REPLICA, a_template, an_assignment

#: Few at a time, so that a test can tell how many are.
HABITS = EndpointOptions(workers=4)
FIRST_PORT = 30_000


class ProbedAddresses:
    """Who answers, at which ports; who was asked, when, by which server, and what came of it."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        #: Ports at which a question is never answered.
        self.mute: set[int] = set()
        self.asked: list[tuple[int, EndpointCheck]] = []
        #: Which replicas have answered, under which epoch, to which server.
        self.answered: set[tuple[str, SlotKey, Revision]] = set()
        self.at_once = self.most_at_once = 0

    def asks_from(self, server: Server) -> ScriptedEndpointProber:
        return ScriptedEndpointProber(self, server)


class ScriptedEndpointProber(EndpointProber):
    """The way from one server."""

    def __init__(self, town: ProbedAddresses, server: Server) -> None:
        self._town = town
        self._server = server

    async def probe(self, question: EndpointCheck) -> str:
        town, server = self._town, self._server
        town.asked.append((server.clock.boot(), question))
        town.at_once += 1
        town.most_at_once = max(town.most_at_once, town.at_once)
        try:
            await server.clock.sleep(5)
            if question.port in town.mute:
                await asyncio.Event().wait()
        finally:
            town.at_once -= 1
        if question.port not in town.open:
            return "connection refused"
        for key, slot in server.state.slots.items():
            if question.port in slot.ports:
                town.answered.add((server.name, key, slot.epoch))
        return ""


class EndpointWorld:
    """A server whose endpoints are asked, with one node `n1`, and replicas of workload 1 that take a port each."""

    def __init__(self, server: Server, town: ProbedAddresses, habits: EndpointOptions = HABITS) -> None:
        self.server = server
        self.town = town
        self.session = 0
        self.number = 0
        server.ledger.leader_tasks["endpoints"] = EndpointController(server.ledger, town.asks_from(server), habits).run

    async def set_up(self, count: int, *, ports: int = 1, address: str = "10.0.0.1", batch: bool = False) -> None:
        """So many replicas that run."""
        server = self.server
        await server.prepare()
        template = a_template(cpu=10, memory=10, ports=ports)
        digest = template_digest(template)
        work = an_assignment(template=template, count=count, batch=batch)
        ends = server.clock.wall() + 10**9
        grant = c.ShippedGrant("quota/acme", 1, Resources(10**6, 10**9, 10**9, 10**9), ends)
        await server.accept(
            LINK,
            c.Ship("log-platform", 1, 1, 2, (c.ShippedTemplate(digest, template), grant, c.ShippedAssignment(work))),
        )
        await self.register(address)
        await server.accept(REPLICA, c.OpenSlots(work.uid, digest, tuple(range(count))))
        node = server.state.node_names["n1"]
        placements = tuple(
            c.SlotPlacement(n, node, ports=tuple(FIRST_PORT + n + 500 * m for m in range(ports))) for n in range(count)
        )
        group = c.PlacementGroup(work.uid, digest, placements)
        await server.accept("controller/scheduler", c.Propose((group,), server.clock.wall() + 5_000))
        for target, cause in ((Phase.STARTING, "started"), (Phase.RUNNING, "running")):
            await self.say(range(count), target, cause)

    async def register(self, address: str = "10.0.0.1") -> None:
        """The agent opens a session, and says what its node is."""
        await self.server.accept("agent/n1", OpenSession())
        self.session, self.number = self.server.state.session_of["agent/n1"], 0
        capacity = Resources(10**6, 10**6, 10**6)
        node = c.RegisterNode("n1", "general", "a", capacity, ports=(FIRST_PORT, FIRST_PORT + 999), address=address)
        await self.send(node)

    async def send(self, command: Any) -> Any:
        """The agent says something in its session."""
        self.number += 1
        server = self.server
        return await server.ledger.submit(
            Envelope("agent/n1", command, server.clock.wall(), session=self.session, sequence=self.number)
        )

    async def say(self, ordinals: Iterable[int], target: Phase, cause: str) -> None:
        """The agent moves these."""
        moves = tuple(c.MoveSlot((1, n), self.slot(n).epoch, target, cause) for n in ordinals)
        answer = await self.send(c.Move(moves))
        assert isinstance(answer, Committed), answer

    async def ready(self, *ordinals: int) -> None:
        await self.say(ordinals, Phase.READY, "probe-passed")

    def answer_at(self, *ordinals: int) -> None:
        """The processes of these listen."""
        self.town.open |= {FIRST_PORT + n for n in ordinals}

    def hang_up(self, *ordinals: int) -> None:
        """The processes of these listen no more."""
        self.town.open -= {FIRST_PORT + n for n in ordinals}

    def slot(self, ordinal: int) -> Slot:
        return self.server.state.slots[1, ordinal]

    def phases(self) -> list[str]:
        return [slot.phase.value for slot in self.server.state.slots.values()]

    def serving(self) -> list[int]:
        """The ordinals that serve."""
        return [s.ordinal for s in self.server.state.slots.values() if s.phase is Phase.SERVING]
