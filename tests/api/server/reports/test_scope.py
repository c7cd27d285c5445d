"""Lists of one moment begin alike: who may not read them is denied, they have a limit, and few are made at a time."""

from __future__ import annotations

import pytest

from holdfast.api.server.limits import ServerLimits
from holdfast.api.server.reports.scope import ITEMS_MAX
from holdfast.core.model.objects.principals import Permission
from holdfast.core.region import commands as c
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.ledgers.region import a_principal

EVERY = pytest.mark.parametrize("path", ["/v1/queue", "/v1/repairs"])


async def a_region(world: World) -> Part:
    """A region that makes one list at a time, with a tenant and with somebody who may not read."""
    part = await world.region("eu", limits=ServerLimits(lists_at_a_time=1))
    principals = {
        "shop": a_principal("tenant/shop", Permission.READ),
        "writer": a_principal("person/writer", Permission.WRITE),
    }
    puts: list[c.ShippedItem] = []
    for token, principal in principals.items():
        puts += [c.ShippedPrincipal(principal), c.ShippedToken(world._token(token, principal.meta.name))]
    await part.submit("controller/link", c.Ship("log-platform", 1, 1, 2, tuple(puts)))
    return part


@EVERY
@pytest.mark.parametrize(
    ("token", "query", "code"), [("writer", "", "no-right"), ("shop", "?tenant=bank", "wrong-scope")]
)
def test_who_may_not_read_is_denied_and_that_is_on_record(path: str, token: str, query: str, code: str) -> None:
    async def story(world: World) -> None:
        part = await a_region(world)
        refused = await world.ask("GET", path + query, to=part.name, token=token)
        assert (refused.status, refused.json["code"]) == (403, code)
        assert part.ledger.metrics.counted("denials", code=code) == 1
        assert part.api.ctx.lists.in_use == 0

    in_world(story)


@EVERY
def test_a_limit_is_a_number_and_no_more_than_the_most(path: str) -> None:
    async def story(world: World) -> None:
        part = await a_region(world)
        refused = await world.ask("GET", f"{path}?limit=none", to=part.name)
        assert (refused.status, refused.json["code"]) == (400, "unreadable")
        found = await world.ask("GET", f"{path}?limit={ITEMS_MAX + 1}", to=part.name)
        assert found.status == 200, found

    in_world(story)


@EVERY
def test_a_list_takes_a_place_and_gives_it_back_whatever_becomes_of_it(path: str) -> None:
    async def story(world: World) -> None:
        part = await a_region(world)
        lists = part.api.ctx.lists
        assert lists.acquire("person/else") is None
        full = await world.ask("GET", path, to=part.name)
        assert (full.status, full.json["code"]) == (429, "overloaded")
        lists.release("person/else")
        late = await world.ask("GET", f"{path}?read=at-least=log-eu:1:99999:00", to=part.name, holdfast_timeout_ms="50")
        assert late.status >= 400, late
        assert lists.in_use == 0
        assert (await world.ask("GET", path, to=part.name)).status == 200
        assert lists.in_use == 0

    in_world(story)
