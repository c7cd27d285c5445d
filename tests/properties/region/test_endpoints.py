"""Over random histories: what serves has answered the leader that published it, under the epoch in which it serves.

Agents move replicas to and fro, processes listen and stop to, nodes come back, servers take over from one another.
"""

from __future__ import annotations

import random

import pytest

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsMoved
from holdfast.core.region.state.tables import RegionState
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.endpoint_world import EndpointWorld, ProbedAddresses
from tests.support.hosts.ledger_world import World, batches_in, in_world

COUNT = 6
STEPS = 60


class History:
    """Servers one after the other on one store, and what happens to six replicas."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.store = MemoryStore()
        self.town = ProbedAddresses()
        self.servers = 0
        self.region = self.next_server()

    def next_server(self) -> EndpointWorld:
        self.servers += 1
        return EndpointWorld(self.world.server(self.store, f"s{self.servers}"), self.town)

    async def run(self) -> None:
        await self.region.server.start().leads()
        await self.region.set_up(COUNT)
        for _ in range(STEPS):
            await self.step()
            await self.region.server.clock.sleep(self.chance.choice((0, 1, 5, 30, 400, 6_000)))

    async def step(self) -> None:
        ordinal = self.chance.randrange(COUNT)
        match self.chance.choice(("agent",) * 6 + ("listen", "hang-up", "hang-up", "back", "take-over")):
            case "listen":
                self.region.answer_at(ordinal)
            case "hang-up":
                self.region.hang_up(ordinal)
            case "back":
                await self.come_back()
            case "take-over":
                await self.region.server.stop()
                session, number = self.region.session, self.region.number
                self.region = self.next_server()
                self.region.session, self.region.number = session, number
                await self.region.server.start().leads()
            case _:
                await self.agent(ordinal)

    async def agent(self, ordinal: int) -> None:
        """The next thing that an agent might say of a replica; of one that waits, it is placed and started."""
        slot = self.region.slot(ordinal)
        edges = {
            Phase.STARTING: (Phase.RUNNING, "running"),
            Phase.RUNNING: (Phase.READY, "probe-passed"),
            Phase.READY: (Phase.RUNNING, "probe-lost"),
            Phase.SERVING: (Phase.FAILED, "exit"),
            Phase.FAILED: self.chance.choice(((Phase.STARTING, "restarted"), (Phase.RELEASED, "given-up"))),
            Phase.UNKNOWN: (Phase.RUNNING, "found-again"),
            Phase.BOUND: (Phase.STARTING, "started"),
        }
        if slot.phase is Phase.PENDING:
            node = self.region.server.state.node_names["n1"]
            place = c.SlotPlacement(ordinal, node, ports=(30_000 + ordinal,))
            group = c.PlacementGroup(slot.assignment, slot.template, (place,))
            until = self.region.server.clock.wall() + 5_000
            await self.region.server.send("controller/scheduler", c.Propose((group,), until))
        else:
            target, cause = edges[slot.phase]
            await self.region.send(c.Move((c.MoveSlot((1, ordinal), slot.epoch, target, cause),)))

    async def come_back(self) -> None:
        """The agent begins a new life: what it had is unknown until it says so."""
        await self.region.register()
        slots = [slot for slot in self.region.server.state.slots.values() if slot.node]
        moves = [c.MoveSlot((1, s.ordinal), s.epoch, Phase.UNKNOWN, "session-ended") for s in slots]
        await self.region.server.send("controller/node-health", c.Move(tuple(moves)))

    async def judge(self) -> int:
        """How often something was published, each time after an answer to the leader of that term."""
        state, leader, published = RegionState(), "", 0
        for batch in await batches_in(self.store):
            fold(REGION, state, batch)
            for event in [event for record in batch.records for event in record.events]:
                if isinstance(event, TermStarted):
                    leader = event.leader
                if isinstance(event, SlotsMoved):
                    for move in [one for one in event.moves if one.phase is Phase.SERVING]:
                        epoch = state.slots[move.slot].epoch
                        assert (leader, move.slot, epoch) in self.town.answered, (leader, move.slot, epoch)
                        published += 1
        return published


@pytest.mark.parametrize("seed", range(12))
def test_what_serves_has_answered_the_leader_that_published_it(seed: int) -> None:
    async def story(world: World) -> int:
        history = History(world, seed)
        await history.run()
        return await history.judge()

    assert in_world(story) > 0
