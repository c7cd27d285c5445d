"""All long-lived tasks of a host, by name: restarted when they fail, given up when they keep failing (RULES 21).

    start ──▶ running ──▶ failed ──back-off──▶ running        third failure within the window ──▶ on_give_up
                     └──▶ ended, if it was started with `once`

A task that ends by itself has failed too. Giving up ends this task only; the creator of the supervisor decides about
the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.host.errors import Stopped
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import exponential
from holdfast.host.runtime.deadlines import DeadlinePassed, is_being_cancelled, within
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Creates the work of a task for each start.
Factory = Callable[[], Coroutine[Any, Any, None]]
OnGiveUp = Callable[[str, BaseException], None]


class EndedEarly(Exception):
    """A task that must not end has ended."""


class RestartLimits(Struct, frozen=True):
    """Failures per window until a task is given up, the back-off of restarts, and the time for a stop."""

    failures: int = 3
    window_ms: int = 60_000
    backoff_first_ms: int = 200
    backoff_max_ms: int = 5_000
    stop_ms: int = 10_000


def _only_count(name: str, error: BaseException) -> None:
    """The default callback: nothing else to do."""


class Supervisor:
    """The tasks of one part of a host. After `stop`, none of them is left."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        logger: Logger,
        *,
        on_give_up: OnGiveUp = _only_count,
        limits: RestartLimits | None = None,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._on_give_up = on_give_up
        self._patience = limits or RestartLimits()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def start(self, name: str, factory: Factory, *, once: bool = False) -> None:
        """Run this work until `stop`; with `once`, until it ends without an error."""
        assert not self._stopped, f"{name} was started after the stop"
        assert name not in self._tasks, f"{name} is running already"
        task = self._tasks[name] = asyncio.create_task(self._keep(name, factory, once), name=name)
        task.add_done_callback(self._ended)
        self._metrics.gauge("task_running", 1, task=name)

    def running(self) -> list[str]:
        """Return the running tasks, in the order of their start."""
        return list(self._tasks)

    async def stop(self) -> None:
        """Cancel the tasks, the youngest first, each after the previous one has ended. No task may call this for
        itself.

        A task that does not end is logged, cancelled again and waited for: otherwise it would continue to act.
        """
        self._stopped = True
        try:
            for name, task in reversed(list(self._tasks.items())):
                assert task is not asyncio.current_task(), f"{name} cannot wait for its own end"
                await self._end(name, task)
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _end(self, name: str, task: asyncio.Task[None]) -> None:
        while not task.done():
            task.cancel()
            try:
                await within(self._clock, self._patience.stop_ms, asyncio.wait((task,)))
            except DeadlinePassed:
                self._metrics.count("task_will_not_stop", task=name)
                self._logger.warning("task-will-not-stop", task=name, waited_ms=self._patience.stop_ms)

    async def _keep(self, name: str, factory: Factory, once: bool) -> None:
        failed_at: list[int] = []
        while (error := await self._run(name, factory, once)) is not None:
            now = self._clock.boot()
            failed_at = [at for at in failed_at if at > now - self._patience.window_ms] + [now]
            if len(failed_at) >= self._patience.failures:
                self._give_up(name, error)
                return
            pause = exponential(self._patience.backoff_first_ms, self._patience.backoff_max_ms, len(failed_at))
            self._metrics.count("task_restarts", task=name)
            self._logger.error("task-failed", error, task=name, times=len(failed_at), again_after_ms=pause)
            await self._clock.sleep(pause)

    async def _run(self, name: str, factory: Factory, once: bool) -> BaseException | None:
        """Return how the task failed, or None if it ended as it should."""
        try:
            await factory()
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            return error  # something that it awaited was cancelled: a failure, not a stop
        except Exception as error:
            return error
        return None if once else EndedEarly(f"{name} ended without a stop")

    def _give_up(self, name: str, error: BaseException) -> None:
        self._metrics.count("task_gave_up", task=name)
        self._logger.error("task-given-up", error, task=name, failures=self._patience.failures)
        try:
            self._on_give_up(name, error)
        except Exception as worse:
            self._logger.error("give-up-untold", worse, task=name)

    def _ended(self, task: asyncio.Task[None]) -> None:
        name = task.get_name()
        del self._tasks[name]
        self._metrics.gauge("task_running", 0, task=name)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # an internal error: it must not stay unnoticed
            self._give_up(name, error)


SideTask = Callable[[], Coroutine[Any, Any, None]]


async def run_with_side_tasks(
    main: Coroutine[Any, Any, None], work: dict[str, SideTask], clock: Clock, metrics: Metrics, logger: Logger
) -> None:
    """Run `main` to its end, with side tasks. Raise `Stopped` if one of them is given up."""
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    supervisor = Supervisor(clock, metrics, logger, on_give_up=lambda name, error: _fail(failed, name, error))
    task = asyncio.create_task(main)
    try:
        for name, factory in work.items():
            supervisor.start(name, _guarded(name, factory, failed))
        either: set[asyncio.Future[Any]] = {task, failed}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            raise failed.result()
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        failed.cancel()
        await supervisor.stop()


def _fail(failed: asyncio.Future[BaseException], name: str, error: BaseException) -> None:
    if not failed.done():
        known = isinstance(error, Stopped | UpgradeNeeded)
        failed.set_result(error if known else Stopped(f"{name} failed repeatedly: {error!r}"))


def _guarded(name: str, work: SideTask, failed: asyncio.Future[BaseException]) -> SideTask:
    """Return the work, not restarted after it raised `Stopped` or `UpgradeNeeded`."""

    async def run() -> None:
        try:
            await work()
        except (Stopped, UpgradeNeeded) as error:
            _fail(failed, name, error)
            await asyncio.Event().wait()

    return run
