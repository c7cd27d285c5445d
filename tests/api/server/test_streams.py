"""Streams of machines: each has a place for as long as it lasts, and gives back what it took however it ends."""

from __future__ import annotations

from typing import Any

from holdfast.api.server.context import STREAMS_PER_MACHINE
from holdfast.api.server.limits import ServerLimits
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import format_revision
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import Reply, StreamReply
from holdfast.host.protocol.bindings import BindingsHeartbeat
from holdfast.host.streams.resume import close_frames
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.ledgers.region import a_template


class Agents:
    """A region, and its agents that ask for their streams."""

    def __init__(self, world: World, part: Part) -> None:
        self.world = world
        self.part = part

    async def joins(self, name: str) -> str:
        """An agent with a session and a node; where its stream is."""
        await self.part.submit(f"agent/{name}", OpenSession())
        session = self.part.state.session_of.get(f"agent/{name}")
        node = c.RegisterNode(name, "pool", "zone", a_template().need)
        await self.part.submit(f"agent/{name}", node, session=session, sequence=1)
        return f"/v1/bindings?session={format_revision(session)}"

    async def opens(self, path: str, name: str, token: str = "agents") -> Reply | StreamReply:
        actor = {"holdfast_actor": f"agent/{name}"} if token == "agents" else {"holdfast_actor": f"scheduler/{name}"}
        return await self.part.api.serve(self.world.request("GET", path, token=token, **actor))

    @property
    def open(self) -> tuple[int, int, int]:
        """How many streams there are, as their places, the hub and the rounds have it."""
        ctx = self.part.api.ctx
        return ctx.streams.taken, len(self.part.ledger.hub._open), len(ctx.watchers)


def told(story: Any, **limits: int) -> None:
    async def whole(world: World) -> None:
        await story(Agents(world, await world.region(limits=ServerLimits(**limits) if limits else None)))

    in_world(whole)


def test_a_stream_of_which_nobody_reads_a_word_leaves_nothing_behind() -> None:
    async def story(agents: Agents) -> None:
        path = await agents.joins("n1")
        before = agents.open
        for _ in range(3 * STREAMS_PER_MACHINE):
            found = await agents.opens(path, "n1")
            assert isinstance(found, StreamReply)
            assert agents.open == (1, before[1] + 1, before[2] + 1)
            await close_frames(found.messages)  # as a carrier does after a HEAD
            assert agents.open == before

    told(story)


def test_a_machine_has_few_streams_at_a_time_and_with_one_more_its_oldest_ends() -> None:
    async def story(agents: Agents) -> None:
        path = await agents.joins("n1")
        found = [await agents.opens(path, "n1") for _ in range(3 * STREAMS_PER_MACHINE)]
        flows = [one for one in found if isinstance(one, StreamReply)]
        assert len(flows) == len(found), "whoever comes again is served: its last connection may be lost"
        assert agents.open[0] == STREAMS_PER_MACHINE
        for one in flows[:-STREAMS_PER_MACHINE]:
            assert [message async for message in one.messages] == []
        for one in flows[-STREAMS_PER_MACHINE:]:
            assert await anext(one.messages)
            await close_frames(one.messages)
        assert agents.open[0] == 0

    told(story)


def test_streams_of_machines_count_whoever_asks_and_do_not_take_the_places_of_watches() -> None:
    async def story(agents: Agents) -> None:
        found = [await agents.opens(await agents.joins(name), name) for name in ("n1", "n2")]
        found.append(await agents.opens("/v1/log", "s1", "schedulers"))
        assert all(isinstance(one, StreamReply) for one in found)
        last = await agents.opens("/v1/log", "s2", "schedulers")
        assert isinstance(last, Reply)
        assert last.status == 429
        watch = await agents.part.api.serve(agents.world.request("GET", "/v1/nodes?watch=true"))
        assert isinstance(watch, StreamReply)
        for one in (*found, watch):
            assert isinstance(one, StreamReply)
            await close_frames(one.messages)

    told(story, watches=3)


def test_a_stream_that_is_refused_takes_no_place() -> None:
    async def story(agents: Agents) -> None:
        before = agents.open
        for _ in range(3 * STREAMS_PER_MACHINE):
            found = await agents.opens("/v1/bindings?session=9.9", "n1")
            assert isinstance(found, Reply)
            assert found.status == 404
        assert agents.open == before

    told(story)


def test_an_agent_whose_token_is_revoked_is_told_no_more_and_its_session_may_go_on() -> None:
    async def story(agents: Agents) -> None:
        found = await agents.opens(await agents.joins("n1"), "n1")
        assert isinstance(found, StreamReply)
        first = await anext(found.messages)
        assert first
        token = agents.part.state.tokens["agents"]
        cursor = agents.part.state.region.cursor
        gone = c.Ship("log-platform", 1, cursor, cursor + 1, (), (c.RemovedObject("token", token.meta.name),))
        await agents.part.submit("controller/link", gone)
        # It ends; that its session is over it is not told.
        assert {message async for message in found.messages} <= {encode(BindingsHeartbeat())}
        assert agents.part.state.session_of.get("agent/n1")

    told(story)
