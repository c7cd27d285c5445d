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

from holdfast.host.clock import Clock
from holdfast.host.signal import Signal
from holdfast.host.workqueue import Key, Taken, WorkQueue

#: Does what can be done at once; the rest, if there is any.
Handle = Callable[[Taken], Coroutine[Any, Any, None] | None]
#: Told of what went wrong with a key that should not have. Nobody else is held up by it.
Failed = Callable[[Key, Exception], None]


class Crew:
    """Works on one queue. `run` it once at a time; what it has begun ends with it."""

    def __init__(self, clock: Clock, queue: WorkQueue, most: int, handle: Handle, failed: Failed) -> None:
        assert most > 0, most
        self._clock = clock
        self._queue = queue
        self._most = most
        self._handle = handle
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = Signal()

    async def run(self) -> None:
        """Work on one key after the other, several at a time, for ever. Whatever ends this, no key is lost."""
        try:
            while True:
                while len(self._tasks) >= self._most:
                    self._room.clear()
                    await self._room.wait()
                self._begin(await self._queue.take())
                await self._clock.sleep(0)  # looks that send nothing never wait: a long line would stop the host
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _begin(self, taken: Taken) -> None:
        rest = None
        try:
            rest = self._handle(taken)
        except Exception as error:
            self._fail(taken.key, error)
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
        except Exception as error:
            self._fail(key, error)
        except BaseException:
            self._queue.retry(key)
            raise
        finally:
            self._queue.done(key)

    def _fail(self, key: Key, error: Exception) -> None:
        self._queue.retry(key)
        self._failed(key, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()
