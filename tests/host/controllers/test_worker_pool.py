"""A crew: keys that need nothing cost no task, so many others are worked on at a time, and none is lost or stuck."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from holdfast.host.controllers.worker_pool import WorkerPool
from holdfast.host.controllers.workqueue import Key, WorkItem, WorkQueue
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


class Shop:
    """A queue, a crew of three, and what it did."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.queue = WorkQueue(clock, "shop")
        self.done: list[Key] = []
        self.broken: set[Key] = set()
        self.at_once = self.most_at_once = self.tasks = 0
        self.crew = WorkerPool(clock, self.queue, 3, self.handle)

    def handle(self, taken: WorkItem) -> Coroutine[Any, Any, None] | None:
        if taken.key in self.broken:
            raise KeyError(taken.key)
        if str(taken.key).startswith("slow"):
            return self.wait(taken.key)
        self.done.append(taken.key)
        self.tasks = max(self.tasks, len(asyncio.all_tasks()))
        return None

    async def wait(self, key: Key) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.clock.sleep(100)
            if key in self.broken:
                raise KeyError(key)
            self.done.append(key)
        finally:
            self.at_once -= 1


def played(story: Callable[[Shop], Awaitable[None]]) -> None:
    async def begin() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        shop = Shop(VirtualClock(loop))
        running = asyncio.create_task(shop.crew.run())
        try:
            await story(shop)
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert asyncio.all_tasks() == {asyncio.current_task()}, "what it began ends with it"
        assert shop.at_once == 0

    run_virtual(begin())


def test_what_needs_nothing_is_done_in_its_order_without_a_task() -> None:
    async def story(shop: Shop) -> None:
        for key in "abc":
            shop.queue.add(key)
        await shop.clock.sleep(1)
        assert shop.done == ["a", "b", "c"]
        assert shop.tasks == 2, "the crew, and this story"

    played(story)


def test_so_many_are_worked_on_at_a_time_and_the_others_after_them() -> None:
    async def story(shop: Shop) -> None:
        for number in range(7):
            shop.queue.add(f"slow-{number}")
        await shop.clock.sleep(350)
        assert len(shop.done) == 7
        assert shop.most_at_once == 3

    played(story)


@pytest.mark.parametrize("broken", ["broken", "slow-broken"])
def test_a_fault_of_ours_ends_the_crew_with_what_it_has_begun_and_no_key_is_lost(broken: str) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        shop = Shop(VirtualClock(loop))
        shop.broken = {broken}
        for key in (broken, "slow-other", "well"):
            shop.queue.add(key)
        with pytest.raises(KeyError, match=broken):
            await shop.crew.run()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        shop.broken = set()
        running = asyncio.create_task(shop.crew.run())
        await shop.clock.sleep(1_000)
        assert sorted(map(str, shop.done)) == sorted([broken, "slow-other", "well"])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtual(story())


def test_a_key_at_hand_when_a_crew_is_ended_is_worked_on_by_the_next_one() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        shop = Shop(VirtualClock(loop))
        shop.queue.add("slow-one")
        for runs_ms in (50, 500):
            running = asyncio.create_task(shop.crew.run())
            await shop.clock.sleep(runs_ms)
            assert shop.done == (["slow-one"] if runs_ms == 500 else [])
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run_virtual(story())


def test_a_lone_key_costs_no_turn_for_others_and_a_line_of_them_one_each() -> None:
    async def story(shop: Shop) -> None:
        slept = 0
        sleep = shop.clock.sleep

        async def counted(duration: int) -> None:
            nonlocal slept
            slept += 1
            await sleep(duration)

        shop.clock.sleep = counted  # type: ignore[method-assign]
        working = asyncio.create_task(shop.crew.run())
        await sleep(10)
        shop.queue.add("one")
        await sleep(10)
        assert (shop.done, slept) == (["one"], 0)
        for key in ("two", "three", "four"):
            shop.queue.add(key)
        await sleep(10)
        assert (shop.done[1:], slept) == (["two", "three", "four"], 2)
        working.cancel()

    played(story)
