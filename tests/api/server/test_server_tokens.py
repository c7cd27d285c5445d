"""Servers prove themselves by tokens of their own, announced in the store; in their own name they do nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.api.server.delegation import server_token
from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.servers import AdmitServer
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import format_token, hash_secret
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import Request
from holdfast.host.protocol.commands import MSGPACK
from holdfast.host.protocol.request_signatures import RequestTarget, SigningToken, public_key_of, signed_request
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import OPERATOR, Answer, Part, World, bearer, in_world, ledger_at, secret_of

DAY = 24 * 3_600_000


async def proven(world: World, part: Part) -> SigningToken:
    """What a server signs with, once the log has its token."""
    await world.until(part.is_known)
    own = part.token.current()
    assert own is not None
    return own


async def asked(world: World, own: SigningToken, verb: str = "GET", path: str = "/v1/whoami", to: str = "p1") -> Answer:
    """What a server is answered that acts for the operator."""
    request = signed_request(Request(verb, path), RequestTarget(to, ledger_at(to)), OPERATOR, own, world.clock.wall())
    return Answer(await world.caller.call(to, request, 60_000))


def test_a_server_is_known_by_the_token_that_it_made_and_the_log_does_not_have_its_secret() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        own = await proven(world, part)
        answer = await asked(world, own)
        assert (answer.json["principal"], answer.json["via"]) == (OPERATOR, "platform/p1")
        (row,) = part.state.servers.values()
        assert row.principal == "platform/p1"
        assert own.secret not in str(row)
        assert row.hash != hash_secret(own.secret)

    in_world(story)


@pytest.mark.parametrize(
    "path", ["/v1/status", "/v1/tenants", "/v1/audit", "/v1/tokens", "/v1/shipments", "/v1/quota", "/v1/in/eu/status"]
)
def test_a_server_may_read_nothing_in_its_own_name(path: str) -> None:
    """Neither when it acts for nobody, nor for itself, nor by showing its secret as people do."""

    async def story(world: World) -> None:
        part = await world.platform()
        own = await proven(world, part)
        for actor in ("", "platform/p1"):
            request = signed_request(
                Request("GET", path), RequestTarget("p1", "platform"), actor, own, world.clock.wall()
            )
            assert Answer(await world.caller.call("p1", request, 60_000)).json["code"] == "no-right"
        shown = Request("GET", path, (), (("authorization", f"Bearer {format_token(own.name, own.secret)}"),))
        assert Answer(await world.caller.call("p1", shown, 60_000)).status == 401

    in_world(story)


def test_a_follower_is_known_to_the_leader_by_what_it_announced_in_the_store() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        await world.platform(store=store)
        follower = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
        await follower.start().follows()
        await world.until(lambda: len(follower.state.servers) == 2)
        answer = await asked(world, await proven(world, follower))
        assert answer.json["via"] == "platform/p2"
        assert await store.announced() == []

    in_world(story)


def test_a_servers_token_is_refused_once_it_is_over() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        own = SigningToken("server-p", secret_of("server-p"))
        token = ServerToken("server-p", "platform/p9", public_key_of(own.secret), world.clock.wall() + 10_000)
        await part.submit("controller/servers", AdmitServer(token))
        assert (await asked(world, own)).json["via"] == "platform/p9"
        await world.clock.sleep(10_000)
        over = await asked(world, own)
        assert over.status == 401
        assert "expired" in over.json["detail"]

    in_world(story)


def test_a_region_knows_the_platforms_servers_by_what_it_was_shipped_and_its_own_by_its_log() -> None:
    async def story(world: World) -> None:
        region = await world.region("eu")
        of_platform = SigningToken("server-p", secret_of("server-p"))
        token = ServerToken("server-p", "platform/p1", public_key_of(of_platform.secret), world.clock.wall() + DAY)
        assert (await asked(world, of_platform, to="r-eu")).status == 401
        await region.submit("controller/link", c.Ship("log-platform", 1, 1, 2, (c.ShippedServer(token),)))
        assert (await asked(world, of_platform, to="r-eu")).json["via"] == "platform/p1"
        own = await asked(world, await proven(world, region), to="r-eu")
        assert own.json["via"] == "region/eu/r-eu"
        await region.submit(
            "controller/link", c.Ship("log-other", 2, 0, 9, (c.ShippedRegion("eu", "eu"),), full=True, last=True)
        )
        assert (await asked(world, of_platform, to="r-eu")).status == 401
        assert server_token(region.state, (await proven(world, region)).name) is not None

    in_world(story)


def test_nobody_is_taken_for_a_server_but_by_a_servers_token() -> None:
    """Not by a certificate, not as one of many, and not as a principal that somebody made."""

    async def story(world: World) -> None:
        part = await world.platform()
        assert (await world.ask("PUT", "/v1/principals/region/*", {"metadata": {}, "spec": {}})).status == 201
        part.state.tokens.put("regions", world._token("regions", "region/*"))  # of many, as one from before may be
        chosen = (("authorization", bearer("regions")), ("holdfast-actor", "region/eu/s1"))
        assert Answer(await world.caller.call("p1", Request("GET", "/v1/whoami", (), chosen), 60_000)).status == 401
        for name in ("platform/p1", "region/eu/s1"):
            by_certificate = Request("GET", "/v1/whoami", proven=name)
            assert Answer(await part.api.serve(by_certificate)).status == 401  # type: ignore[arg-type]
            put = {"apiVersion": "holdfast/v1", "kind": "Principal", "metadata": {"name": name}, "spec": {}}
            answer = await world.ask("PUT", f"/v1/principals/{name}", put)
            assert answer.status in (400, 409, 422), answer
            token = {"principal": name, "hash": hash_secret(secret_of("t")), "expires": "2099-01-01T00:00:00.000Z"}
            document = {"apiVersion": "holdfast/v1", "kind": "Token", "metadata": {"name": "t"}, "spec": token}
            answer = await world.ask("PUT", "/v1/tokens/t", document)
            assert answer.status >= 400, answer

    in_world(story)


def test_a_token_of_peoples_with_the_name_of_a_servers_is_not_confused_with_it() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        own = await proven(world, part)
        name = next(iter(part.state.servers.keys()))
        await world.principal(part, "person/clerk", token=name)
        assert (await asked(world, own)).json["via"] == "platform/p1"
        found = await world.ask("GET", "/v1/whoami", token=name)
        assert (found.json["principal"], found.json.get("via")) == ("person/clerk", None)

    in_world(story)


def test_a_server_of_a_region_opens_no_session_and_sends_no_envelope() -> None:
    async def story(world: World) -> None:
        region = await world.region("eu")
        own = await proven(world, region)
        envelope = Envelope("region/eu/r-eu", OpenSession(), world.clock.wall())
        request = Request("POST", "/v1/envelopes", (), (MSGPACK,), encode(envelope))
        signed = signed_request(request, RequestTarget("r-eu", "region/eu"), "region/eu/r-eu", own, world.clock.wall())
        answer = Answer(await world.caller.call("r-eu", signed, 60_000))
        assert (answer.status, answer.json["code"]) == (403, "no-right")
        platform = await world.platform()
        assert (await world.ask("PUT", "/v1/principals/region/*", {"metadata": {}, "spec": {}})).status == 201
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
        await world.until(lambda: part.token.current() != stolen and part.is_known(), 120_000)
        assert (await asked(world, await proven(world, part))).json["via"] == "platform/p1"
        assert (await asked(world, stolen)).status == 401

    in_world(story)
