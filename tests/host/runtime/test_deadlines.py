"""Waiting with an end: what was waited for is done, late or abandoned, and never left running."""

import asyncio
from contextlib import suppress

import pytest

from holdfast.host.runtime.deadlines import Abandoned, DeadlinePassed, is_being_cancelled, run_until_first, within
from holdfast.sim.world.machine import SimClock
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


def clock_here() -> VirtualClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return VirtualClock(loop)


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def test_what_is_done_in_time_is_given_and_what_it_raises_is_raised() -> None:
    async def story() -> None:
        clock = clock_here()

        async def quick(error: Exception | None) -> str:
            await clock.sleep(5)
            if error:
                raise error
            return "done"

        assert await within(clock, 10, quick(None)) == "done"
        with pytest.raises(KeyError):
            await within(clock, 10, quick(KeyError("no")))
        assert alone()

    run_virtual(story())


def test_what_is_late_has_ended_when_its_caller_hears_of_it() -> None:
    async def story() -> None:
        clock, ended = clock_here(), []

        async def slow() -> None:
            try:
                await clock.sleep(1_000)
            finally:
                await clock.sleep(3)
                ended.append(clock.boot())

        began = clock.boot()
        with pytest.raises(DeadlinePassed):
            await within(clock, 10, slow())
        assert ended == [began + 13]
        assert alone()

    run_virtual(story())


def test_what_somebody_else_cancelled_is_abandoned_and_does_not_look_like_our_own_end() -> None:
    async def story() -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.cancel)
        with pytest.raises(Abandoned):
            await within(clock_here(), 10, answer)
        assert alone()

    run_virtual(story())


@pytest.mark.parametrize("raises", [True, False])
def test_a_caller_that_is_cancelled_takes_what_it_waited_for_with_it(raises: bool) -> None:
    async def story() -> None:
        clock = clock_here()

        async def slow() -> None:
            try:
                await clock.sleep(1_000)
            except asyncio.CancelledError:
                if raises:
                    raise KeyError("while it was ending") from None
                raise

        waiting = asyncio.create_task(within(clock, 500, slow()))
        await clock.sleep(5)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert alone()

    run_virtual(story())


@pytest.mark.parametrize("inner_ms", [5, 10, 20])
def test_of_two_deadlines_each_is_told_to_whoever_set_it(inner_ms: int) -> None:
    async def story() -> None:
        clock, told = clock_here(), []

        async def inner() -> None:
            try:
                await within(clock, inner_ms, clock.sleep(1_000))
            except DeadlinePassed:
                told.append(clock.boot())
            await clock.sleep(1_000)

        began = clock.boot()
        with pytest.raises(DeadlinePassed):
            await within(clock, 10, inner())
        assert clock.boot() == began + 10
        assert told == ([began + 5] if inner_ms == 5 else [])
        assert is_being_cancelled() is False
        await clock.sleep(1)
        assert alone()

    run_virtual(story())


def test_work_that_does_not_let_itself_be_ended_is_late_all_the_same() -> None:
    async def story() -> None:
        clock = clock_here()

        async def stubborn() -> str:
            with suppress(asyncio.CancelledError):
                await clock.sleep(1_000)
            await clock.sleep(7)
            return "done"

        began = clock.boot()
        with pytest.raises(DeadlinePassed):
            await within(clock, 10, stubborn())
        assert clock.boot() == began + 17
        await clock.sleep(1)  # nothing of it is left that would cancel this

    run_virtual(story())


def test_a_caller_that_is_cancelled_when_its_time_is_over_is_cancelled() -> None:
    async def story() -> None:
        clock = clock_here()
        waiting = asyncio.create_task(within(clock, 10, clock.sleep(1_000)))
        await clock.sleep(9)
        clock.alarm(1, waiting.cancel)
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    run_virtual(story())


def test_an_answer_that_came_in_time_wins_over_a_deadline_that_is_looked_at_in_the_same_turn() -> None:
    async def story() -> None:
        clock, loop = clock_here(), asyncio.get_running_loop()

        async def through_a_task(answer: asyncio.Future[str]) -> str:
            async def relay() -> str:
                return await answer

            return await asyncio.create_task(relay())

        for through in (lambda answer: answer, through_a_task):
            answer: asyncio.Future[str] = loop.create_future()
            clock.alarm(10, lambda answer=answer: answer.set_result("in time"))  # type: ignore[misc]
            assert await within(clock, 10, through(answer)) == "in time"

    run_virtual(story())


def test_a_deadline_does_not_cut_short_how_work_that_is_cancelled_ends() -> None:
    async def story() -> None:
        clock, ended = clock_here(), []

        async def slow() -> None:
            try:
                await clock.sleep(1_000)
            finally:
                await clock.sleep(50)
                ended.append(clock.boot())

        began = clock.boot()
        waiting = asyncio.create_task(within(clock, 30, slow()))
        await clock.sleep(10)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        assert ended == [began + 60]

    run_virtual(story())


def test_who_is_cancelled_before_it_waits_is_cancelled() -> None:
    async def story() -> None:
        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await within(clock_here(), 10, asyncio.sleep(0))

        waiting = asyncio.create_task(cancels_itself())
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    run_virtual(story())


def test_on_a_machine_that_stands_still_time_is_over_when_it_goes_on() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, answer = SimClock(loop), loop.create_future()
        loop.call_later(0.005, clock.pause)
        loop.call_later(0.050, clock.resume)
        began = clock.boot()
        with pytest.raises(DeadlinePassed):
            await within(clock, 10, answer)
        assert clock.boot() == began + 50
        loop.call_later(0.005, clock.pause)
        loop.call_later(0.050, clock.resume)
        loop.call_later(0.020, (later := loop.create_future()).set_result, "heard meanwhile")
        assert await within(clock, 10, later) == "heard meanwhile"
        await clock.sleep(100)  # the alarm that was late ends nobody

    run_virtual(story())


def test_of_several_that_end_at_once_the_first_is_raised() -> None:
    async def story() -> None:
        async def fails(number: int) -> None:
            await asyncio.sleep(0)
            raise KeyError(number)

        for _ in range(5):
            with pytest.raises(KeyError, match="0"):
                await run_until_first(*(fails(number) for number in range(20)))

    run_virtual(story())
