"""A region knows the platform's servers by its own copy: shipped, revoked, in a full list, and while it is cut off."""

from __future__ import annotations

from holdfast.api.problems import Problem
from holdfast.api.server.authentication import Authenticator, Caller
from holdfast.core.ledger.builtin.servers import AdmitServer, RevokeServer
from holdfast.core.model.records.servers import ServerToken
from holdfast.host.ports.transport import Request
from holdfast.host.protocol.request_signatures import RequestTarget, SigningToken, public_key_of, signed_request
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import until
from tests.support.hosts.link_world import ROOT, LinkWorld, PlatformServer, RegionServer, linked

HOUR = 3_600_000
SECRET = "s" * 43
ADDRESS = "https://r1.example:7400"


async def admit(server: PlatformServer | RegionServer, name: str, principal: str, life_ms: int = HOUR) -> None:
    token = ServerToken(name, principal, public_key_of(SECRET), server.clock.wall() + life_ms)
    await server.accept("controller/servers", AdmitServer(token))


def judged(region: RegionServer, name: str) -> Caller | Problem:
    """As whom the region answers a request that a server with this token sends for an operator."""
    there = RequestTarget(ADDRESS, region.state.info.ledger)
    request = signed_request(Request("GET", "/v1/whoami"), there, ROOT, SigningToken(name, SECRET), region.clock.wall())
    return Authenticator(region.clock, (ADDRESS,)).of(region.state, request)


def knows(region: RegionServer, name: str) -> str:
    """As which server the region knows who has this token; empty: as none."""
    found = judged(region, name)
    return found.via if isinstance(found, Caller) else ""


def test_a_region_judges_a_platforms_server_by_its_own_copy_also_while_it_is_cut_off_and_until_the_tokens_end() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await admit(platform, "of-p1", "platform/p1", 30_000)
        await until(lambda: knows(region, "of-p1") == "platform/p1", world.clock)
        region.line.is_cut = True
        await world.clock.sleep(20_000)
        found = judged(region, "of-p1")
        assert isinstance(found, Caller)
        assert (found.actor, found.via) == (ROOT, "platform/p1")
        await world.clock.sleep(10_000)
        over = judged(region, "of-p1")
        assert isinstance(over, Problem)
        assert "expired" in over.detail

    linked(story)


def test_what_is_revoked_on_the_platform_opens_nothing_in_a_region_that_hears_of_it() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await admit(platform, "of-p1", "platform/p1")
        await admit(platform, "of-p2", "platform/p2")
        await until(lambda: bool(knows(region, "of-p1") and knows(region, "of-p2")), world.clock)
        await platform.accept(ROOT, RevokeServer("platform/p1"))
        await until(lambda: not knows(region, "of-p1"), world.clock)
        assert knows(region, "of-p2") == "platform/p2"

    linked(story)


def test_a_full_list_takes_away_servers_that_the_platform_has_no_more_and_leaves_the_regions_own() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await admit(platform, "of-p1", "platform/p1")
        await admit(region, "of-r1", "region/eu/r1")
        await until(lambda: knows(region, "of-p1") == "platform/p1", world.clock)
        await platform.stop()
        world.servers.remove(platform)
        another = await world.a_platform("p1", log_id="log-other", store=MemoryStore("other"))
        await admit(another, "of-p9", "platform/p9")
        await until(lambda: knows(region, "of-p9") == "platform/p9", world.clock)
        assert knows(region, "of-p1") == ""
        assert knows(region, "of-r1") == "region/eu/r1"
        await world.same(another, region)

    linked(story)
