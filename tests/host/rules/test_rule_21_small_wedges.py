"""RULES 21: small wedges. Sleepers and supervised tasks; what SQLite does with its files is tested beside it.

Otherwise a key goes to sleep on the very change that would have woken it, or a task dies and nobody notices that its
work is no longer done.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.values.structs import Instant
from holdfast.host.controllers.controller import ControllerOptions
from holdfast.host.runtime.supervisor import Supervisor
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.hosts.thing_ledger import Make, Maker, Things, World

HOUR = 3_600_000
NO_RESYNC = ControllerOptions(resync_ms=100 * HOUR)


class Sleepy(Maker):
    """Looks at all things of one letter together, and wants to sleep for an hour after every look."""

    def keys(self, state: Things) -> Iterable[ReconcileKey]:
        return sorted({name[0] for name in state})

    def wake(self, state: Things, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [str(touched[1])[0]]

    def reconcile(self, state: Things, key: ReconcileKey, now: Instant) -> ReconcileResult:
        self.looks.append((key, now))
        missing = [name for name in sorted(state) if name[0] == key and not state[name]]
        return ReconcileResult(tuple(ProposedCommand(Make(name)) for name in missing), requeue_at=now + HOUR)


@pytest.mark.parametrize("delay_ms", [0, 1, 20, 99, 100, 101, 5_000])
def test_a_change_is_not_slept_through_whenever_it_lands(delay_ms: int) -> None:
    """The sleeper is examined at one view, and its command takes 100 ms: a change may land after the view and before
    the sleep begins. Nothing else would wake the sleeper within the hour."""

    async def story() -> None:
        async with World(maker := Sleepy(), options=NO_RESYNC) as world:
            await world.pass_ms(10)

            async def take_a_while(envelope: Envelope[Any]) -> None:
                await world.pass_ms(100)

            world.ledger.judge = take_a_while
            world.ledger.write("a1")
            await world.pass_ms(delay_ms)
            world.ledger.write("a2")
            await world.pass_ms(1_000)
            assert world.made() == ["a1", "a2"]
            looks = len(maker.looks)
            await world.pass_ms(HOUR // 2)
            assert len(maker.looks) == looks

    run_virtual(story())


def test_a_cure_that_lands_between_the_first_list_and_the_first_change_is_not_lost() -> None:
    async def story() -> None:
        async with World(Sleepy(), options=NO_RESYNC) as world:
            for turn in range(20):
                world.ledger.write(f"a{turn}")
                await asyncio.sleep(0)
            await world.pass_ms(1_000)
            assert len(world.made()) == 20

    run_virtual(story())


def test_a_sleeper_whose_wake_up_was_missed_is_found_by_resync_which_counts_it() -> None:
    async def story() -> None:
        async with World(Sleepy(), options=ControllerOptions(resync_ms=30_000)) as world:
            world.ledger.write("a", made=True)
            await world.pass_ms(1_000)
            world.ledger.write("a", unheard=True)
            await world.pass_ms(31_000)
            assert world.made() == ["a"]
            assert world.metrics.counted("reconcile_caught", controller="maker") == 1

    run_virtual(story())


def test_a_resync_over_sleepers_that_sleep_rightly_counts_nothing() -> None:
    async def story() -> None:
        async with World(maker := Sleepy(), options=ControllerOptions(resync_ms=10_000)) as world:
            for name in "abc":
                world.ledger.write(name)
            await world.pass_ms(100_000)
            assert len(maker.looks) > 20
            assert world.metrics.counted("reconcile_caught", controller="maker") == 0

    run_virtual(story())


def supervisor() -> tuple[Supervisor, VirtualClock, Metrics, list[str]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock, metrics = VirtualClock(loop), Metrics()
    ended: list[str] = []
    watching = Supervisor(clock, metrics, Logger("test"), on_give_up=lambda name, error: ended.append(name))
    return watching, clock, metrics, ended


@pytest.mark.parametrize("dies", ["raises", "returns", "is cancelled from within"])
def test_a_task_that_dies_is_counted_started_again_and_the_third_time_the_process_ends(dies: str) -> None:
    async def story() -> None:
        watching, clock, metrics, ended = supervisor()
        starts: list[int] = []

        async def task() -> None:
            starts.append(clock.boot())
            await clock.sleep(10)
            if dies == "raises":
                raise ValueError("dead")
            if dies == "is cancelled from within":
                raise asyncio.CancelledError

        watching.start("link", task)
        await clock.sleep(60_000)
        first, second, third = starts
        assert 0 < second - first < third - second
        assert metrics.counted("task_restarts", task="link") == 2
        assert ended == ["link"]
        await watching.stop()

    run_virtual(story())


def test_every_task_of_a_runner_is_supervised_and_none_outlives_it() -> None:
    async def story() -> None:
        before = asyncio.all_tasks()
        async with World(maker := Maker(), Maker("other"), options=ControllerOptions(workers=2)) as world:
            started = sorted(task.get_name() for task in asyncio.all_tasks() - before)
            assert started == ["reconcile", "reconcile/maker", "reconcile/measure", "reconcile/other"]
            assert all(world.metrics.gauged("task_running", task=name) == 1 for name in started)
            await world.pass_ms(10)
        assert asyncio.all_tasks() == before
        world.ledger.write("a")
        await world.pass_ms(100_000)
        assert maker.looks == []

    run_virtual(story())
