"""The workers of a queue: one task for each key that has to wait, and no idle tasks.

    queue ──▶ take ──▶ handle ──▶ done at once
                           └────▶ the rest in a task of its own, at most N at a time ──▶ done

Most keys need no waiting, and a fixed set of worker tasks would cost time in every term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.host.controllers.workqueue import Key, WorkItem, WorkQueue
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import ClockEvent

#: Does what can be done at once; returns the rest, if any.
Handle = Callable[[WorkItem], Coroutine[Any, Any, None] | None]


class WorkerPool:
    """Works on one queue. One `run` at a time; its tasks end with it."""

    def __init__(self, clock: Clock, queue: WorkQueue, most: int, handle: Handle) -> None:
        assert most > 0, most
        self._clock = clock
        self._queue = queue
        self._most = most
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = ClockEvent()
        self._main: asyncio.Task[Any] | None = None
        self._fault: BaseException | None = None

    async def run(self) -> None:
        """Work on keys, several at a time, until cancelled. No key is lost at the end.

        An unexpected exception is an internal error and is raised; the supervisor restarts the pool.
        """
        main = self._main = asyncio.current_task()
        assert main is not None, "only a task can work"
        try:
            await self._work()
        except asyncio.CancelledError:
            fault, self._fault = self._fault, None
            if fault is None or main.uncancel():  # an outside cancellation came, too
                raise
            raise fault from None
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _work(self) -> None:
        while True:
            while len(self._tasks) >= self._most:
                self._room.clear()
                await self._room.wait()
            self._begin(await self._queue.take())
            if self._queue.has_next():  # without waits a long queue would block the loop
                await self._clock.sleep(0)

    def _begin(self, taken: WorkItem) -> None:
        rest = None
        try:
            rest = self._handle(taken)
        except BaseException:
            self._queue.retry(taken.key)
            raise
        finally:
            if rest is None:
                self._queue.done(taken.key)
        if rest is not None:
            task = asyncio.create_task(self._see_through(taken.key, rest))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _see_through(self, key: Key, rest: Coroutine[Any, Any, None]) -> None:
        try:
            await rest
        except BaseException:
            self._queue.retry(key)
            raise
        finally:
            self._queue.done(key)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()
        if self._fault is None and not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            assert self._main is not None
            self._main.cancel()
