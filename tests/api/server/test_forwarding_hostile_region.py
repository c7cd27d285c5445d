"""What a false region answers to the platform: its caller gets a region's answer, and nothing else of it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.api.server.limits import ConcurrencyLimiter
from holdfast.core.model.objects.principals import Permission
from holdfast.host.ports.transport import Reply, Request, StreamReply
from tests.api.server.test_delegation import a_platform
from tests.support.api.api_cluster import World, in_world

JSON = ("content-type", "application/json")


def answering(world: World, reply: Reply) -> None:
    """Whoever is at the address of region eu answers this."""

    async def answer(request: Request) -> Reply | StreamReply:
        return reply

    world.network.join("false").serve(answer)


def test_of_a_regions_answer_the_headers_of_a_list_are_handed_on_and_the_ledger_is_what_the_platform_knows() -> None:
    """`holdfast-leader` says where to send tokens, `set-cookie` is kept for the platform, and with `holdfast-ledger:
    platform` a region's word would be the platform's."""

    async def story(world: World) -> None:
        await a_platform(world, "https://false")
        said = {
            "set-cookie": "session=of-the-region", "location": "https://evil", "holdfast-leader": "https://evil",
            "www-authenticate": "Basic", "link": "<https://evil>", "strict-transport-security": "max-age=0",
            "holdfast-ledger": "platform", "access-control-allow-origin": "*", "holdfast-proof": "not-taken",
        }  # fmt: skip
        kept = {"etag": '"41.3"', "holdfast-token": "log-eu:1:2:00", "holdfast-outcome": "created", "retry-after": "2"}
        twice = ("content-type", "text/html")
        answering(world, Reply(200, (JSON, *said.items(), *kept.items(), twice), b"{}"))
        for verb, body in (("GET", None), ("PUT", {"spec": {}})):
            found = await world.ask(verb, "/v1/in/eu/nodes/n1", body)
            assert found.status == 200
            assert found.headers == {**dict([JSON]), **kept, "holdfast-ledger": "region/eu"}

    in_world(story)


def test_an_answer_that_does_not_say_whose_it_is_does_not_become_the_platforms() -> None:
    async def story(world: World) -> None:
        await a_platform(world, "https://false")
        answering(world, Reply(200, (JSON,), b"{}"))
        found = await world.ask("GET", "/v1/in/eu/nodes")
        assert found.headers == {**dict([JSON]), "holdfast-ledger": "region/eu"}

    in_world(story)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(101, (JSON,)),
        Reply(302, (JSON, ("location", "https://evil"))),
        Reply(307, (JSON, ("location", "https://evil")), b"{}"),
        Reply(999, (JSON,), b"{}"),
        Reply(200, (("content-type", "text/html"),), b"<script>ask('/v1/tokens')</script>"),
        Reply(404, (("content-type", "text/html; charset=utf-8"),), b"<script></script>"),
        Reply(200, (), b"<script></script>"),
    ],
)
def test_what_no_region_answers_is_not_handed_on(reply: Reply) -> None:
    """A page would be the platform's own to a browser that shows a certificate, and a redirect leads away from it."""

    async def story(world: World) -> None:
        await a_platform(world, "https://false")
        answering(world, reply)
        for verb, code in (("GET", "region-unreachable"), ("PUT", "outcome-unknown")):
            found = await world.ask(verb, "/v1/in/eu/nodes/n1", {"spec": {}} if verb == "PUT" else None)
            assert found.json["code"] == code, found
            assert "location" not in found.headers
            assert b"script" not in found.body
        watched = await world.ask("GET", "/v1/in/eu/nodes?watch=true")
        assert (watched.status, watched.json["code"]) == (502, "region-unreachable")

    in_world(story)


def test_a_region_that_does_not_answer_takes_no_more_of_the_platform_than_a_part_for_each_who_asks() -> None:
    """Each request holds a connection, and what was answered so far, for as long as its caller is patient."""

    async def story(world: World) -> None:
        platform = await a_platform(world, "https://false")
        await world.principal(platform, "person/other", Permission.READ, token="other")
        platform.api.ctx.to_regions = ConcurrencyLimiter(8, "requests to regions")
        asked, answered = 0, asyncio.Event()

        async def hang(request: Request) -> Reply | StreamReply:
            nonlocal asked
            asked += 1
            await answered.wait()
            return Reply(200, (JSON,), b"{}")

        world.network.join("false").serve(hang)
        waiting = [asyncio.create_task(world.ask("GET", "/v1/in/eu/nodes")) for _ in range(5)]
        await world.until(lambda: sum(one.done() for one in waiting) == 3)
        assert {one.result().json["code"] for one in waiting if one.done()} == {"overloaded"}
        others = asyncio.create_task(world.ask("GET", "/v1/in/eu/nodes", token="other"))
        await world.until(lambda: asked == 3)
        answered.set()
        found = await asyncio.gather(*waiting, others)
        assert sorted(one.status for one in found) == [200, 200, 200, 429, 429, 429]
        assert platform.api.ctx.to_regions.in_use == 0

    in_world(story)
