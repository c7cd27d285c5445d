"""A thread that does jobs in order for an event loop.

    event loop --(job)--> queue --> thread --(call_soon_threadsafe)--> future

A queued job always runs. Cancelling the task that waits for it ends the wait and nothing else. Jobs of a store that
must not overlap share one thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from holdfast.host.ports.store import StoreError

T = TypeVar("T")

_Job = Callable[[], None]


def nothing_to_do(somebody_waits: bool) -> bool:
    """The housekeeping of a thread that has none."""
    return False


class WorkerThread:
    """One thread that does jobs in the order of arrival.

    Between two jobs the thread calls `between` for one piece of housekeeping; the argument is whether a job waits.
    While none does, it repeats the call until it returns False. `between` must not raise.
    """

    def __init__(self, name: str, between: Callable[[bool], bool] = nothing_to_do) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._between = between
        self._stopped = False
        # Daemon, so that a process with an open store can end. Completed writes are on disk by then.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[], T], done: Callable[[T], None] | None = None) -> T:
        """Run a job on the thread. `done` receives the result on the loop, even after a cancellation."""
        if self._stopped:
            raise StoreError(f"{self._thread.name}: closed\nhint: open the store again")
        return await self._hand_over(job, done)

    async def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """Run a last job after the queue and end the thread, even if the caller is cancelled."""
        self._stopped = True
        try:
            await self._hand_over(last, None)
        finally:
            self._jobs.put(None)
            self._thread.join()

    def _hand_over(self, job: Callable[[], T], done: Callable[[T], None] | None) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def succeed(result: T) -> None:
            if done is not None:
                done(result)
            if not future.done():
                future.set_result(result)

        def fail(error: BaseException) -> None:
            if not future.done():
                future.set_exception(error)

        def work() -> None:
            try:
                result = job()
            except BaseException as error:
                _tell(loop, fail, error)
            else:
                _tell(loop, succeed, result)

        self._jobs.put(work)
        return future

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job()
            del job  # an idle thread keeps no references: a job may hold a snapshot's chunk

    def _next(self) -> _Job | None:
        while self._between(not self._jobs.empty()):
            try:
                return self._jobs.get_nowait()
            except Empty:
                continue
        return self._jobs.get()


def _tell(loop: asyncio.AbstractEventLoop, deliver: Callable[..., None], *result: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed: no caller waits
        loop.call_soon_threadsafe(deliver, *result)
