"""Those who work on the keys of a queue: a task for each key while it waits for somebody else, and none that idles.

    queue ──▶ take ──▶ handle ──▶ done at once
                           └────▶ the rest of it in a task of its own, so many at a time ──▶ done

Most of what is looked at needs nothing. A task for each of many workers would cost its start and its end in every term,
whether there is work or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.host.controllers.workqueue import Key, WorkItem, WorkQueue
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.clock_event import ClockEvent

#: Does what can be done at once; the rest, if there is any.
Handle = Callable[[WorkItem], Coroutine[Any, Any, None] | None]


class WorkerPool:
    """Works on one queue. `run` it once at a time; what it has begun ends with it."""

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
        """Work on one key after the other, several at a time, for ever. Whatever ends this, no key is lost.

        What is not expected of the work on a key is a fault of ours, and raised: whoever runs this starts it again.
        """
        main = self._main = asyncio.current_task()
        assert main is not None, "only a task can work"
        try:
            await self._work()
        except asyncio.CancelledError:
            fault, self._fault = self._fault, None
            if fault is None or main.uncancel():  # somebody else wants it to end, too
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
            if self._queue.has_next():  # looks that send nothing never wait: a long line of them would stop the host
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
