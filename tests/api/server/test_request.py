"""Parameters mean what the description says, and nothing that is said is passed over."""

from __future__ import annotations

import pytest

from tests.support.api.api_cluster import World, a_shop, a_tenant, a_workload, in_world


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workloads?limit=",
        "/v1/workloads?limit=0",
        "/v1/workloads?limit=-1",
        "/v1/workloads?watch=",
        "/v1/workloads?watch=yes",
        "/v1/workloads?read=",
        "/v1/workloads?read=at-least%3Dx",
        "/v1/workloads?since=x",
        "/v1/workloads?initial=maybe",
        "/v1/workloads?selector=a%3Db%3Dc",
        "/v1/workloads/shop/web?since=",
        "/v1/audit?since=yesterday",
        "/v1/audit?continue=x",
    ],
)
def test_a_parameter_that_is_wrong_or_empty_is_refused(path: str) -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        refused = await world.ask("GET", path)
        assert (refused.status, refused.json["code"]) == (400, "unreadable")

    in_world(story)


def test_a_header_counts_before_the_query_and_neither_may_be_wrong() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        assert (await world.ask("GET", "/v1/tenants?read=any", holdfast_read="linear")).status == 200
        assert (await world.ask("GET", "/v1/tenants?read=x", holdfast_read="linear")).status == 400
        assert (await world.ask("GET", "/v1/tenants?read=any", holdfast_read="x")).status == 400
        assert (await world.ask("GET", "/v1/tenants", holdfast_timeout_ms="")).status == 400
        assert (await world.ask("GET", "/v1/tenants", holdfast_timeout_ms="999999999")).status == 200

    in_world(story)


def test_more_than_the_server_gives_at_once_counts_as_that() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        assert (await world.ask("GET", "/v1/tenants?limit=999999999")).status == 200

    in_world(story)


@pytest.mark.parametrize("key", ["a b", "ü", "x" * 201])
def test_a_key_is_short_and_plain(key: str) -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        refused = await world.ask("PUT", "/v1/tenants/bank", a_tenant("bank"), key=key)
        assert (refused.status, refused.json["code"]) == (400, "no-key")

    in_world(story)


def test_a_delete_that_is_repeated_says_which_object_is_gone() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        await world.ask("DELETE", "/v1/workloads/shop/web", key="same")
        again = await world.ask("DELETE", "/v1/workloads/shop/web", key="same")
        assert again.headers["holdfast-repeated"] == "true"
        named = {"apiVersion": "holdfast/v1", "kind": "Workload", "metadata": {"name": "web", "tenant": "shop"}}
        assert again.json == named

    in_world(story)


def test_the_audit_goes_back_no_further_than_asked_for() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.clock.sleep(10_000)
        at = (await world.ask("GET", "/v1/status")).json["at"]
        await world.ask("PUT", "/v1/tenants/bank", a_tenant("bank"))
        everything = (await world.ask("GET", "/v1/audit")).json["items"]
        lately = (await world.ask("GET", f"/v1/audit?since={at}")).json
        assert [item["body"]["object"]["metadata"]["name"] for item in lately["items"]] == ["bank"]
        assert lately["metadata"] == {}
        assert len(everything) > 1

    in_world(story)


def test_a_question_about_rights_names_a_command_or_a_right_and_not_both() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        for wrong in ({}, {"command": "put", "right": ""}, {"command": ""}, {"right": "fly"}):
            assert (await world.ask("POST", "/v1/can-i", wrong)).status == 400, wrong
        assert (await world.ask("POST", "/v1/can-i", {"command": "put"})).json["allowed"] is True

    in_world(story)
