"""`/v1/schedulers` of a region: the leader's memory of who schedules, told to operators."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from holdfast.api.resources.schemas import kind_schema
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Permission
from holdfast.core.region import commands as c
from holdfast.host.leader.scheduler_board import SchedulerBoard
from holdfast.host.protocol.commands import SchedulerVitals
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.ledgers.region import a_principal

IN_EU: dict[str, Any] = {"to": "r-eu"}


def board_of(part: Part) -> SchedulerBoard:
    assert part.ledger.leader is not None
    return part.ledger.leader.term.schedulers


def proposed(board: SchedulerBoard, actor: str, count: int, refused: int = 0) -> None:
    group = c.PlacementGroup(100, "digest", tuple(c.SlotPlacement(number, 1) for number in range(count)))
    board.answered(Envelope(actor, c.Propose((group,), 1_000), 0), Committed(1, b""))
    group = c.PlacementGroup(100, "digest", tuple(c.SlotPlacement(number, 1) for number in range(refused)))
    board.answered(Envelope(actor, c.Propose((group,), 1_000), 0), Refused(Code.STALE, "", {}))


def test_each_live_scheduler_is_told_with_its_last_minute() -> None:
    async def story(world: World) -> None:
        board = board_of(await world.region())
        board.enter("controller/scheduler", lambda: SchedulerVitals("r-eu", 10, 0))
        board.heard("scheduler/main", SchedulerVitals("host-7", 200, 40), 60_000)
        proposed(board, "scheduler/main", 600, 9)
        await world.clock.sleep(12_000)
        found = (await world.ask("GET", "/v1/schedulers", **IN_EU)).json
        beside, apart = found["items"]
        for one in found["items"]:
            jsonschema_rs.validator_for(kind_schema("Scheduler", shown=True)).validate(one)
        assert {one["kind"] for one in found["items"]} == {"Scheduler"}
        assert beside["metadata"]["name"] == "controller/scheduler"
        assert beside["spec"] == {"where": "r-eu", "embedded": True}
        assert beside["status"]["placedPerSecond"] == "0.00"
        assert apart["spec"]["where"] == "host-7"
        status = apart["status"]
        assert (status["placed"], status["placedPerSecond"], status["viewAge"]) == (600, "50.00", "40ms")
        assert (status["conflictsPerPlacement"], status["conflictReasons"]) == ("0.02", ["stale=0.02"])
        one = await world.ask("GET", "/v1/schedulers/scheduler/main", **IN_EU)
        assert one.json == apart
        assert len((await world.ask("GET", "/v1/schedulers?limit=1", **IN_EU)).json["items"]) == 1

    in_world(story)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/schedulers/scheduler/nobody", 404, "not-found"),
        ("/v1/schedulers?watch=true", 400, "unreadable"),
        ("/v1/schedulers?selector=a%3Db", 400, "unreadable"),
    ],
)
def test_what_is_not_there_is_told_so(path: str, status: int, code: str) -> None:
    async def story(world: World) -> None:
        await world.region()
        found = await world.ask("GET", path, **IN_EU)
        assert (found.status, found.json["code"]) == (status, code)

    in_world(story)


def test_a_tenant_is_told_nothing_of_them() -> None:
    async def story(world: World) -> None:
        part = await world.region()
        shop = a_principal("tenant/shop", Permission.READ, tenant="shop")
        puts = (c.ShippedPrincipal(shop), c.ShippedToken(world._token("shop", shop.meta.name)))
        await part.submit("controller/link", c.Ship("log-platform", 1, 1, 2, puts))
        found = await world.ask("GET", "/v1/schedulers", token="shop", **IN_EU)
        assert (found.status, found.json["code"]) == (403, "wrong-scope")

    in_world(story)


def test_the_platform_has_none_and_says_where_they_are() -> None:
    async def story(world: World) -> None:
        await world.platform()
        found = await world.ask("GET", "/v1/schedulers")
        assert (found.status, found.json["code"]) == (404, "no-such-route")
        assert "use --region NAME" in found.json["detail"]

    in_world(story)
