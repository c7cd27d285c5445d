"""Watches: what they tell, that they resume, and what they say when they cannot."""

from __future__ import annotations

from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.api.kinds import KINDS
from holdfast.api.server.objects.watch_events import affected_keys
from holdfast.core.model.objects.principals import Permission
from holdfast.core.region import events as e
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.transport import StreamDeclined
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import World, a_shop, a_workload, in_world


async def heard(source: Any, count: int) -> list[Any]:
    """The next lines that are not bookmarks."""
    found: list[Any] = []
    async for line in source:
        if line["type"] != "BOOKMARK":
            found.append(line)
        if len(found) == count:
            break
    return found


def test_a_watch_tells_of_what_is_added_changed_and_deleted() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        async with aclosing(world.watch("/v1/workloads?watch=true")) as source:  # type: ignore[type-var]
            assert (await anext(source))["type"] == "BOOKMARK"
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=5))
            await world.ask("DELETE", "/v1/workloads/shop/web")
            lines = await heard(source, 3)
        assert [line["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]
        assert lines[1]["object"]["spec"]["replicas"] == 5
        assert lines[2]["object"]["metadata"]["uid"] == lines[0]["object"]["metadata"]["uid"]

    in_world(story)


def test_who_watches_nodes_is_told_once_how_one_fares_and_once_that_it_is_gone() -> None:
    for event in (e.NodeReported(7, 40, 70, ()), e.NodeRemoved(7)):
        change: Any = SimpleNamespace(event=event, revision=9)
        assert affected_keys(KINDS["nodes"], REGION, RegionState(), change) == [7]


def test_a_watch_with_initial_begins_with_what_is_there() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        async with aclosing(world.watch("/v1/workloads?watch=true&initial=true")) as source:  # type: ignore[type-var]
            first, mark = await anext(source), await anext(source)
        assert first["type"] == "ADDED"
        assert first["object"]["metadata"]["name"] == "web"
        assert mark["type"] == "BOOKMARK"

    in_world(story)


def test_a_watch_resumes_where_it_broke_and_misses_nothing() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        token = (await world.ask("GET", "/v1/workloads")).json["metadata"]["token"]
        for replicas in range(1, 4):
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=replicas))
        async with aclosing(world.watch(f"/v1/workloads?watch=true&since={token}")) as source:  # type: ignore[type-var]
            lines = await heard(source, 3)
        assert lines[-1]["object"]["spec"]["replicas"] == 3
        async with aclosing(world.watch(f"/v1/workloads?watch=true&since={lines[1]['token']}")) as source:  # type: ignore[type-var]
            rest = await heard(source, 1)
        assert rest[0]["token"] == lines[2]["token"]

    in_world(story)


def test_a_watch_tells_a_tenant_of_its_own_alone() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.ask(
            "PUT", "/v1/tenants/bank", {"kind": "Tenant", "metadata": {}, "spec": {"priorityClasses": ["standard"]}}
        )
        await world.principal(part, "tenant/shop", Permission.READ, Permission.WRITE)
        async with aclosing(world.watch("/v1/workloads?watch=true", token="tenant-shop")) as source:  # type: ignore[type-var]
            await anext(source)
            await world.ask("PUT", "/v1/workloads/bank/vault", a_workload("vault", "bank"))
            await world.ask("DELETE", "/v1/workloads/bank/vault")
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
            lines = await heard(source, 1)
        assert lines[0]["object"]["metadata"]["name"] == "web"

    in_world(story)


def test_what_leaves_a_selection_is_told_as_deleted() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        chosen = a_workload()
        chosen["metadata"]["labels"] = {"app": "web"}
        async with aclosing(world.watch("/v1/workloads?watch=true&selector=app%3Dweb")) as source:  # type: ignore[type-var]
            await anext(source)
            await world.ask("PUT", "/v1/workloads/shop/web", chosen)
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
            lines = await heard(source, 2)
        assert [line["type"] for line in lines] == ["ADDED", "DELETED"]

    in_world(story)


def test_a_token_of_another_log_is_gone_before_the_stream_begins() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        with pytest.raises(StreamDeclined) as error:
            async with aclosing(world.watch("/v1/workloads?watch=true&since=other:1:1:00")) as source:  # type: ignore[type-var]
                await anext(source)
        assert error.value.reply.status == 410

    in_world(story)


def test_a_quiet_watch_sends_bookmarks() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        async with aclosing(world.watch("/v1/tokens?watch=true")) as source:  # type: ignore[type-var]
            await anext(source)
            before = world.clock.boot()
            assert (await anext(source))["type"] == "BOOKMARK"
            assert world.clock.boot() - before <= 6_000

    in_world(story)


def test_watch_resumed_after_leader_change_misses_nothing() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        first = await world.platform("p1", store)
        from holdfast.core.ledger.builtin.log import StartLog
        from holdfast.core.platform.definition import PLATFORM
        from tests.support.api.api_cluster import OPERATOR, a_class, a_tenant

        second = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
        await second.start().follows()
        await world.ask("PUT", "/v1/priorityclasses/standard", a_class())
        await world.ask("PUT", "/v1/tenants/shop", a_tenant())
        async with aclosing(world.watch("/v1/workloads?watch=true")) as source:  # type: ignore[type-var]
            await anext(source)
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=1))
            token = (await heard(source, 1))[0]["token"]
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=2))
        await first.stop()
        await second.leads()
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3), to="p2")
        path = f"/v1/workloads?watch=true&since={token}"
        async with aclosing(world.watch(path, to="p2")) as source:  # type: ignore[type-var]
            lines = await heard(source, 2)
        # Each change is told once, and shows the object as it is by now.
        assert [line["object"]["spec"]["replicas"] for line in lines] == [3, 3]
        assert int(lines[0]["token"].split(":")[2]) < int(lines[1]["token"].split(":")[2])

    in_world(story)


def test_watchers_who_ask_for_the_same_are_each_told_everything() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        path = "/v1/workloads/shop/web?watch=true"
        async with (
            aclosing(world.watch(path)) as one,  # type: ignore[type-var]
            aclosing(world.watch(path)) as other,  # type: ignore[type-var]
        ):
            for source in (one, other):
                await anext(source)
            for replicas in (3, 4):
                await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=replicas))
            await world.ask("DELETE", "/v1/workloads/shop/web")
            told = [await heard(source, 3) for source in (one, other)]
        assert told[0] == told[1]
        assert [line["type"] for line in told[0]] == ["MODIFIED", "MODIFIED", "DELETED"]

    in_world(story)
