"""The simulated driver on virtual time: it behaves as the port says, and takes no time of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.agent.drivers.driver import CannotStart, ExitReason, RunSpec, RunStatus, StartFault
from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver, SimulatedMachine
from holdfast.core.agent.processes import ProcessState
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.processes.process_world import BINDING, found, until


class Stage:
    """A machine on virtual time, and its agents' drivers."""

    def __init__(self, habit: SimulatedBehavior) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.machine = SimulatedMachine(self.clock, lambda work: habit)

    async def agent(self) -> SimulatedDriver:
        driver = SimulatedDriver(self.machine)
        await driver.open()
        return driver

    def work(self, *, lease_ms: int = 0) -> RunSpec:
        deadline = self.clock.boot() + lease_ms if lease_ms else 0
        return RunSpec(*BINDING, "web/eu/0", ("serve",), leased=bool(lease_ms), deadline=deadline, grace_ms=1_000)


def play(story: Callable[[Stage], Awaitable[None]], habit: SimulatedBehavior | None = None) -> None:
    async def main() -> None:
        await story(Stage(habit or SimulatedBehavior()))

    run_virtual(main())


async def ended(driver: SimulatedDriver) -> RunStatus:
    return await until(driver, ProcessState.ENDED, limit=1_000)


def test_it_takes_its_time_to_start_and_ends_with_its_code() -> None:
    async def story(stage: Stage) -> None:
        driver, began = await stage.agent(), stage.clock.boot()
        await driver.start(stage.work())
        assert stage.clock.boot() == began + 250
        live = await ended(driver)
        assert stage.clock.boot() == began + 250 + 5_000
        assert (live.code, live.why) == (3, ExitReason.EXIT)
        await driver.forget(*BINDING)
        assert driver.runs() == []

    play(story, SimulatedBehavior(start_ms=250, runs_ms=5_000, code=3))


def test_it_ends_when_asked_in_its_own_time() -> None:
    async def story(stage: Stage) -> None:
        driver = await stage.agent()
        await driver.start(stage.work())
        await driver.stop(*BINDING, 1_000)
        asked = stage.clock.boot()
        assert (await until(driver, ProcessState.STOPPING)).why is ExitReason.STOPPED
        assert (await ended(driver)).why is ExitReason.STOPPED
        assert stage.clock.boot() == asked + 400

    play(story, SimulatedBehavior(stop_ms=400))


def test_a_stubborn_one_is_killed_after_its_grace() -> None:
    async def story(stage: Stage) -> None:
        driver = await stage.agent()
        await driver.start(stage.work())
        await driver.stop(*BINDING, 1_000)
        await driver.stop(*BINDING, 9_000)
        asked = stage.clock.boot()
        live = await ended(driver)
        assert (live.signal, live.why, stage.clock.boot()) == (9, ExitReason.KILLED, asked + 1_000)

    play(story, SimulatedBehavior(stop_ms=60_000))


def test_leased_work_ends_at_its_deadline_and_lives_while_it_is_extended() -> None:
    async def story(stage: Stage) -> None:
        driver, began = await stage.agent(), stage.clock.boot()
        await driver.start(stage.work(lease_ms=10_000))
        for _ in range(4):
            await stage.clock.sleep(5_000)
            driver.extend(stage.clock.boot() + 10_000)
        driver.extend(began)
        live = await until(driver, ProcessState.STOPPING, limit=1_000)
        assert (live.why, stage.clock.boot()) == (ExitReason.DEADLINE, began + 30_000)
        driver.extend(began + 90_000)
        assert (await ended(driver)).deadline == began + 30_000
        assert stage.clock.boot() == began + 31_000

    play(story, SimulatedBehavior(stop_ms=60_000))


def test_what_runs_is_found_by_the_next_agent_and_gone_when_the_power_is() -> None:
    async def story(stage: Stage) -> None:
        first = await stage.agent()
        await first.start(stage.work())
        await first.close()
        second = await stage.agent()
        assert [live.state for live in second.runs()] == [ProcessState.RUNNING]
        stage.machine.lose_power()
        third = await stage.agent()
        assert [(live.state, live.why) for live in third.runs()] == [(ProcessState.ENDED, ExitReason.REBOOTED)]

    play(story)


def test_what_cannot_start_says_so_and_leaves_nothing() -> None:
    async def story(stage: Stage) -> None:
        driver = await stage.agent()
        with pytest.raises(CannotStart) as told:
            await driver.start(stage.work())
        assert told.value.code is StartFault.MISSING_BINARY
        assert found(driver) is None

    play(story, SimulatedBehavior(fault=StartFault.MISSING_BINARY))


def test_a_binding_is_started_once() -> None:
    async def story(stage: Stage) -> None:
        driver = await stage.agent()
        await driver.start(stage.work())
        with pytest.raises(CannotStart, match="is there already"):
            await driver.start(stage.work())

    play(story)
