"""Every long-lived task of a host, by name: restarted when it fails, and given up when it keeps failing (RULES 21).

    start ──▶ running ──▶ failed ──back-off──▶ running        third failure within the window ──▶ on_give_up
                     └──▶ ended, if it was started with `once`

A task that ends without having been asked to has failed too: nobody would notice that its work is no longer done.
Giving up ends this task only. What then becomes of the process is decided by whoever built it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import exponential
from holdfast.host.runtime.deadlines import DeadlinePassed, is_being_cancelled, within
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Makes the work of a task anew for each start.
Factory = Callable[[], Coroutine[Any, Any, None]]
OnGiveUp = Callable[[str, BaseException], None]


class EndedEarly(Exception):
    """A task that should have gone on came to its end."""


class RestartLimits(Struct, frozen=True):
    """How many failures within which time are too many, how long to wait between them, and for a task to stop."""

    failures: int = 3
    window_ms: int = 60_000
    backoff_first_ms: int = 200
    backoff_max_ms: int = 5_000
    stop_ms: int = 10_000


def _only_count(name: str, error: BaseException) -> None:
    """Nobody asked to be told."""


class Supervisor:
    """The tasks of one part of a host. When it has stopped, none of them is left."""

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
        """Keep this work going under this name until `stop`; or, if `once`, until it ends without an error."""
        assert not self._stopped, f"{name} was started after the stop"
        assert name not in self._tasks, f"{name} is running already"
        task = self._tasks[name] = asyncio.create_task(self._keep(name, factory, once), name=name)
        task.add_done_callback(self._ended)
        self._metrics.gauge("task_running", 1, task=name)

    def running(self) -> list[str]:
        """The names of the tasks that are kept going, in the order of their start."""
        return list(self._tasks)

    async def stop(self) -> None:
        """Cancel the tasks, the youngest first, each after the one before has ended. Not to be called by one of them.

        A task that does not end is named and cancelled again, and waited for: a task left behind would go on acting.
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
        """How the task failed, or None when it ended as it should."""
        try:
            await factory()
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            return error  # something it waited for was cancelled: that is its failure, and no wish of ours
        except Exception as error:
            return error
        return None if once else EndedEarly(f"{name} ended, and should have gone on")

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
        if error is not None:  # a mistake in here: it must not pass in silence
            self._give_up(name, error)
