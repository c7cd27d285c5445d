"""Nobody speaks with another's credential (RULES 27): a server signs in its own name, and says whom it acts for."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.api.server.authentication import Authenticator
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.host.ports.transport import Pairs, Reply, Request, StreamReply, first_value
from holdfast.host.protocol.request_signatures import (
    ACTING_FOR,
    FORWARDED_HEADERS,
    FRESH_MS,
    PROOF,
    RequestTarget,
    SigningToken,
    signed_request,
)
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import (
    OPERATOR,
    Answer,
    Part,
    World,
    a_class,
    a_shop,
    bearer,
    in_world,
    ledger_at,
    secret_of,
)
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.mirror_world import a_node

ALL = tuple(Permission)
#: What a client may send along, all of it worth something to whoever hears it.
PRECIOUS = {"cookie": "session=operators", "x_token": "operators", "proxy_authorization": "operators"}


async def a_platform(world: World, address: str = "https://r-eu") -> Part:
    """A platform that knows region eu at this address, and whose server can act for others."""
    platform = await a_shop(world)
    region = {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"address": address}}
    assert (await world.ask("PUT", "/v1/regions/eu", region)).status == 201
    await world.until(platform.is_known)
    return platform


class FalseRegion:
    """Whoever is at the address of a region, and keeps what it hears."""

    def __init__(self, world: World, name: str = "false") -> None:
        self.heard: list[Request] = []
        world.network.join(name).serve(self._listen)

    async def _listen(self, request: Request) -> Reply | StreamReply:
        self.heard.append(request)
        return Reply(200, (("content-type", "application/json"),), b"{}")


async def asked_by_an_operator(world: World, platform: Part) -> None:
    """Everything that an operator may ask of region eu through the platform, with a token and with a certificate."""
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/v1/in/eu/nodes", None), ("GET", "/v1/in/eu/nodes?watch=true", None),
        ("GET", "/v1/in/eu/whoami", None), ("PUT", "/v1/in/eu/nodes/n1", {"spec": {"cordoned": True}}),
        ("POST", "/v1/in/eu/commands/configure", {}), ("POST", "/v1/in/eu/batch", {"items": []}),
        ("DELETE", "/v1/in/eu/nodes/n1", None),
    ]  # fmt: skip
    for verb, path, body in asked:
        await world.ask(verb, path, body, **PRECIOUS)
        by_certificate = world.request(verb, path, body, token="", **PRECIOUS)
        await platform.api.serve(replace(by_certificate, proven=OPERATOR))


def test_nothing_that_a_false_region_hears_lets_it_act_as_the_operator() -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world, "https://false")
        true, other = await world.region("eu"), await world.region("us")
        false = FalseRegion(world)
        await asked_by_an_operator(world, platform)
        assert len(false.heard) == 14
        own = platform.token.current()
        assert own is not None
        for heard in false.heard:
            said = str(heard)
            assert secret_of("operator") not in said
            assert own.secret not in said
            assert {name for name, _ in heard.headers} <= {*FORWARDED_HEADERS, ACTING_FOR, PROOF}
            assert (first_value(heard.headers, ACTING_FOR), heard.proven) == (OPERATOR, "")
        for heard in false.heard:
            for attempt in attempts(heard):
                for where in (platform, true, other):
                    assert Answer(await tried(where, attempt)).status in (401, 404, 405), attempt

    in_world(story)


async def tried(where: Part, request: Request) -> Reply:
    found = await where.api.serve(request)
    assert isinstance(found, Reply), "a stream was begun"
    return found


def attempts(heard: Request) -> list[Request]:
    """What was heard as it is, and what one might make of it."""
    without = tuple(pair for pair in heard.headers if pair[0] != PROOF)
    signature = first_value(heard.headers, PROOF).split(" ")
    return [
        heard,
        replace(heard, path="/v1/whoami", verb="GET", body=b""),
        replace(heard, path=f"/v1/in/us{heard.path.removeprefix('/v1')}"),
        replace(heard, headers=without),
        replace(heard, headers=(*without, ("authorization", f"Bearer {signature[-1]}"))),
        replace(heard, headers=(*heard.headers, ("authorization", f"Bearer hf_{signature[0]}_{'x' * 43}"))),
        replace(heard, headers=((ACTING_FOR, "person/other"), *heard.headers)),
        replace(heard, proven="region/eu"),
    ]


def test_what_is_heard_on_the_way_can_be_repeated_and_not_changed() -> None:
    """Whoever could read the wire has one request, which names its key: it is done once, and then too old."""

    async def story(world: World) -> None:
        await a_platform(world)
        region = await world.region("eu")
        await a_node(region, "n1")
        heard: list[Request] = []
        served = region.api.serve

        async def listen(request: Request) -> Reply | StreamReply:
            heard.append(request)
            return await served(request)

        region.peer.serve(listen)
        written = await world.ask("PUT", "/v1/in/eu/nodes/n1", {"spec": {"labels": {"disk": "ssd"}}})
        assert written.status == 200, written
        again = Answer(await tried(region, heard[0]))
        assert again.headers["holdfast-repeated"] == "true"
        key = ("idempotency-key", "another")
        for changed in (
            replace(heard[0], body=b'{"spec":{"cordoned":true}}'),
            replace(heard[0], path="/v1/nodes/n2"),
            replace(heard[0], query=(("dryRun", "All"),)),
            replace(heard[0], headers=tuple(key if one[0] == key[0] else one for one in heard[0].headers)),
            replace(heard[0], headers=(*heard[0].headers, ("if-none-match", "*"))),
            replace(heard[0], verb="GET"),
        ):
            assert Answer(await tried(region, changed)).status == 401
        await world.clock.sleep(FRESH_MS + 1)
        assert Answer(await tried(region, heard[0])).status == 401
        (node,) = region.state.nodes.values()
        assert (node.labels, node.cordoned) == ((("disk", "ssd"),), False)

    in_world(story)


@pytest.mark.parametrize("token", ["operator", "shop", "region-eu", "agents", ""])
def test_only_a_server_acts_for_others(token: str) -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        for name in ("tenant/shop", "region/eu", "agent/*"):
            await world.principal(platform, name, token={"tenant/shop": "shop", "agent/*": "agents"}.get(name, ""))
        for headers in (
            {"holdfast_acting_for": OPERATOR},
            {"holdfast_proof": f"server 1 {'x' * 88}"},
            {"holdfast_acting_for": OPERATOR, "holdfast_proof": f"server {world.clock.wall()} {'x' * 88}"},
            {"holdfast_acting_for": "agent/n1", "holdfast_actor": "agent/n1"},
        ):
            refused = await world.ask("GET", "/v1/whoami", token=token, **headers)
            assert refused.status == 401, (headers, refused)
        certified = world.request("GET", "/v1/whoami", token="", holdfast_acting_for=OPERATOR)
        assert Answer(await tried(platform, replace(certified, proven="region/eu"))).status == 401

    in_world(story)


def acting(own: SigningToken, address: str, actor: str, at: int, path: str = "/v1/whoami") -> Request:
    return signed_request(Request("GET", path), RequestTarget(address, ledger_at(address)), actor, own, at)


@pytest.mark.parametrize(
    ("actor", "for_own", "for_platform"),
    [
        (OPERATOR, 200, 200),
        ("agent/n1", 200, 403),
        ("scheduler/s1", 200, 403),
        ("agent/*", 403, 403),
        ("region/eu/r-eu", 403, 403),
        ("platform/p1", 403, 403),
        ("controller/link", 403, 403),
        ("ledger", 403, 403),
        ("", 403, 403),
        ("person/unknown", 401, 401),
    ],
)
def test_whom_a_server_acts_for_depends_on_whose_server_it_is(actor: str, for_own: int, for_platform: int) -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        region = await world.region("eu")
        await world.until(region.is_known)
        for server, expected in ((region, for_own), (platform, for_platform)):
            own = server.token.current()
            assert own is not None
            found = Answer(await tried(region, acting(own, "r-eu", actor, world.clock.wall())))
            assert found.status == expected, found
            if expected == 200:
                assert found.json["principal"] == actor

    in_world(story)


def test_another_regions_server_acts_for_nobody() -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        eu, us = await world.region("eu"), await world.region("us")
        await world.until(us.is_known)
        own = us.token.current()
        assert own is not None
        for where in (platform, eu):
            found = Answer(await tried(where, acting(own, where.name, OPERATOR, world.clock.wall())))
            assert found.status == 401

    in_world(story)


def test_what_is_meant_for_one_region_is_not_done_in_another_that_is_at_its_address() -> None:
    """Somebody wrote the wrong address, or another region has it now: both know the platform, and who asks."""

    async def story(world: World) -> None:
        await a_platform(world, "https://r-us")
        other = await world.region("us")
        await a_node(other, "n1")
        changed = await world.ask("PUT", "/v1/in/eu/nodes/n1", {"spec": {"cordoned": True}})
        assert (changed.status, changed.json["code"]) == (502, "region-unreachable"), changed
        assert "rejects this server's signature" in changed.json["detail"]
        assert (await world.ask("GET", "/v1/in/eu/nodes")).status == 502
        (node,) = other.state.nodes.values()
        assert not node.cordoned

    in_world(story)


async def shipped(region: Part, *puts: c.ShippedItem) -> None:
    at = region.state.region.cursor
    await region.submit("controller/link", c.Ship("log-platform", 1, at, at + 1, puts))


def test_a_region_judges_whom_the_platform_acts_for_by_its_own_copy_of_rights() -> None:
    async def story(world: World) -> None:
        await a_platform(world)
        region = await world.region("eu")
        assert (await world.ask("GET", "/v1/in/eu/nodes")).status == 200

        def operator(**spec: Any) -> c.ShippedPrincipal:
            return c.ShippedPrincipal(Principal(meta=Meta(name=OPERATOR), spec=PrincipalSpec(**spec)))

        await shipped(region, operator(rights=()))
        assert (await world.ask("GET", "/v1/in/eu/nodes")).json["code"] == "no-right"
        await shipped(region, operator(rights=ALL, disabled=True))
        disabled = await world.ask("GET", "/v1/in/eu/nodes")
        assert (disabled.status, "disabled" in disabled.json["detail"]) == (401, True)

    in_world(story)


def test_callers_with_certificates_are_handed_on_to_the_leader_and_to_a_region() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        await world.platform("p1", store)
        follower = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
        await follower.start().follows()
        await world.until(follower.is_known)
        address = {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"address": "https://r-eu"}}
        asked = replace(world.request("PUT", "/v1/regions/eu", address, token=""), proven=OPERATOR)
        written = Answer(await tried(follower, asked))
        assert (written.status, written.headers["holdfast-server"]) == (201, "p1")
        await world.region("eu")
        await world.until(lambda: "eu" in follower.state.regions)
        read = replace(world.request("GET", "/v1/in/eu/whoami", token=""), proven=OPERATOR)
        found = Answer(await tried(follower, read))
        assert (found.status, found.json["principal"]) == (200, OPERATOR)

    in_world(story)


def test_the_audit_names_the_actor_and_the_server_that_acted_for_it() -> None:
    async def story(world: World) -> None:
        await a_platform(world)
        region = await world.region("eu")
        await a_node(region, "n1")
        through = await world.ask("PUT", "/v1/in/eu/nodes/n1", {"spec": {"labels": {"a": "b"}}}, key="label")
        directly = await world.ask("PUT", "/v1/nodes/n1", {"spec": {"labels": {}}}, to="r-eu")
        assert (through.status, directly.status) == (200, 200), (through, directly)
        first, second = (await world.ask("GET", "/v1/audit?limit=2", to="r-eu")).json["items"]
        assert (first["actor"], first.get("via")) == (OPERATOR, None)
        assert (second["actor"], second["via"]) == (OPERATOR, "platform/p1")
        again = await world.ask("PUT", "/v1/nodes/n1", {"spec": {"labels": {"a": "b"}}}, to="r-eu", key="label")
        assert again.headers["holdfast-repeated"] == "true"

    in_world(story)


def test_one_of_many_reaches_the_leader_through_a_follower_and_cannot_choose_who_carried_it() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        region = await world.region("eu", store=store)
        follower = world.part("r-eu-2", REGION, store, StartLog("log-eu", "region/eu", OPERATOR))
        await follower.start().follows()
        await world.until(follower.is_known)
        submitted: list[Envelope[Any]] = []
        submit = region.ledger.submit

        async def noting(envelope: Envelope[Any]) -> Any:
            submitted.append(envelope)
            return await submit(envelope)

        region.ledger.submit = noting  # type: ignore[method-assign]
        opening = encode(Envelope("agent/n1", OpenSession(), world.clock.wall(), via="platform/p1"))
        headers: Pairs = (("authorization", bearer("agents")), ("holdfast-actor", "agent/n1"))
        asked = Request("POST", "/v1/envelopes", (), (*headers, ("content-type", "application/msgpack")), opening)
        for to, via in (("r-eu-2", "region/eu/r-eu-2"), ("r-eu", "")):
            answer = Answer(await world.caller.call(to, asked, 60_000))
            assert answer.status == 200, answer
            assert (submitted[-1].actor, submitted[-1].via) == ("agent/n1", via)
        as_other = replace(asked, headers=(headers[0], ("holdfast-actor", "agent/n2"), asked.headers[-1]))
        assert Answer(await world.caller.call("r-eu-2", as_other, 60_000)).status == 403

    in_world(story)


async def watched(world: World, end: Any) -> dict[str, Any]:
    """The last line of a watch in region eu through the platform, in the course of which something ends it."""
    async with aclosing(world.watch("/v1/in/eu/nodes?watch=true", token="other")) as source:  # type: ignore[type-var]
        await anext(source)
        await end()
        lines: list[dict[str, Any]] = [line async for line in source]
    return lines[-1]


def test_a_stream_that_was_handed_on_ends_when_the_token_is_revoked_at_the_platform() -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        region = await world.region("eu")
        await world.principal(platform, "person/other", Permission.READ, token="other")
        known = platform.state.principals["person/other"]
        await shipped(region, c.ShippedPrincipal(known))

        async def revoke() -> None:
            token = platform.state.tokens["other"]
            await platform.submit(OPERATOR, p.Put(replace(token, spec=replace(token.spec, revoked=True))), key="revoke")

        began = world.clock.boot()
        line = await watched(world, revoke)
        assert (line["type"], line["object"]["code"]) == ("ERROR", "unauthenticated")
        assert world.clock.boot() - began < 10_000

    in_world(story)


def test_a_server_that_is_cut_off_from_its_store_hands_nothing_on_with_what_may_have_been_revoked() -> None:
    """The leader and the region know the caller's rights, and not by which token a follower knows it."""

    async def story(world: World) -> None:
        platform = await a_platform(world)
        store = FaultyStore(platform.ledger.store)
        follower = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
        await follower.start().follows()
        await world.until(follower.is_known)
        region = await world.region("eu")
        await world.principal(platform, "person/other", *ALL, token="other")
        await shipped(region, c.ShippedPrincipal(platform.state.principals["person/other"]))
        writes, reads = ("PUT", "/v1/priorityclasses/late", a_class("late")), ("GET", "/v1/in/eu/nodes", None)
        await world.until(lambda: "other" in follower.state.tokens)
        for verb, path, body in (writes, reads):
            assert (await world.ask(verb, path, body, to="p2", token="other")).status in (200, 201)
        source = world.watch("/v1/in/eu/nodes?watch=true", to="p2", token="other")
        await anext(source)

        store.cut()
        token, revoked_at = platform.state.tokens["other"], world.clock.boot()
        await platform.submit(OPERATOR, p.Put(replace(token, spec=replace(token.spec, revoked=True))), key="revoke")
        lines = [line async for line in source]
        assert (lines[-1]["type"], lines[-1]["object"]["code"]) == ("ERROR", "not-reached")
        assert world.clock.boot() - revoked_at <= 10_000
        for verb, path, body in (writes, reads):
            answer = await world.ask(verb, path, body, to="p2", token="other")
            assert (answer.status, answer.json["code"]) == (503, "not-reached")
        store.heal()
        await world.until(lambda: follower.state.tokens["other"].spec.revoked)
        for verb, path, body in (writes, reads):
            assert (await world.ask(verb, path, body, to="p2", token="other")).status == 401
            assert (await world.ask(verb, path, body, to="p2")).status == 200, "and goes on for all others"

    in_world(story)


def test_a_stream_that_was_handed_on_ends_when_the_rights_change_in_the_region() -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        region = await world.region("eu")
        await world.principal(platform, "person/other", Permission.READ, token="other")
        known = platform.state.principals["person/other"]
        await shipped(region, c.ShippedPrincipal(known))

        async def lessen() -> None:
            await world.clock.sleep(FRESH_MS + 1)  # that the proof is too old to be repeated is no reason
            await shipped(region, c.ShippedPrincipal(replace(known, spec=PrincipalSpec(rights=()))))

        line = await watched(world, lessen)
        assert (line["type"], line["object"]["code"]) == ("ERROR", "gone")

    in_world(story)


def test_a_server_whose_word_is_not_taken_says_so_and_blames_nobody_else() -> None:
    async def story(world: World) -> None:
        platform = await a_platform(world)
        region = await world.region("eu")
        own = platform.token.current()
        assert own is not None
        platform.api.ctx.own = lambda: replace(own, secret=secret_of("another"))
        refused = await world.ask("GET", "/v1/in/eu/nodes")
        assert (refused.status, refused.json["code"]) == (502, "region-unreachable")
        assert "rejects this server's signature: no known server" in refused.json["detail"]
        platform.api.ctx.own = lambda: None
        refused = await world.ask("GET", "/v1/in/eu/nodes")
        assert (refused.status, refused.json["code"]) == (502, "region-unreachable")
        assert region.state.info.seq

    in_world(story)


def test_a_server_takes_what_was_signed_for_an_address_by_which_it_is_reached_and_for_no_other() -> None:
    async def story(world: World) -> None:
        await a_platform(world, "https://balancer")
        region = await world.region("eu")
        balancer = world.network.join("balancer")
        balancer.serve(region.api.serve)
        refused = await world.ask("GET", "/v1/in/eu/nodes")
        assert (refused.status, "signed this request for r-eu" in refused.json["detail"]) == (502, True)
        ctx = region.api.ctx
        region.api.ctx.callers = Authenticator(ctx.clock, (region.name, "https://balancer:443"))
        assert (await world.ask("GET", "/v1/in/eu/nodes")).status == 200

    in_world(story)


def test_a_proof_is_no_secret() -> None:
    own = SigningToken("server-1", secret_of("server-1"))
    sent = signed_request(
        Request("GET", "/v1/nodes"), RequestTarget("https://eu.example", "region/eu"), OPERATOR, own, 1
    )
    assert own.secret not in msgspec.json.encode(sent).decode()
