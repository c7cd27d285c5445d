"""The work queue: each key once, never twice at a time, none lost; and the pace at which it gives them out."""

import asyncio

import pytest

from holdfast.host.controllers.workqueue import RESYNC_SHARE, STALE_MAX, QueueOptions, WorkQueue
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


def clock_here() -> VirtualClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return VirtualClock(loop)


def a_queue(name: str = "replica", seed: int = 0, **pace: int) -> WorkQueue:
    return WorkQueue(clock_here(), name, seed=seed, options=QueueOptions(**pace))


async def drained(queue: WorkQueue) -> list[object]:
    """The keys that can be taken now, each done at once."""
    keys: list[object] = []
    while queue.depth() + queue.patrol_depth():
        keys.append((await queue.take()).key)
        queue.done(keys[-1])
    return keys


def test_keys_come_in_the_order_in_which_they_were_first_asked_for() -> None:
    async def story() -> None:
        queue = a_queue()
        for key in ("b", "a", "b", ("slot", 7), "a"):
            queue.add(key)
        assert queue.depth() == 3
        assert await drained(queue) == ["b", "a", ("slot", 7)]

    run_virtual(story())


def test_a_key_is_not_given_out_while_it_is_worked_on_and_comes_again_afterwards() -> None:
    async def story() -> None:
        queue = a_queue()
        queue.add("a")
        assert (await queue.take()).key == "a"
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert (await queue.take()).key == "b"
        queue.done("a")
        assert (await queue.take()).key == "a"
        queue.done("a")
        assert queue.depth() == 0

    run_virtual(story())


def test_of_two_delays_the_earlier_counts() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        began = clock.boot()
        queue.add_after("a", 500)
        queue.add_after("a", 200)
        queue.add_after("a", 900)
        assert (await queue.take()).key == "a"
        assert clock.boot() - began == 200
        queue.done("a")
        await clock.sleep(2_000)
        assert queue.depth() == 0

    run_virtual(story())


def test_a_delay_that_is_over_and_was_not_seen_yet_does_not_swallow_the_next() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        began = clock.boot()
        queue.add("a")
        await queue.take()
        queue.add_after("a", 10)
        await clock.sleep(11)
        queue.add_after("a", 100)
        queue.done("a")
        assert await drained(queue) == ["a"]
        assert (await queue.take()).key == "a"
        assert clock.boot() - began == 111

    run_virtual(story())


def test_alarms_do_not_pile_up_of_keys_that_are_to_be_looked_at_soon_and_then_in_an_hour() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        for _ in range(500):
            for key in ("a", "b"):
                queue.add_after(key, 3_600_000)
                queue.add_after(key, 100)
            await clock.sleep(100)
            assert await drained(queue) == ["a", "b"]
        assert len(queue._alarms) <= 2 * 2 + STALE_MAX + 1
        queue.add_after("a", 1_000)
        began = clock.boot()
        assert (await queue.take()).key == "a"
        assert clock.boot() - began == 1_000

    run_virtual(story())


def test_whoever_waits_for_a_late_key_is_given_an_earlier_one() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        began = clock.boot()
        queue.add_after("late", 10_000)
        taking = asyncio.create_task(queue.take())
        await clock.sleep(50)
        queue.add_after("early", 100)
        assert (await taking).key == "early"
        assert clock.boot() - began == 150

    run_virtual(story())


def test_a_delayed_key_that_comes_due_while_it_is_worked_on_comes_again() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        queue.add("a")
        await queue.take()
        queue.add_after("a", 100)
        await clock.sleep(200)
        assert (queue.depth(), queue.lag_ms()) == (1, 100)
        queue.done("a")
        assert await drained(queue) == ["a"]

    run_virtual(story())


def test_a_cancelled_taker_takes_no_key_with_it() -> None:
    async def story() -> None:
        queue = a_queue()
        taking = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.add("a")
        taking.cancel()
        await asyncio.wait((taking,))
        assert (await queue.take()).key == "a"

    run_virtual(story())


def backoffs(key: object, *, seed: int = 0, name: str = "replica", times: int = 12) -> list[int]:
    async def story() -> list[int]:
        queue = a_queue(name, seed, backoff_first_ms=100, backoff_max_ms=60_000)
        return [queue.retry(key) for _ in range(times)]

    return run_virtual(story())


def test_each_failure_waits_about_twice_as_long_up_to_the_most() -> None:
    for attempt, wait in enumerate(backoffs("a"), start=1):
        most = min(60_000, 100 * 2 ** (attempt - 1))
        assert most // 2 <= wait <= most


def test_back_off_is_the_same_in_every_run_and_differs_by_seed_controller_and_key() -> None:
    assert backoffs("a", seed=3) == backoffs("a", seed=3)
    different = [backoffs("a"), backoffs("b"), backoffs("a", seed=1), backoffs("a", name="repair"), backoffs(("a",))]
    assert len({tuple(waits) for waits in different}) == len(different)


def test_a_key_that_is_well_again_begins_with_the_shortest_wait() -> None:
    async def story() -> None:
        queue = a_queue()
        first = queue.retry("a")
        queue.retry("a")
        assert queue.attempts("a") == 2
        queue.forget("a")
        assert (queue.attempts("a"), queue.retry("a")) == (0, first)

    run_virtual(story())


def test_the_pace_allows_a_burst_and_then_so_many_a_second() -> None:
    async def story() -> None:
        queue, clock = a_queue(per_second=10, burst=5), clock_here()
        for key in range(25):
            queue.add(key)
        began, times = clock.boot(), []
        for _ in range(25):
            queue.done((await queue.take()).key)
            times.append(clock.boot() - began)
        assert times == [0] * 5 + [100 * n for n in range(1, 21)]

    run_virtual(story())


def test_unused_pace_is_saved_up_to_one_burst_and_no_more() -> None:
    async def story() -> None:
        queue, clock = a_queue(per_second=10, burst=3), clock_here()
        await clock.sleep(60_000)
        for key in range(5):
            queue.add(key)
        began, times = clock.boot(), []
        for _ in range(5):
            queue.done((await queue.take()).key)
            times.append(clock.boot() - began)
        assert times == [0, 0, 0, 100, 200]

    run_virtual(story())


def test_lag_is_the_age_of_what_waits_longest() -> None:
    async def story() -> None:
        queue, clock = a_queue(), clock_here()
        assert queue.lag_ms() == 0
        queue.add("a")
        await clock.sleep(300)
        queue.add("b")
        queue.add("a")
        assert (queue.lag_ms(), queue.depth()) == (300, 2)
        taken = await queue.take()
        assert (taken.key, taken.waited_ms, queue.lag_ms()) == ("a", 300, 0)
        queue.add("a")
        await clock.sleep(50)
        assert (queue.lag_ms(), queue.depth()) == (50, 2)

    run_virtual(story())


def test_what_a_patrol_asks_for_comes_after_what_others_ask_for() -> None:
    async def story() -> None:
        queue = a_queue()
        queue.add_resync("p1")
        queue.add_resync("p2")
        queue.add("a")
        queue.add("p2")
        assert (queue.depth(), queue.patrol_depth()) == (2, 1)
        taken = [await queue.take() for _ in range(3)]
        assert [(one.key, one.is_resync) for one in taken] == [("a", False), ("p2", False), ("p1", True)]

    run_virtual(story())


def test_a_patrol_gets_its_share_of_a_queue_that_is_never_empty() -> None:
    async def story() -> None:
        queue = a_queue()
        queue.add_resync("missed")
        keys: list[object] = []
        for number in range(RESYNC_SHARE):
            queue.add(number)
            keys.append((await queue.take()).key)
        assert keys == [*range(RESYNC_SHARE - 1), "missed"]

    run_virtual(story())


@pytest.mark.parametrize("asked", [True, False])
def test_a_key_on_patrol_that_comes_again_is_still_on_patrol_unless_somebody_asked(asked: bool) -> None:
    async def story() -> None:
        queue = a_queue()
        queue.add_resync("a")
        await queue.take()
        queue.add_resync("a")
        if asked:
            queue.add("a")
        queue.add_resync("a")
        queue.done("a")
        assert (await queue.take()).is_resync is not asked

    run_virtual(story())


def test_only_a_key_that_was_taken_can_be_done() -> None:
    async def story() -> None:
        with pytest.raises(AssertionError, match="was not taken"):
            a_queue().done("a")

    run_virtual(story())


def test_a_queue_is_idle_while_no_key_is_in_line_none_is_due_and_none_is_to_be_worked_on_once_more() -> None:
    async def story() -> None:
        queue = a_queue()
        assert queue.is_idle()
        queue.add("a")
        assert not queue.is_idle()
        await queue.take()
        assert queue.is_idle(), "what is being worked on does not wait"
        queue.add("a")
        assert not queue.is_idle()
        queue.done("a")
        assert await drained(queue) == ["a"]
        queue.add_after("b", 100)
        assert queue.is_idle()
        await asyncio.sleep(0.1)
        assert not queue.is_idle(), "its time has come, whether somebody looks or not"
        queue.add_resync("c")
        assert set(await drained(queue)) == {"b", "c"}

    run_virtual(story())
