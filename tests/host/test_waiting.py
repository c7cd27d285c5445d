"""Waiting with an end: what was waited for is done, late or abandoned, and never left running."""

import asyncio

import pytest

from holdfast.host.waiting import Abandoned, DeadlinePassed, together, within
from holdfast.sim.loop import VirtualClock, VirtualLoop, run_virtual


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


def test_of_several_that_end_at_once_the_first_is_raised() -> None:
    async def story() -> None:
        async def fails(number: int) -> None:
            await asyncio.sleep(0)
            raise KeyError(number)

        for _ in range(5):
            with pytest.raises(KeyError, match="0"):
                await together(*(fails(number) for number in range(20)))

    run_virtual(story())
