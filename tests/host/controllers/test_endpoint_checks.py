"""What is ready is asked, and serves once it has answered; what serves and answers no more is withdrawn, with care."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.host.controllers.recheck_schedule import TICKS
from holdfast.host.ports.endpoint_prober import EndpointOptions
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.endpoint_world import FIRST_PORT, HABITS, EndpointWorld, ProbedAddresses
from tests.support.hosts.ledger_world import World, in_world, until

Story = Callable[[World, EndpointWorld], Coroutine[Any, Any, None]]


def told(story: Story, count: int = 1, habits: EndpointOptions = HABITS, **fields: Any) -> None:
    """A story of a server with so many replicas that run."""

    async def begin(world: World) -> None:
        server = world.server(MemoryStore())
        region = EndpointWorld(server, ProbedAddresses(), habits)
        await server.start().leads()
        await region.set_up(count, **fields)
        await story(world, region)

    in_world(begin)


def counted(region: EndpointWorld, name: str, **labels: str) -> int:
    return region.server.ledger.metrics.counted(name, **labels)


# Publishing


def test_what_is_ready_and_answers_serves_at_once() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        await region.ready(0)
        await until(region.serving, region.server.clock, 100)
        assert region.slot(0).by == "controller/endpoints"
        assert [(q.host, q.port, q.path) for _, q in region.town.asked] == [("10.0.0.1", FIRST_PORT, "")]

    told(story)


def test_what_runs_and_is_not_ready_is_not_asked() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        await region.server.clock.sleep(10_000)
        assert region.town.asked == []

    told(story)


def test_what_is_ready_and_does_not_answer_is_asked_again_and_does_not_serve_before_it_does() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        await region.ready(0)
        await region.server.clock.sleep(20_000)
        assert region.phases() == ["ready"]
        asked = len(region.town.asked)
        assert 5 <= asked <= 15, "it is asked again later each time, and not more rarely than every five seconds"
        region.answer_at(0)
        await until(region.serving, region.server.clock, HABITS.retry_most_ms + 100)

    told(story)


def test_what_never_answers_keeps_nobody_else_waiting() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.town.mute = {FIRST_PORT + n for n in range(3)}
        region.answer_at(*range(8))
        await region.ready(*range(8))
        await until(lambda: len(region.serving()) == 5, region.server.clock, 200)
        assert region.town.most_at_once <= HABITS.workers
        assert not counted(region, "endpoints_asked", result="failed")
        await region.server.clock.sleep(HABITS.ask_ms)
        assert counted(region, "endpoints_asked", result="failed") == 3

    told(story, 8)


def test_what_has_no_ports_cannot_be_asked_and_serves_when_it_is_ready() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        await region.ready(0)
        await until(region.serving, region.server.clock, 100)
        assert region.town.asked == []

    told(story, ports=0)


def test_what_has_ports_on_a_node_without_an_address_does_not_serve() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        await region.ready(0)
        await region.server.clock.sleep(20_000)
        assert region.phases() == ["ready"]
        assert region.town.asked == []

    told(story, address="")


def test_work_that_completes_serves_nobody() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        await region.ready(0)
        await region.server.clock.sleep(20_000)
        assert region.phases() == ["ready"]

    told(story, batch=True)


def test_what_is_found_again_is_asked_anew() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        await region.ready(0)
        await until(region.serving, region.server.clock, 100)
        await region.register()
        lost = await region.server.send("controller/node-health", moved(region, Phase.UNKNOWN, "session-ended"))
        assert not hasattr(lost, "code"), lost
        region.hang_up(0)
        await region.say([0], Phase.RUNNING, "found-again")
        await region.ready(0)
        await region.server.clock.sleep(10_000)
        assert region.phases() == ["ready"]

    told(story)


def moved(region: EndpointWorld, target: Phase, cause: str) -> c.Move:
    return c.Move((c.MoveSlot((1, 0), region.slot(0).epoch, target, cause),))


def test_a_new_leader_asks_before_it_publishes_and_leaves_what_serves_as_it_is() -> None:
    async def story(world: World) -> None:
        store, town = MemoryStore(), ProbedAddresses()
        first = EndpointWorld(world.server(store, "s1"), town)
        await first.server.start().leads()
        await first.set_up(2)
        first.answer_at(0)
        await first.ready(0, 1)
        await until(first.serving, first.server.clock, 100)
        await first.server.stop()
        town.asked.clear()
        second = EndpointWorld(world.server(store, "s2"), town)
        await second.server.start().leads()
        await second.server.clock.sleep(1_000)
        assert second.serving() == [0]
        assert {question.port for _, question in town.asked} == {FIRST_PORT + 1}
        second.answer_at(1)
        await until(lambda: second.serving() == [0, 1], second.server.clock, HABITS.retry_most_ms + 100)
        assert ("s2", (1, 1), second.slot(1).epoch) in town.answered

    in_world(story)


def test_what_nobody_heard_of_is_found_by_the_patrol() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.answer_at(0)
        hub = region.server.ledger.hub
        touches = list(hub._touches.values())
        for one in touches:
            one.touch = lambda keys: None  # type: ignore[method-assign]
        await region.ready(0)
        await until(region.serving, region.server.clock, HABITS.resync_ms + 1_000)
        assert counted(region, "endpoints_caught") == 1

    told(story)


def test_what_was_not_ready_for_a_moment_while_it_was_asked_is_asked_again_though_nobody_heard_of_it() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.town.mute.add(FIRST_PORT)
        await region.ready(0)
        await until(lambda: region.town.at_once == 1, region.server.clock, 1_000)
        for one in region.server.ledger.hub._touches.values():
            one.touch = lambda keys: None  # type: ignore[method-assign]
        await region.say((0,), Phase.RUNNING, "probe-lost")
        await until(lambda: region.town.at_once == 0, region.server.clock, 60_000)
        region.town.mute.clear()
        region.answer_at(0)
        await region.ready(0)
        await until(region.serving, region.server.clock, HABITS.resync_ms + 1_000)

    told(story)


# Withdrawing


def all_serve(story: Story, count: int, habits: EndpointOptions = HABITS) -> None:
    async def begin(world: World, region: EndpointWorld) -> None:
        region.answer_at(*range(count))
        await region.ready(*range(count))
        await until(lambda: len(region.serving()) == count, region.server.clock, 10_000)
        region.town.asked.clear()
        await story(world, region)

    told(begin, count, habits)


def test_what_serves_is_asked_every_few_seconds_and_not_all_at_once() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        await region.server.clock.sleep(20_000)
        asked = [at for at, _ in region.town.asked]
        assert 4 * 20 <= len(asked) <= 8 * 20
        assert max(sum(first <= at < first + 100 for at in asked) for first in asked) <= 10

    all_serve(story, 20)


def test_those_whose_time_comes_together_are_asked_in_one_moment_so_many_at_a_time() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.town.most_at_once = 0
        await region.server.clock.sleep(20_000)
        moments = {at for at, _ in region.town.asked}
        assert len(region.town.asked) > 4 * 60
        assert len(moments) <= 2 * 20 * TICKS // 5, "one timer for many"
        assert 1 < region.town.most_at_once <= 8

    all_serve(story, 60, EndpointOptions(workers=8))


def test_one_that_does_not_answer_holds_up_none_of_those_asked_with_it() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.town.mute = {FIRST_PORT}
        await region.server.clock.sleep(60_000)
        times = {n: [at for at, one in region.town.asked if one.port == FIRST_PORT + n] for n in range(1, 6)}
        gaps = [later - at for asked in times.values() for at, later in pairwise(asked)]
        assert max(gaps) <= HABITS.again_ms + HABITS.again_ms // TICKS
        assert region.serving() == [1, 2, 3, 4, 5]

    all_serve(story, 6)


def test_one_that_fails_several_times_in_a_row_is_withdrawn_and_comes_back() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.hang_up(2)
        began = region.server.clock.boot()
        await until(lambda: 2 not in region.serving(), region.server.clock, 30_000)
        assert region.server.clock.boot() - began >= (HABITS.failures - 1) * HABITS.again_ms // 2
        assert (region.slot(2).phase, region.slot(2).cause) == (Phase.READY, "withdrawn")
        assert len(region.serving()) == 4
        region.answer_at(2)
        await until(lambda: 2 in region.serving(), region.server.clock, 2 * HABITS.retry_most_ms)

    all_serve(story, 5)


def test_one_answer_in_between_is_enough_to_stay() -> None:
    async def story(_world: World, region: EndpointWorld) -> None:
        for _ in range(8):
            region.hang_up(0)
            await region.server.clock.sleep(HABITS.again_ms + 100)
            region.answer_at(0)
            await region.server.clock.sleep(HABITS.again_ms + 100)
        assert region.serving() == [0, 1]
        assert counted(region, "endpoints_asked", result="failed") > 5

    all_serve(story, 2)


def test_when_most_fail_at_once_nothing_is_withdrawn() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.hang_up(*range(4))
        await region.server.clock.sleep(120_000)
        assert len(region.serving()) == 5
        assert counted(region, "endpoints_withheld") > 0
        region.answer_at(*range(3))
        await until(lambda: region.serving() == [0, 1, 2, 4], region.server.clock, 60_000)

    all_serve(story, 5)


def test_in_a_small_region_two_that_fail_are_two_that_fail() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        region.hang_up(0, 1)
        await until(lambda: region.serving() == [], region.server.clock, 60_000)

    all_serve(story, 2)


def test_very_many_are_asked_no_faster_than_so_many_in_a_second() -> None:
    async def story(_: World, region: EndpointWorld) -> None:
        await region.server.clock.sleep(60_000)
        asked = [at for at, _ in region.town.asked]
        assert len(asked) <= 61 * 10 + 10
        assert max(sum(first <= at < first + 1_000 for at in asked) for first in asked[:: len(asked) // 20]) <= 21

    all_serve(story, 100, EndpointOptions(workers=4, again_per_second=10))
