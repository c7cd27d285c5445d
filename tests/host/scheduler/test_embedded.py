"""Schedulers beside a leader: as many as the server starts, each with a name of its own, all ended with the term."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine

import pytest

from holdfast.core.ledger.reconciler import SCHEDULERS_MAX, scheduler_principal
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.queue.peers import HELP_MS, RUN
from holdfast.host.leader.scheduler_board import SILENT_MS
from holdfast.host.protocol.commands import SchedulerVitals
from holdfast.host.scheduler.embedded import EmbeddedScheduler
from holdfast.host.scheduler.loop import GATHER_MS
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.hosts.mirror_world import MirrorWorld, a_region, bound, keep_nodes, placed_in_log, want

Story = Callable[[World, Part], Coroutine[None, None, None]]


def told(story: Story) -> None:
    """A story of a region with twelve nodes."""

    async def main(world: World) -> None:
        region = await a_region(world, nodes=12, slots=0)
        nodes = asyncio.create_task(keep_nodes(world, region))
        try:
            await story(world, region)
        finally:
            nodes.cancel()

    in_world(main)


def beside(region: Part, count: int) -> list[asyncio.Task[None]]:
    leader = region.ledger.leader
    assert leader is not None
    numbers = range(1, count + 1)
    return [asyncio.create_task(EmbeddedScheduler(region.ledger, BUILT_IN, one).run(leader)) for one in numbers]


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def by(region: Part) -> Counter[str]:
    """Who placed how many."""
    return Counter(slot.by for _, slot in region.state.slots.items() if slot.by)


def conflicts(region: Part) -> int:
    counts = region.ledger.metrics.counts
    return sum(count for (name, _), count in counts.items() if name == "scheduler_conflicts")


@pytest.mark.parametrize("count", [1, 2, 4, SCHEDULERS_MAX])
def test_each_of_them_places_its_part_and_the_ledger_refuses_nothing(count: int) -> None:
    async def story(world: World, region: Part) -> None:
        tasks = beside(region, count)
        await asyncio.sleep(0)
        await want(region, range(1_000))
        await world.until(lambda: len(bound(region)) == 1_000, within_ms=2_000)
        assert sorted(await placed_in_log(region)) == list(range(1_000)), "each was placed once"
        assert conflicts(region) == 0
        placed = by(region)
        assert set(placed) == {scheduler_principal(number) for number in range(1, count + 1)}
        assert max(placed.values()) <= min(placed.values()) + RUN
        await ended(tasks)

    told(story)


def test_several_let_changes_come_together_and_one_alone_does_not() -> None:
    async def story(world: World, region: Part) -> None:
        for count, longest in ((1, 1), (4, 3 * GATHER_MS + 5)):
            tasks = beside(region, count)
            await world.clock.sleep(1_000)
            first, began = len(bound(region)), world.clock.boot()
            await want(region, range(first, first + 1))
            await world.until(lambda: len(bound(region)) == first + 1, within_ms=1_000)  # noqa: B023
            assert world.clock.boot() - began <= longest + 10
            await ended(tasks)

    told(story)


def test_one_that_ends_leaves_its_part_to_the_others_at_once() -> None:
    async def story(world: World, region: Part) -> None:
        tasks = beside(region, 2)
        await world.clock.sleep(100)
        await ended(tasks[:1])
        await want(region, range(100))
        await world.until(lambda: len(bound(region)) == 100, within_ms=500)
        assert by(region) == {scheduler_principal(2): 100}
        await ended(tasks[1:])

    told(story)


def test_one_that_hangs_delays_its_part_only_until_it_has_none() -> None:
    async def story(world: World, region: Part) -> None:
        tasks, began = beside(region, 1), world.clock.boot()
        leader = region.ledger.leader
        assert leader is not None
        hanging = scheduler_principal(2)
        leader.term.schedulers.enter(hanging, lambda: SchedulerVitals("", world.clock.boot() - began, 0))
        await world.clock.sleep(100)
        await want(region, range(200))
        await world.clock.sleep(1_000)
        assert 0 < len(bound(region)) < 200
        await world.until(lambda: len(bound(region)) == 200, within_ms=HELP_MS + 1_500)
        await world.clock.sleep(SILENT_MS)
        await want(region, range(200, 400))
        await world.until(lambda: len(bound(region)) == 400, within_ms=500)
        leader.term.schedulers.leave(hanging)
        await ended(tasks)

    told(story)


def test_they_divide_the_work_with_those_apart() -> None:
    async def story(world: World, region: Part) -> None:
        tasks = beside(region, 2)
        far = [MirrorWorld(world, name, (region.name,)).schedule() for name in ("far", "further")]
        leader = region.ledger.leader
        assert leader is not None
        await world.until(lambda: len(leader.term.schedulers.live()) == 4)
        await world.clock.sleep(4_000)  # everybody hears of everybody with a heartbeat
        await want(region, range(800))
        await world.until(lambda: len(bound(region)) == 800, within_ms=4_000)
        names = ("controller/scheduler", "controller/scheduler-2", "scheduler/far", "scheduler/further")
        assert set(by(region)) == set(names)
        assert sorted(await placed_in_log(region)) == list(range(800)), "each was placed once"
        assert conflicts(region) == 0
        rows = {row.name: row for row in leader.term.schedulers.rows()}
        assert {name: row.placed for name, row in rows.items()} == by(region)
        assert rows["scheduler/far"].where == "far"
        await far[0].end()
        await world.until(lambda: "scheduler/far" not in leader.term.schedulers.live(), within_ms=12_000)
        await far[1].end()
        await ended(tasks)

    told(story)


def test_one_apart_that_is_told_nothing_any_more_delays_its_part_only_until_it_has_none() -> None:
    """Its heartbeats arrive, and its view becomes old."""

    async def story(world: World, region: Part) -> None:
        tasks, far = beside(region, 1), MirrorWorld(world, "far", (region.name,)).schedule()
        leader = region.ledger.leader
        assert leader is not None
        await world.until(lambda: len(leader.term.schedulers.live()) == 2)
        await world.clock.sleep(4_000)
        far.line.fate = lambda _: []
        await want(region, range(200))
        await world.clock.sleep(1_000)
        assert 0 < len(bound(region)) < 200
        await world.until(lambda: len(bound(region)) == 200, within_ms=HELP_MS)
        await world.clock.sleep(SILENT_MS + 4_000)  # it tells of its view with a heartbeat
        await want(region, range(200, 400))
        await world.until(lambda: len(bound(region)) == 400, within_ms=500)
        assert [row.name for row in leader.term.schedulers.rows()] == ["controller/scheduler", "scheduler/far"]
        await far.end()
        await ended(tasks)

    told(story)


def test_a_change_of_leader_ends_all_of_them() -> None:
    async def story(world: World, region: Part) -> None:
        await world.until(region.is_known)
        store, start = region.ledger.store, region.ledger.identity.start
        assert start is not None
        await region.stop()
        again = world.part(region.name, region.ledger.definition, store, start)
        names = [scheduler_principal(number).partition("/")[2] for number in (1, 2, 3)]
        for number, name in enumerate(names, 1):
            again.ledger.leader_tasks[name] = EmbeddedScheduler(again.ledger, BUILT_IN, number).run
        await again.start().leads()
        leader = again.ledger.leader
        assert leader is not None
        await world.until(lambda: len(leader.term.schedulers.live()) == 3)
        running = {task.get_name() for task in asyncio.all_tasks()}
        assert running.issuperset(names)
        await again.stop()
        assert leader.term.schedulers.live() == ()
        assert not {task.get_name() for task in asyncio.all_tasks()}.intersection(names)

    told(story)
