"""Servers prove themselves by tokens of their own, announced in the store; in their own name they do nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.house import OpenSession, StartLog
from holdfast.core.ledger.servers import AdmitServer
from holdfast.core.model.secrets import hashed
from holdfast.core.model.servers import ServerToken
from holdfast.core.platform.book import PLATFORM
from holdfast.core.region import commands as c
from holdfast.host.transport import Pairs, Request
from holdfast.host.wire import MSGPACK
from holdfast.stores.memory import MemoryStore
from tests.support.served import OPERATOR, Answer, Part, World, bearer, in_world, secret_of

DAY = 24 * 3_600_000


async def proven(world: World, part: Part) -> Pairs:
    """What a server shows, once the log has its token."""
    await world.until(lambda: bool(part.token.headers()) and bool(len(part.state.servers)))
    return part.token.headers()


async def asked(world: World, headers: Pairs, verb: str = "GET", path: str = "/v1/whoami", to: str = "p1") -> Answer:
    return Answer(await world.caller.ask(to, Request(verb, path, (), headers), 60_000))


def test_a_server_is_known_by_the_token_that_it_made_and_has_no_rights() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        answer = await asked(world, await proven(world, part))
        assert answer.json["principal"] == "platform/p1"
        assert answer.json["rights"] == []
        assert [one.principal for one in part.state.servers.values()] == ["platform/p1"]
        secret = part.token.headers()[0][1].rpartition("_")[2]
        assert all(secret not in str(one) for one in part.state.servers.values())

    in_world(story)


@pytest.mark.parametrize(
    "path", ["/v1/status", "/v1/tenants", "/v1/audit", "/v1/tokens", "/v1/shipments", "/v1/quota", "/v1/in/eu/status"]
)
def test_a_server_may_read_nothing_in_its_own_name(path: str) -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        answer = await asked(world, await proven(world, part), path=path)
        assert (answer.status, answer.json["code"]) == (403, "no-right")

    in_world(story)


def test_a_follower_is_known_to_the_leader_by_what_it_announced_in_the_store() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        await world.platform(store=store)
        follower = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
        await follower.start().follows()
        await world.until(lambda: len(follower.state.servers) == 2)
        answer = await asked(world, follower.token.headers())
        assert answer.json["principal"] == "platform/p2"
        assert await store.announced() == []

    in_world(story)


def test_a_servers_token_is_refused_once_it_is_over() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        token = ServerToken("server-p", "platform/p9", hashed(secret_of("server-p")), world.clock.wall() + 10_000)
        await part.submit("controller/servers", AdmitServer(token))
        headers = (("authorization", bearer("server-p")),)
        assert (await asked(world, headers)).json["principal"] == "platform/p9"
        await world.clock.sleep(10_000)
        over = await asked(world, headers)
        assert over.status == 401
        assert "expired" in over.json["detail"]

    in_world(story)


def test_a_region_knows_the_platforms_servers_by_what_it_was_shipped_and_its_own_by_its_log() -> None:
    async def story(world: World) -> None:
        region = await world.region("eu")
        token = ServerToken("server-p", "platform/p1", hashed(secret_of("server-p")), world.clock.wall() + DAY)
        of_platform = (("authorization", bearer("server-p")),)
        assert (await asked(world, of_platform, to="r-eu")).status == 401
        await region.submit("controller/link", c.Ship("log-platform", 1, 1, 2, (c.ServerShipped(token),)))
        assert (await asked(world, of_platform, to="r-eu")).json["principal"] == "platform/p1"
        own = await asked(world, await proven(world, region), to="r-eu")
        assert own.json["principal"] == "region/eu/r-eu"
        await region.submit(
            "controller/link", c.Ship("log-other", 2, 0, 9, (c.RegionShipped("eu", "eu"),), full=True, last=True)
        )
        assert (await asked(world, of_platform, to="r-eu")).status == 401
        assert (await asked(world, region.token.headers(), to="r-eu")).status == 200

    in_world(story)


def test_nobody_is_taken_for_a_server_but_by_a_servers_token() -> None:
    """Not by a certificate, not as one of many, and not as a principal that somebody made."""

    async def story(world: World) -> None:
        part = await world.platform()
        await world.principal(part, "region/*", token="regions")
        chosen = (("authorization", bearer("regions")), ("holdfast-actor", "region/eu/s1"))
        assert (await asked(world, chosen)).status == 401
        for name in ("platform/p1", "region/eu/s1"):
            by_certificate = Request("GET", "/v1/whoami", proven=name)
            assert Answer(await part.api.serve(by_certificate)).status == 401  # type: ignore[arg-type]
            put = {"apiVersion": "holdfast/v1", "kind": "Principal", "metadata": {"name": name}, "spec": {}}
            answer = await world.ask("PUT", f"/v1/principals/{name}", put)
            assert answer.status in (400, 409, 422), answer
            token = {"principal": name, "hash": hashed(secret_of("t")), "expires": "2099-01-01T00:00:00.000Z"}
            document = {"apiVersion": "holdfast/v1", "kind": "Token", "metadata": {"name": "t"}, "spec": token}
            answer = await world.ask("PUT", "/v1/tokens/t", document)
            assert answer.status >= 400, answer

    in_world(story)


def test_a_token_of_peoples_with_the_name_of_a_servers_is_not_confused_with_it() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        headers = await proven(world, part)
        name = next(iter(part.state.servers.keys()))
        await world.principal(part, "person/clerk", token=name)
        assert (await asked(world, headers)).json["principal"] == "platform/p1"
        assert (await asked(world, (("authorization", bearer(name)),))).json["principal"] == "person/clerk"

    in_world(story)


def test_a_server_of_a_region_opens_no_session_and_sends_no_envelope() -> None:
    async def story(world: World) -> None:
        region = await world.region("eu")
        headers = await proven(world, region)
        envelope = Envelope("region/eu/r-eu", OpenSession(), world.clock.wall())
        request = Request("POST", "/v1/envelopes", (), (*headers, MSGPACK), encode(envelope))
        answer = Answer(await world.caller.ask("r-eu", request, 60_000))
        assert (answer.status, answer.json["code"]) == (403, "no-right")
        platform = await world.platform()
        await world.principal(platform, "region/*", token="regions")
        found = await platform.ledger.submit(replace(envelope, actor="region/eu/s1"))
        assert isinstance(found, Refused)
        assert found.code.value == "no-right"

    in_world(story)


def test_a_revoked_server_makes_another_token_and_the_old_one_opens_nothing() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        stolen = await proven(world, part)
        answer = await world.ask("POST", "/v1/commands/revoke-server", {"principal": "platform/p1"})
        assert answer.status == 200, answer
        assert (await asked(world, stolen)).status == 401
        await world.until(lambda: part.token.headers() != stolen and len(part.state.servers) == 2, 120_000)
        assert (await asked(world, part.token.headers())).json["principal"] == "platform/p1"
        assert (await asked(world, stolen)).status == 401

    in_world(story)
