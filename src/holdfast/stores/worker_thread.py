"""A thread that does one thing after another for an event loop.

    event loop --(job)--> queue --> thread --(call_soon_threadsafe)--> future

A job that was handed over is done, whatever happens to the task that waits for it: cancelling a task ends the waiting
and nothing else, and the next job waits its turn. Jobs of a store that must not disturb each other share one thread.
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
    """What a thread without housekeeping does between jobs."""
    return False


class WorkerThread:
    """One thread, jobs in the order in which they were handed over.

    Between two jobs `between` is called for one small piece of housekeeping, and told whether somebody waits. While
    nobody does, it is called until it answers that nothing is left. It must not raise.
    """

    def __init__(self, name: str, between: Callable[[bool], bool] = nothing_to_do) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._between = between
        self._stopped = False
        # A daemon: a process that ends without closing its store must not hang. What counts is on the disk by then.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[], T], done: Callable[[T], None] | None = None) -> T:
        """Do the job on the thread. `done` gets its result on the loop even if the caller stops waiting."""
        if self._stopped:
            raise StoreError(f"{self._thread.name}: closed\nhint: open the store again")
        return await self._hand_over(job, done)

    async def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """Do a last job after what is queued, take no more, and end the thread, whatever happens to the caller."""
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
            del job  # an idle thread holds on to nothing: a job may hold a snapshot's chunk

    def _next(self) -> _Job | None:
        while self._between(not self._jobs.empty()):
            try:
                return self._jobs.get_nowait()
            except Empty:
                continue
        return self._jobs.get()


def _tell(loop: asyncio.AbstractEventLoop, deliver: Callable[..., None], *result: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(deliver, *result)
