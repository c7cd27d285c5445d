"""A signal: whoever waits goes on when it is set or when the time is over, and nobody is cancelled for it."""

import asyncio
from typing import Any

import pytest

from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.sim.world.machine import SimClock
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


def loop_here() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_whoever_waits_goes_on_when_it_is_set_and_hears_that_it_was() -> None:
    async def story() -> None:
        signal, clock = ClockEvent(), VirtualClock(loop_here())
        clock.alarm(30, signal.set)
        began = clock.boot()
        assert await signal.within(clock, 1_000)
        assert clock.boot() == began + 30
        assert await signal.within(clock, 1_000)  # it stays set until it is cleared
        signal.clear()
        assert not signal.is_set()

    run_virtual(story())


def test_when_the_time_is_over_whoever_waits_goes_on_and_the_signal_is_as_it_was() -> None:
    async def story() -> None:
        signal, clock = ClockEvent(), VirtualClock(loop_here())
        began = clock.boot()
        assert not await signal.within(clock, 40)
        assert clock.boot() == began + 40
        assert not signal.is_set()

    run_virtual(story())


def test_all_who_wait_are_woken_and_whoever_comes_after_it_was_cleared_waits() -> None:
    async def story() -> None:
        signal, clock, woken = ClockEvent(), VirtualClock(loop_here()), []

        async def wait(name: str) -> None:
            await signal.wait()
            woken.append(name)

        tasks = [asyncio.create_task(wait(name)) for name in "abc"]
        await clock.sleep(1)
        signal.set()
        signal.clear()
        late = asyncio.create_task(wait("late"))
        await asyncio.gather(*tasks)
        await clock.sleep(1)
        assert woken == ["a", "b", "c"]
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        signal.set()  # nobody is left who waits

    run_virtual(story())


def test_an_alarm_that_rings_in_the_moment_of_the_signal_hides_nothing() -> None:
    async def story() -> None:
        signal, clock = ClockEvent(), VirtualClock(loop_here())
        waiting = asyncio.create_task(signal.within(clock, 10))
        await clock.sleep(0)
        clock.alarm(10, signal.set)  # due at the same time, and after the alarm
        assert await waiting

    run_virtual(story())


def test_a_paused_machine_does_not_find_its_time_over_before_it_goes_on() -> None:
    async def story() -> None:
        loop = loop_here()
        signal, clock = ClockEvent(), SimClock(loop)
        waiting = asyncio.create_task(signal.within(clock, 10))
        await asyncio.sleep(0)
        clock.pause()
        await asyncio.sleep(1)
        assert not waiting.done()
        clock.resume()
        assert not await waiting

    run_virtual(story())


def test_waiting_until_the_time_is_over_costs_two_callbacks() -> None:
    """The alarm, and the one who waited: there are thousands of them, and mostly nothing happens."""

    async def story() -> int:
        signal, loop, asked = ClockEvent(), loop_here(), 0

        def counted(call: Any) -> Any:
            def count(*args: Any, **named: Any) -> Any:
                nonlocal asked
                asked += 1
                return call(*args, **named)

            return count

        for name in ("call_soon", "call_later", "call_at"):
            setattr(loop, name, counted(getattr(loop, name)))
        await signal.within(VirtualClock(loop), 10)
        return asked

    assert run_virtual(story()) == 2
