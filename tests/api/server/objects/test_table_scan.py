"""Large tables are looked through in parts, and what is shown is of one moment all the same."""

from __future__ import annotations

from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.api.kinds import KINDS
from holdfast.api.resources.tables import iter_rows
from holdfast.api.server.objects import pagination
from holdfast.api.server.objects.watch_events import affected_keys
from holdfast.api.server.objects.watch_scope import WatchScope
from holdfast.core.region.definition import REGION
from holdfast.core.region.watch import WORKLOAD
from holdfast.host.ports.transport import Reply, StreamReply
from holdfast.host.streams.resume import close_frames
from tests.support.api.api_cluster import World, a_shop, a_workload, in_world
from tests.support.ledgers.region import RegionBench


def steps_of(work: Any, visited: list[Any]) -> tuple[Any, list[int]]:
    """What a coroutine returns, and how many rows it visited in each turn of the loop."""
    turns: list[int] = []
    while True:
        before = len(visited)
        try:
            work.send(None)
        except StopIteration as done:
            return done.value, [*turns, len(visited) - before]
        turns.append(len(visited) - before)


@pytest.mark.parametrize("merged", [False, True])
def test_a_large_table_is_looked_through_in_parts_and_comes_out_in_order(
    merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_TURN", 7)
    monkeypatch.setattr(pagination, "ROWS_SORTED_PER_TURN", 10 if merged else 1_000)
    bench = RegionBench()
    for number in range(50):
        bench.a_node(f"n{number * 37 % 50}")
    kind, visited = KINDS["nodes"], list[Any]()

    def wanted(_: Any, key: Any, row: Any) -> bool:
        visited.append(key)
        return bool(row.name != "n3")

    assert pagination.is_large(kind, bench.state)
    found, turns = steps_of(pagination.scan_in_parts(kind, bench.state.fork(), wanted), visited)
    assert found == [(key, row) for key, row in iter_rows(kind, bench.state) if row.name != "n3"]
    assert max(turns) <= 7
    assert len(visited) == 50


def test_a_list_of_a_large_table_is_of_one_moment_on_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_TURN", 2)
    monkeypatch.setattr(pagination, "OBJECTS_PER_TURN", 1)

    async def story(world: World) -> None:
        await a_shop(world)
        for name in "edcba":
            await world.ask("PUT", f"/v1/workloads/shop/{name}", a_workload(name))
        first = (await world.ask("GET", "/v1/workloads?limit=3")).json
        await world.ask("PUT", "/v1/workloads/shop/b", a_workload("b", replicas=9))
        await world.ask("DELETE", "/v1/workloads/shop/a")
        rest = (await world.ask("GET", f"/v1/workloads?limit=3&continue={first['metadata']['continue']}")).json
        items = [*first["items"], *rest["items"]]
        assert sorted(one["metadata"]["name"] for one in items) == list("abcde")
        assert {one["spec"]["replicas"] for one in items} == {2}
        whole = (await world.ask("GET", "/v1/workloads")).json["items"]
        assert sorted(one["metadata"]["uid"] for one in whole)[0] == whole[0]["metadata"]["uid"]

    in_world(story)


def test_a_watch_of_a_large_table_begins_with_one_moment_and_misses_nothing_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_TURN", 2)

    async def story(world: World) -> None:
        await a_shop(world)
        for name in "abcde":
            await world.ask("PUT", f"/v1/workloads/shop/{name}", a_workload(name))
        async with aclosing(world.watch("/v1/workloads?watch=true&initial=true&tenant=shop")) as source:  # type: ignore[type-var]
            lines = [await anext(source)]
            await world.ask("PUT", "/v1/workloads/shop/e", a_workload("e", replicas=9))
            await world.ask("DELETE", "/v1/workloads/shop/a")
            while not {"MODIFIED", "DELETED"} <= {line["type"] for line in lines}:
                lines.append(await anext(source))
        begun = [line for line in lines if line["type"] == "ADDED"]
        assert [line["object"]["metadata"]["name"] for line in begun] == list("abcde")
        assert {line["object"]["spec"]["replicas"] for line in begun} == {2}
        (changed,) = [line for line in lines if line["type"] == "MODIFIED"]
        assert changed["object"]["spec"]["replicas"] == 9

    in_world(story)


def test_a_watch_that_begins_with_a_large_table_has_a_place_among_the_lists_until_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_TURN", 2)

    async def story(world: World) -> None:
        part = await a_shop(world)
        for name in "abcde":
            await world.ask("PUT", f"/v1/workloads/shop/{name}", a_workload(name))
        ctx = part.api.ctx
        monkeypatch.setattr(ctx.lists, "_most", 1)
        request = world.request("GET", "/v1/workloads?watch=true&initial=true")
        first, second = await part.api.serve(request), await part.api.serve(request)
        assert isinstance(first, StreamReply)
        assert isinstance(second, Reply)
        assert second.status == 429
        assert (ctx.lists.in_use, ctx.watches.in_use) == (1, 1)
        for _ in range(6):
            await anext(first.messages)
        assert (ctx.lists.in_use, ctx.watches.in_use) == (0, 1)
        third = await part.api.serve(request)
        assert isinstance(third, StreamReply)
        for one in (first, third):
            await close_frames(one.messages)  # the one at its end, the other unread
        assert (ctx.lists.in_use, ctx.watches.in_use) == (0, 0)
        assert not part.ledger.hub._open

    in_world(story)


def test_what_a_change_touches_is_found_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = RegionBench()
    for number in range(1, 30):
        bench.a_workload(uid=100 + number, workload=number, count=1)
    state = bench.state

    def no_walk(_: Any) -> Any:
        raise AssertionError("all rows were walked over")

    monkeypatch.setattr(type(state.requests), "unordered", no_walk)
    (request,) = state.requests[107]
    event, revision = next(
        (event, 0)
        for raw, digest in bench.log[-1:]
        for record in REGION.batches.read(raw, REGION.batches.header(raw).previous, digest).records
        for event in record.events
    )
    change: Any = SimpleNamespace(event=event, revision=revision)
    assert affected_keys(KINDS["requests"], REGION, state, change) == [(129, request.template)]
    assert (WORKLOAD, 29) in REGION.keys[type(event)](event, 0)
    chosen = WatchScope.__new__(WatchScope)
    chosen._workloads = {}
    assert chosen._workload(state, 7) == ("acme", state.assignments[107].workload_name)
