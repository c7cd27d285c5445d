"""Supervised tasks: restarted when they fail, given up when they keep failing, none left behind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.host.runtime.supervisor import EndedEarly, Factory, RestartLimits, Supervisor
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual


class Watch:
    """A supervisor on virtual time, and what it did."""

    def __init__(self, **patience: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.metrics = Metrics()
        self.gave_up: list[tuple[str, BaseException]] = []
        self.supervisor = Supervisor(
            self.clock,
            self.metrics,
            Logger("test"),
            on_give_up=lambda name, error: self.gave_up.append((name, error)),
            limits=RestartLimits(**patience),
        )
        self.log: list[str] = []

    def task(self, name: str, *, fails: int = 0, after_ms: int = 0) -> Factory:
        left = [fails]

        async def work() -> None:
            self.log.append(f"{name} begins")
            try:
                await self.clock.sleep(after_ms)
                if left[0]:
                    left[0] -= 1
                    raise ValueError(f"{name} broke")
                await self.clock.sleep(10_000_000)
            except asyncio.CancelledError:
                await self.clock.sleep(100)
                self.log.append(f"{name} stopped")
                raise

        return work


def on_watch(story: Callable[[Watch], Awaitable[None]], **patience: int) -> None:
    async def main() -> None:
        watch = Watch(**patience)
        await story(watch)
        await watch.supervisor.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    run_virtual(main())


def test_a_task_that_raises_is_named_counted_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(watch: Watch) -> None:
        watch.supervisor.start("link", watch.task("link", fails=2))
        await watch.clock.sleep(1_000)
        assert watch.log == ["link begins"] * 3
        assert watch.metrics.counted("task_restarts", task="link") == 2
        assert watch.metrics.gauged("task_running", task="link") == 1
        assert watch.gave_up == []

    on_watch(story)
    assert "task-failed task=link times=1 again_after_ms=200" in caplog.text
    assert "ValueError: link broke" in caplog.text


def test_a_task_that_ends_although_it_should_go_on_has_failed() -> None:
    async def story(watch: Watch) -> None:
        async def end() -> None:
            pass

        watch.supervisor.start("link", end)
        await watch.clock.sleep(10_000)
        assert [(name, type(error)) for name, error in watch.gave_up] == [("link", EndedEarly)]

    on_watch(story)


def test_a_task_that_may_end_ends_in_peace_and_its_name_is_free() -> None:
    async def story(watch: Watch) -> None:
        async def load() -> None:
            await watch.clock.sleep(10)
            watch.log.append("loaded")

        for _ in range(2):
            watch.supervisor.start("load", load, once=True)
            await watch.clock.sleep(1_000)
            assert watch.supervisor.running() == []
        assert watch.log == ["loaded", "loaded"]
        assert (watch.gave_up, watch.metrics.counted("task_restarts", task="load")) == ([], 0)

    on_watch(story)


def test_a_task_that_may_end_is_still_started_again_when_it_raises() -> None:
    async def story(watch: Watch) -> None:
        tries = iter([ValueError("no"), None])

        async def load() -> None:
            error = next(tries)
            if error:
                raise error

        watch.supervisor.start("load", load, once=True)
        await watch.clock.sleep(1_000)
        assert watch.metrics.counted("task_restarts", task="load") == 1
        assert watch.supervisor.running() == []

    on_watch(story)


def test_three_failures_within_the_window_are_given_up_and_somebody_is_told() -> None:
    async def story(watch: Watch) -> None:
        watch.supervisor.start("link", watch.task("link", fails=100))
        watch.supervisor.start("other", watch.task("other"))
        await watch.clock.sleep(60_000)
        assert watch.log.count("link begins") == 3
        assert [(name, str(error)) for name, error in watch.gave_up] == [("link", "link broke")]
        assert watch.metrics.counted("task_gave_up", task="link") == 1
        assert watch.supervisor.running() == ["other"]

    on_watch(story)


def test_failures_that_lie_further_apart_than_the_window_are_never_too_many() -> None:
    async def story(watch: Watch) -> None:
        watch.supervisor.start("link", watch.task("link", fails=8, after_ms=600))
        await watch.clock.sleep(60_000)
        assert watch.log.count("link begins") == 9
        assert watch.gave_up == []

    on_watch(story, window_ms=1_000)


def test_a_task_that_nobody_asked_to_stop_and_that_is_cancelled_from_within_has_failed() -> None:
    async def story(watch: Watch) -> None:
        async def wait_for_somebody() -> None:
            watch.log.append("waits")
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(answer.cancel)
            await answer

        watch.supervisor.start("link", wait_for_somebody)
        await watch.clock.sleep(250)
        assert watch.log == ["waits", "waits"]

    on_watch(story)


def test_tasks_are_stopped_one_by_one_the_youngest_first() -> None:
    async def story(watch: Watch) -> None:
        for name in ("store", "leader", "api"):
            watch.supervisor.start(name, watch.task(name))
        await watch.clock.sleep(10)
        began = watch.clock.boot()
        watch.log.clear()
        await watch.supervisor.stop()
        assert watch.log == ["api stopped", "leader stopped", "store stopped"]
        assert watch.clock.boot() - began == 300
        assert watch.supervisor.running() == []

    on_watch(story)


def test_a_task_in_its_back_off_and_one_that_never_began_are_stopped_too() -> None:
    async def story(watch: Watch) -> None:
        watch.supervisor.start("link", watch.task("link", fails=1))
        await watch.clock.sleep(50)
        watch.supervisor.start("late", watch.task("late"))
        await watch.supervisor.stop()
        assert watch.log == ["link begins"]
        assert watch.supervisor.running() == []

    on_watch(story)


def test_a_task_that_will_not_stop_is_named_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story(watch: Watch) -> None:
        async def stubborn() -> None:
            for _ in range(3):
                try:
                    await watch.clock.sleep(10_000_000)
                except asyncio.CancelledError:
                    watch.log.append("no")

        watch.supervisor.start("stubborn", stubborn, once=True)
        await watch.clock.sleep(10)
        await watch.supervisor.stop()
        assert watch.log == ["no", "no", "no"]
        assert watch.metrics.counted("task_will_not_stop", task="stubborn") == 2

    on_watch(story, stop_ms=500)
    assert "task-will-not-stop task=stubborn" in caplog.text


def test_whoever_cannot_be_told_of_it_does_not_hide_that_a_task_was_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def story(watch: Watch) -> None:
        def deaf(name: str, error: BaseException) -> None:
            raise RuntimeError("deaf")

        supervisor = Supervisor(watch.clock, watch.metrics, Logger("test"), on_give_up=deaf)
        supervisor.start("link", watch.task("link", fails=3))
        await watch.clock.sleep(10_000)
        assert supervisor.running() == []
        await supervisor.stop()

    on_watch(story)
    assert "task-given-up task=link failures=3" in caplog.text
    assert "give-up-untold task=link" in caplog.text
