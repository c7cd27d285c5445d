"""Scheduler policies over the API: each document that says something else is a new revision, valid nowhere yet."""

from __future__ import annotations

from typing import Any

from tests.support.api.api_cluster import World, a_shop, in_world


def a_policy(name: str = "packed", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "holdfast/v1", "kind": "SchedulerPolicy", "metadata": {"name": name}, "spec": spec}


def test_a_document_is_published_once_and_again_when_it_says_something_else() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 5}))
        again = await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 5}))
        other = await world.ask("PUT", "/v1/policies/packed", a_policy(strategy="spread"))
        outcomes = [one.headers["holdfast-outcome"] for one in (first, again, other)]
        assert outcomes == ["created", "unchanged", "created"]
        assert (first.status, first.json["metadata"]["name"], first.json["status"]["stage"]) == (201, "packed", "draft")
        assert first.json["metadata"]["revision"] != other.json["metadata"]["revision"]

    in_world(story)


def test_a_policy_is_found_by_its_revision_and_the_newest_by_its_name() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = (await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 5}))).json
        second = (await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 6}))).json
        revision = first["metadata"]["revision"]
        assert (await world.ask("GET", f"/v1/policies/{revision}")).json == first
        assert (await world.ask("GET", "/v1/policies/packed")).json == second
        assert (await world.ask("GET", "/v1/policies/built-in")).json["status"]["author"] == "ledger"
        assert (await world.ask("GET", "/v1/policies/other")).status == 404
        listed = (await world.ask("GET", "/v1/policies")).json["items"]
        assert [one["metadata"]["name"] for one in listed] == ["built-in", "packed", "packed"]

    in_world(story)


def test_a_weight_for_a_score_that_nobody_knows_is_refused_with_the_field_and_the_known_ones() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        refused = await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packng": 3}))
        assert (refused.status, refused.json["code"]) == (422, "malformed")
        assert refused.json["facts"]["field"] == "scores.packng"
        assert "known are balance, cost, emptiness, evenness, fragmentation, load, near" in refused.json["detail"]

    in_world(story)


def test_labels_that_no_revision_would_keep_are_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        labelled = {**a_policy(), "metadata": {"name": "packed", "labels": {"team": "core"}}}
        refused = await world.ask("PUT", "/v1/policies/packed", labelled)
        assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/metadata/labels")
        both = await world.ask("POST", "/v1/batch", {"items": [labelled, a_policy()]})
        assert [one["outcome"] for one in both.json["items"]] == ["refused", "created"]

    in_world(story)


def test_a_document_that_was_read_and_is_not_the_newest_any_more_is_stale() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = (await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 5}))).json
        await world.ask("PUT", "/v1/policies/packed", a_policy(scores={"packing": 6}))
        first["spec"]["strategy"] = "spread"
        assert (await world.ask("PUT", "/v1/policies/packed", first)).status == 409
        etag = f'"{first["metadata"]["revision"]}"'
        assert (await world.ask("PUT", "/v1/policies/packed", a_policy(), if_match=etag)).status == 412
        assert (await world.ask("PUT", "/v1/policies/packed", a_policy(), if_none_match="*")).status == 412

    in_world(story)


def test_a_policy_is_not_deleted() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/policies/packed", a_policy())
        assert (await world.ask("DELETE", "/v1/policies/packed")).status == 405

    in_world(story)
