"""A region behind its API on virtual time, with nodes and work to place, and those who follow it from afar."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.host.ports.transport import Pairs, Request
from holdfast.host.protocol.log_stream import LOG
from holdfast.host.protocol.session_client import SessionClient, SessionConfig
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.scheduler.standalone import StandaloneScheduler
from holdfast.host.streams.mirror import Mirror
from holdfast.sim.world.virtual_loop import VirtualClock
from tests.support.api.api_cluster import Part, World, bearer
from tests.support.hosts.link_world import CuttableTransport
from tests.support.ledgers.region import CLASSES, a_template, an_assignment

UID = 100
LINK, REPLICA = "controller/link", "controller/replica"
TEMPLATE = a_template(cpu=100, memory=100)
DIGEST = template_digest(TEMPLATE)


class MirrorWorld:
    """Somebody who follows regions from afar, over a line that can be cut."""

    def __init__(self, world: World, name: str, servers: tuple[str, ...], host: str = "") -> None:
        self.world = world
        self.peer = world.network.join(host or name)
        self.line = CuttableTransport(self.peer)
        self.metrics = Metrics()
        self.actor = f"scheduler/{name}"
        self.voice = SessionClient(
            self.line, world.clock, SessionConfig(self.actor, servers, self._proof), world.clock.boot
        )
        self.mirror = Mirror(self.voice, self.line, world.clock, self.metrics)
        self.task: asyncio.Task[None] | None = None

    def _proof(self) -> Pairs:
        return (("authorization", bearer("schedulers")), ("holdfast-actor", self.actor))

    def follow(self) -> MirrorWorld:
        """Follow, and nothing else."""
        self.task = asyncio.create_task(self.mirror.run())
        return self

    def schedule(self) -> MirrorWorld:
        """Schedule."""
        apart = StandaloneScheduler(self.voice, self.mirror, BUILT_IN, self.world.clock, self.metrics, self.peer.name)
        self.task = asyncio.create_task(apart.run())
        return self

    async def has_all_of(self, region: Part) -> None:
        """Wait until nothing is missing here."""
        await self.world.until(lambda: self.mirror.state.info.digest == region.state.info.digest)

    def streams(self) -> list[Request]:
        """The streams that were asked for."""
        return [request for request in self.line.asked if request.path == LOG]

    async def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            self.task = None
        await self.peer.close()


async def a_region(world: World, *, nodes: int = 2, slots: int = 4, **fields: Any) -> Part:
    """A region with nodes that have much room, and slots that wait for one."""
    region = await world.region(**fields)
    puts: tuple[c.ShippedItem, ...] = (
        *[c.ShippedPriorityClass(one) for one in CLASSES],
        c.ShippedTemplate(DIGEST, TEMPLATE),
        c.ShippedAssignment(an_assignment(uid=UID, template=TEMPLATE, count=1_000)),
        c.ShippedGrant("quota/acme", 1, Resources(10**6, 10**6, 10**6, 0), world.clock.wall() + 86_400_000),
    )
    await region.submit(LINK, c.Ship("log-platform", 1, 1, 2, puts))
    for number in range(nodes):
        await a_node(region, f"n{number}")
    if slots:
        await want(region, range(slots))
    return region


async def a_node(region: Part, name: str) -> None:
    agent = f"agent/{name}"
    await region.submit(agent, OpenSession())
    node = c.RegisterNode(name, "general", "a", Resources(10**5, 10**6, 10**6, 0))
    await region.submit(agent, node, session=region.state.session_of[agent], sequence=1)


async def keep_nodes(world: World, region: Part) -> None:
    """Heartbeats of all agents, for ever."""
    while True:
        state: RegionState = region.state
        for session in list(state.sessions.values()):
            if session.principal.startswith("agent/") and region.ledger.leader is not None:
                region.ledger.renew(session.principal, session.uid)
        await world.clock.sleep(1_000)


async def replaced_by_one_whose_time_is_lower(world: World, region: Part, idle_ms: int = 40_000) -> Part:
    """Nothing is logged for a while, in which the leader's time goes on; then another server leads. The first one's
    clock was ahead of the log's readers and of the next one's: that begins at the last stamp in the log."""
    assert isinstance(world.clock, VirtualClock)
    await world.until(region.is_known)
    await world.clock.sleep(idle_ms)
    last = region.state.info.at
    assert region.ledger.leader is not None
    assert region.ledger.leader.term.now() - last >= idle_ms - 1_000, "it was idle"
    await region.stop()
    world.clock.wrong_by = 0
    start = region.ledger.identity.start
    assert start is not None
    again = world.part(region.name, region.ledger.definition, region.ledger.store, start)
    await again.start().leads()
    return again


async def want(region: Part, ordinals: range) -> None:
    """These slots are wanted."""
    await region.submit(REPLICA, c.OpenSlots(UID, DIGEST, tuple(ordinals)))


def bound(region: Part) -> list[int]:
    """The ordinals that have a node."""
    return sorted(key[1] for key, slot in region.state.slots.items() if slot.phase is Phase.BOUND)


async def placed_in_log(region: Part) -> list[int]:
    """The ordinal of every placement that was ever accepted, as often as it was."""
    found: list[int] = []
    previous = b""
    for stored in await region.ledger.store.read(1, 1 << 30):
        batch = REGION.batches.read(stored.raw, previous, stored.digest)
        previous = stored.digest
        events = [event for record in batch.records for event in record.events]
        found += [one.ordinal for event in events if isinstance(event, SlotsPlaced) for one in event.placements]
    return found
