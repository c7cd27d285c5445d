"""Whoever may ask no more is told no more: every stream ends soon after its token or its principal does, also when
nothing else happens that it would be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec, Token
from holdfast.core.model.objects.topology import Region, RegionSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import StreamReply
from tests.support.api.api_cluster import OPERATOR, TOKEN_LIFE, Part, World, a_shop, in_world
from tests.support.ledgers.region import a_template

#: Within so long a stream is over.
SOON_MS = 10_000


class Opened:
    """A stream, whose token and principal those are, and what came of it."""

    def __init__(self, world: World, part: Part, flow: StreamReply, token: str, principal: str) -> None:
        self.world = world
        self.part = part
        self.token = token
        self.principal = principal
        self.messages: list[bytes] = []
        #: What goes on until the end.
        self.beside: asyncio.Task[None] | None = None
        self.reading = asyncio.create_task(self._read(flow.messages))

    async def _read(self, messages: AsyncIterator[bytes]) -> None:
        async for message in messages:
            self.messages.append(message)

    async def change(self, *, token: Token | None = None, principal: Principal | None = None) -> None:
        """As a person writes it on the platform, or as it arrives in a region."""
        if self.part.ledger.definition.name == "platform":
            await self.part.submit(OPERATOR, p.Put(token or principal), key="change")  # type: ignore[arg-type]
            return
        put = c.ShippedToken(token) if token is not None else c.ShippedPrincipal(principal)  # type: ignore[arg-type]
        cursor = self.part.state.region.cursor
        await self.part.submit("controller/link", c.Ship("log-platform", 1, cursor, cursor + 1, (put,)))

    async def revoke(self) -> None:
        stored = self.part.state.tokens[self.token]
        revoked = msgspec.structs.replace(stored.spec, revoked=True)
        await self.change(token=msgspec.structs.replace(stored, spec=revoked))

    async def disable(self) -> None:
        name = self.principal
        stored = self.part.state.principals[name]
        off = msgspec.structs.replace(stored.spec, disabled=True)
        await self.change(principal=Principal(meta=Meta(name=name), spec=off))

    async def expire(self) -> None:
        left = self.part.state.tokens[self.token].spec.expires - self.world.clock.wall()
        assert 0 < left <= TOKEN_LIFE
        await self.world.clock.sleep(left)


async def opened(world: World, part: Part, path: str, token: str, principal: str, actor: str = "") -> Opened:
    request = world.request("GET", path, token=token, holdfast_actor=actor)
    flow = await part.api.serve(request)
    assert isinstance(flow, StreamReply), flow
    found = Opened(world, part, flow, token, principal)
    await world.clock.sleep(1_000)
    assert not found.reading.done(), found.messages
    return found


async def bindings(world: World) -> Opened:
    part = await world.region()
    await part.submit("agent/n1", OpenSession())
    session = part.state.session_of.get("agent/n1")
    node = c.RegisterNode("n1", "pool", "zone", a_template().need)
    await part.submit("agent/n1", node, session=session, sequence=1)
    return await opened(
        world, part, f"/v1/bindings?session={format_revision(session)}", "agents", "agent/*", "agent/n1"
    )


async def log(world: World) -> Opened:
    return await opened(world, await world.region(), "/v1/log", "schedulers", "scheduler/*", "scheduler/s1")


async def shipments(world: World) -> Opened:
    part = await world.platform()
    await part.submit(OPERATOR, p.Put(Region(meta=Meta(name="eu"), spec=RegionSpec())), key="region")
    await world.principal(part, "region/eu")
    await part.submit("region/eu", OpenSession())
    session = part.state.session_of.get("region/eu")
    await part.submit("region/eu", p.JoinRegion("eu", "log-eu"), session=session, sequence=1)
    found = await opened(world, part, f"/v1/shipments?session={format_revision(session)}", "region-eu", "region/eu")
    found.beside = asyncio.create_task(_renewed(world, part, session))
    return found


async def _renewed(world: World, part: Part, session: int) -> None:
    """A region whose session lives on, whatever its token does: its stream does not end for want of it."""
    while True:
        part.ledger.renew("region/eu", session)
        await world.clock.sleep(1_000)


async def watch(world: World) -> Opened:
    part = await a_shop(world)
    await world.principal(part, "person/reader", Permission.READ)
    return await opened(world, part, "/v1/tenants?watch=true", "person-reader", "person/reader")


async def watch_in_a_region(world: World) -> Opened:
    part = await world.region()
    reader = Principal(meta=Meta(name="person/reader"), spec=PrincipalSpec(rights=(Permission.READ,)))
    cursor = part.state.region.cursor
    puts = (c.ShippedPrincipal(reader), c.ShippedToken(world._token("reader", "person/reader")))
    await part.submit("controller/link", c.Ship("log-platform", 1, cursor, cursor + 1, puts))
    return await opened(world, part, "/v1/nodes?watch=true", "reader", "person/reader")


STREAMS: dict[str, Callable[[World], Awaitable[Opened]]] = {
    "/v1/bindings": bindings,
    "/v1/log": log,
    "/v1/shipments": shipments,
    "a watch": watch,
    "a watch in a region": watch_in_a_region,
}


@pytest.mark.parametrize("end", ["revoke", "disable", "expire"])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_ends_within_ten_seconds_of_what_opened_it(stream: str, end: str) -> None:
    async def story(world: World) -> None:
        found = await STREAMS[stream](world)
        await getattr(found, end)()
        ended = world.clock.boot()
        await world.until(found.reading.done, SOON_MS + 1_000)
        assert world.clock.boot() - ended <= SOON_MS
        ctx = found.part.api.ctx
        assert (ctx.streams.taken, ctx.watches.in_use, len(ctx.watchers)) == (0, 0, 0)
        if found.beside is not None:
            found.beside.cancel()

    in_world(story)


def test_who_reads_slowly_what_there_is_to_begin_with_is_told_no_more_of_it() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/reader", Permission.READ)
        request = world.request("GET", "/v1/priorityclasses?watch=true&initial=true", token="person-reader")
        for number in range(3):
            spec: dict[str, Any] = {"metadata": {}, "spec": {"priority": number}}
            assert (await world.ask("PUT", f"/v1/priorityclasses/c{number}", spec)).status == 201
        flow = await part.api.serve(request)
        assert isinstance(flow, StreamReply)
        assert msgspec.json.decode(await anext(flow.messages))["type"] == "ADDED"
        stored = part.state.tokens["person-reader"]
        revoked = msgspec.structs.replace(stored.spec, revoked=True)
        await part.submit(OPERATOR, p.Put(msgspec.structs.replace(stored, spec=revoked)), key="revoke")
        rest = [msgspec.json.decode(line) async for line in flow.messages]
        assert [line["type"] for line in rest] == ["ERROR"]
        assert rest[0]["object"]["code"] == "unauthenticated"

    in_world(story)
