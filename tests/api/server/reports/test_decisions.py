"""`/v1/decisions` and `/v1/queue` of a region: what is told, to whom, and through the platform."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from holdfast.api.openapi.document import description
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from tests.support.api.api_cluster import Answer, World, a_shop, in_world
from tests.support.ledgers.deciding_region import NEAREST, REASONS, DecidingRegion
from tests.support.ledgers.region import a_principal

IN_EU = {"to": "r-eu"}


async def a_region(world: World) -> DecidingRegion:
    """Region eu with two workloads: of shop, placed in part and waiting; of bank, placed."""
    part = await world.region("eu")
    deciding = await DecidingRegion(part, world.clock.wall).prepared()
    for name, rights, scope in (
        ("tenant/shop", (Permission.READ,), {}),
        ("person/scoped", (Permission.READ,), {"tenant": "bank"}),
        ("person/blind", (Permission.READ,), {}),
        ("person/nobody", (Permission.WRITE,), {}),
        ("person/elsewhere", (Permission.READ, Permission.SEE_OTHER_TENANTS), {"region": "us"}),
    ):
        token = world._token(name.partition("/")[2], name)
        await deciding.ship(c.ShippedPrincipal(a_principal(name, *rights, **scope)), c.ShippedToken(token))
    web, vault = await deciding.workload("web"), await deciding.workload("vault", "bank", priority_class="critical")
    await deciding.place(vault, (0, "n1"))
    await deciding.place(web, (0, "n1"), (1, "n2"))
    await deciding.wait(web)
    return deciding


def told(answer: Answer) -> list[tuple[str, str]]:
    """The tenant and the outcome of what is told."""
    assert answer.status == 200, answer
    return [(one["tenant"], one["outcome"]) for one in answer.json["items"]]


def valid(path: str, answer: Answer) -> Any:
    """The answer, which is in the form that the description tells of."""
    assert answer.status == 200, answer
    schema = description("region")["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema_rs.validate({"components": description("region")["components"], **schema}, answer.json)
    return answer.json


def test_a_slots_decision_is_told_with_everything_it_was_based_on() -> None:
    async def story(world: World) -> None:
        deciding = await a_region(world)
        found = valid("/v1/decisions", await world.ask("GET", "/v1/decisions?slot=shop/web/eu/1", **IN_EU))
        (one,) = found["items"]
        assert (one["outcome"], one["scheduler"], one["tenant"]) == ("placed", "controller/scheduler", "shop")
        assert one["placements"] == [{"slot": "web/eu/1", "node": "n2"}]
        assert (one["placed"], one["requestCount"], one["requests"][0]["workload"]) == (2, 1, "web")
        assert (one["requests"][0]["generation"], one["requests"][0]["purpose"]) == (3, "serving")
        assert [best["node"] for best in one["candidates"]] == ["n1", "n2"]
        assert one["candidates"][0]["parts"] == {"packing": 900}
        assert one["rejected"][0] == {"code": "capacity", "detail": "cpu", "count": 1}
        assert (one["examined"], one["inFlight"], one["plugins"]) == (3, 2, {"packing": "1"})
        assert one["quota"][0]["account"] == "quota/shop"
        assert one["queuedSince"] < one["at"]
        assert found["metadata"]["upTo"] == deciding.state.info.seq

    in_world(story)


def test_decisions_are_found_by_workload_node_outcome_and_time_newest_first() -> None:
    async def story(world: World) -> None:
        deciding = await a_region(world)
        both = [("shop", "waiting"), ("shop", "placed"), ("bank", "placed")]
        uid = format_revision(deciding.state.assignments[101].workload)
        at = (await world.ask("GET", "/v1/decisions?limit=1", **IN_EU)).json["items"][0]["at"]
        for query, wanted in (
            ("", both),
            ("workload=shop/web", both[:2]),
            ("workload=web&tenant=shop", both[:2]),
            ("workload=web&tenant=bank", []),
            (f"workload={uid}", both[:2]),
            ("node=n1", both[1:]),
            ("node=n1&workload=web", both[1:2]),
            ("node=n2", both[1:2]),
            ("node=n9", []),
            ("outcome=placed", both[1:]),
            ("outcome=never-fits", []),
            (f"since={at}", both),
            ("since=2999-01-01T00:00:00Z", []),
            ("until=1999-01-01T00:00:00Z", []),
            ("slot=web/eu/0", both[1:2]),
            ("slot=web/eu/3", []),
        ):
            found = await world.ask("GET", f"/v1/decisions?{query}".replace("+", "%2B"), **IN_EU)
            assert told(found) == wanted, query

    in_world(story)


def test_a_page_goes_on_where_the_one_before_ended() -> None:
    async def story(world: World) -> None:
        await a_region(world)
        first = (await world.ask("GET", "/v1/decisions?limit=2", **IN_EU)).json
        rest = (await world.ask("GET", f"/v1/decisions?limit=2&continue={first['metadata']['continue']}", **IN_EU)).json
        assert [len(first["items"]), len(rest["items"])] == [2, 1]
        assert "continue" not in rest["metadata"]

    in_world(story)


def test_a_decision_outlives_its_workload() -> None:
    async def story(world: World) -> None:
        deciding = await a_region(world)
        await deciding.end(deciding.state.assignments[101])
        found = await world.ask("GET", "/v1/decisions?slot=shop/web/eu/0", **IN_EU)
        assert told(found) == [("shop", "placed")]

    in_world(story)


def test_a_tenant_is_told_of_its_own_and_which_nodes_were_compared_is_not_told() -> None:
    async def story(world: World) -> None:
        await a_region(world)

        async def seen(token: str, query: str = "") -> list[tuple[str, str]]:
            return told(await world.ask("GET", f"/v1/decisions?{query}", token=token, **IN_EU))

        assert await seen("shop") == [("shop", "waiting"), ("shop", "placed")]
        assert await seen("shop", "node=n1") == [("shop", "placed")]
        assert await seen("shop", "workload=vault") == []
        assert await seen("scoped") == [("bank", "placed")]
        assert await seen("blind") == []
        mine = (await world.ask("GET", "/v1/decisions?slot=web/eu/0", token="shop", **IN_EU)).json["items"][0]
        assert (mine["candidates"], mine["candidateCount"], mine["examined"]) == ([], 2, 3)
        assert mine["placements"][0]["node"] == "n1"

    in_world(story)


def test_whoever_may_not_read_or_asks_for_another_tenants_is_denied_and_that_is_on_record() -> None:
    async def story(world: World) -> None:
        await a_region(world)
        for path in ("/v1/decisions", "/v1/queue"):
            for query, token, code in (
                ("", "nobody", "no-right"),
                ("", "elsewhere", "wrong-scope"),
                ("?workload=bank/vault", "shop", "wrong-scope"),
                ("?tenant=bank", "shop", "wrong-scope"),
            ):
                refused = await world.ask("GET", f"{path}{query}", token=token, **IN_EU)
                assert (refused.status, refused.json["code"]) == (403, code), (path, query, token)
            assert (await world.ask("GET", path, token="", **IN_EU)).status == 401
        slot = await world.ask("GET", "/v1/decisions?slot=bank/vault/eu/0", token="shop", **IN_EU)
        assert slot.status == 403
        assert (
            await world.ask("GET", "/v1/decisions", token="agents", holdfast_actor="agent/n1", **IN_EU)
        ).status == 403

    in_world(story)


@pytest.mark.parametrize(
    "query",
    [
        "workload=", "workload=a/b/c", "slot=web", "slot=web/eu/x",
         "node=", "since=yesterday", "until=", "outcome=good", "outcome=", "limit=0",
        "continue=x", "continue=", "wrokload=web",
    ],
)  # fmt: skip
def test_a_parameter_that_is_wrong_is_refused(query: str) -> None:
    async def story(world: World) -> None:
        await world.region("eu")
        refused = await world.ask("GET", f"/v1/decisions?{query}", **IN_EU)
        assert (refused.status, refused.json["code"]) == (400, "unreadable")

    in_world(story)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/decisions?slot=web/us/0",
        "/v1/decisions?slot=web/eu/0&workload=web",
        "/v1/decisions?workload=shop/web&tenant=bank",
        "/v1/queue?workload=shop/web&tenant=bank",
    ],
)
def test_parameters_that_contradict_one_another_are_refused(path: str) -> None:
    async def story(world: World) -> None:
        await world.region("eu")
        refused = await world.ask("GET", path, **IN_EU)
        assert (refused.status, refused.json["code"]) == (422, "contradictory")

    in_world(story)


def test_the_queue_is_told_in_the_order_in_which_it_is_looked_at_and_why_each_waits() -> None:
    async def story(world: World) -> None:
        await a_region(world)
        found = valid("/v1/queue", await world.ask("GET", "/v1/queue", **IN_EU))
        vault, web = found["items"]
        assert [(one["position"], one["workload"], one["open"]) for one in (vault, web)] == [
            (1, "vault", 3),
            (2, "web", 2),
        ]
        assert (vault["reason"], vault["reasons"], vault["priorityClass"]) == ("not-yet-examined", [], "critical")
        assert (web["reason"], web["message"], web["never"]) == ("capacity", NEAREST, False)
        assert web["reasons"][0]["below"] == [{"code": "cpu", "count": 2, "message": "", "below": []}]
        assert (web["attempts"], web["region"]) == (1, "eu")
        assert found["metadata"]["total"] == 2

    in_world(story)


def test_that_something_will_never_fit_is_told_apart() -> None:
    async def story(world: World) -> None:
        deciding = await a_region(world)
        await deciding.wait(deciding.state.assignments[102], (PendingReason("never-fits", 3, "too large", REASONS),))
        vault = (await world.ask("GET", "/v1/queue?workload=vault", **IN_EU)).json["items"][0]
        assert (vault["never"], vault["reason"]) == (True, "never-fits")
        found = await world.ask("GET", "/v1/decisions?outcome=never-fits", **IN_EU)
        assert told(found) == [("bank", "never-fits")]

    in_world(story)


def test_a_tenant_sees_its_own_in_the_queue_at_its_place_among_all() -> None:
    async def story(world: World) -> None:
        await a_region(world)

        async def seen(token: str, query: str = "") -> list[tuple[int, str]]:
            answer = await world.ask("GET", f"/v1/queue?{query}", token=token, **IN_EU)
            assert answer.status == 200, answer
            return [(one["position"], one["workload"]) for one in answer.json["items"]]

        assert await seen("shop") == [(2, "web")]
        assert await seen("scoped") == [(1, "vault")]
        assert await seen("blind") == []
        assert await seen("operator", "tenant=shop") == [(2, "web")]
        assert await seen("operator", "workload=bank/vault") == [(1, "vault")]
        assert await seen("operator", "limit=1") == [(1, "vault")]

    in_world(story)


def test_both_are_reached_through_the_platform() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        await a_region(world)
        await world.ask(
            "PUT", "/v1/regions/eu", {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"address": "https://r-eu"}}
        )
        await world.principal(platform, "region/eu")
        await platform.submit("region/eu", OpenSession())
        session = platform.state.session_of["region/eu"]
        await platform.submit("region/eu", p.JoinRegion("eu", "log-eu", "r-eu"), session=session, sequence=1)
        assert told(await world.ask("GET", "/v1/in/eu/decisions?workload=shop/web&outcome=placed")) == [
            ("shop", "placed")
        ]
        assert len((await world.ask("GET", "/v1/in/eu/queue")).json["items"]) == 2
        assert (await world.ask("GET", "/v1/queue")).status == 404

    in_world(story)


def test_a_server_that_keeps_no_decisions_says_so() -> None:
    async def story(world: World) -> None:
        part = await world.region("eu")
        part.api.ctx.decisions = None
        refused = await world.ask("GET", "/v1/decisions", **IN_EU)
        assert (refused.status, refused.json["code"]) == (503, "unavailable")

    in_world(story)


def test_a_read_of_any_age_is_told_what_is_kept_and_a_linear_one_waits_for_it() -> None:
    async def story(world: World) -> None:
        deciding = await a_region(world)
        part = world.parts[0]
        part._tasks.pop().cancel()  # nobody reads the log any more
        await deciding.wait(deciding.state.assignments[102])
        found = await world.ask("GET", "/v1/decisions", **IN_EU)
        assert found.json["metadata"]["upTo"] < deciding.state.info.seq
        late = await world.ask("GET", "/v1/decisions?read=linear", holdfast_timeout_ms="500", **IN_EU)
        assert (late.status, late.json["code"]) == (503, "not-reached")

    in_world(story)


def test_what_keeps_decisions_from_being_kept_is_told_with_what_is_degraded() -> None:
    async def story(world: World) -> None:
        part = await world.region("eu")
        assert part.decisions is not None
        part.decisions.last_error = "the disk is full"
        status = (await world.ask("GET", "/v1/status", **IN_EU)).json
        assert "decisions are not stored: the disk is full" in status["degraded"]

    in_world(story)
