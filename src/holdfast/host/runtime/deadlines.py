"""Waits with a deadline by the host's clock, events and long work in steps, and the first of several tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from holdfast.host.ports.clock import Clock

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The work was not done in time. The caller decides whether it may still happen."""


class Abandoned(Exception):
    """Other code cancelled the awaited work: it has no result."""


#: A deadline lets the loop turn this often before it acts: a late alarm must not win over a result that arrived in
#: time.
GIVES_WAY = 3


class _Deadline:
    """Cancels the waiting task at the deadline, unless it is done or being cancelled."""

    __slots__ = ("before", "is_over", "is_passed", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.before = task.cancelling()
        self.is_over = self.is_passed = False

    def ring(self, turns: int = GIVES_WAY) -> None:
        if self.is_over or self.task.cancelling() > self.before:
            return
        if turns:
            self.task.get_loop().call_soon(self.ring, turns - 1)
        else:
            self.is_passed = True
            self.task.cancel()


async def within(clock: Clock, limit_ms: int, awaitable: Awaitable[T]) -> T:
    """Return the awaitable's result, if it arrives in time.

    Otherwise cancel it, and raise `DeadlinePassed` once it has ended. If the awaitable was cancelled elsewhere, raise
    `Abandoned`, which is no cancellation of the caller. It runs in the caller's own task, since a task for each wait
    would be too expensive.
    """
    task = asyncio.current_task()
    assert task is not None, "only a task can wait"
    deadline = _Deadline(task)
    alarm = clock.alarm(limit_ms, deadline.ring)
    try:
        return await awaitable
    except asyncio.CancelledError:
        if task.cancelling():
            raise
        raise Abandoned("the awaited work was cancelled") from None
    finally:
        deadline.is_over = True
        alarm.cancel()
        if deadline.is_passed and task.uncancel() <= deadline.before:
            raise DeadlinePassed(f"not done within {limit_ms} ms")
        if task.cancelling() > deadline.before:  # also if the work returned or raised while it was ending
            raise asyncio.CancelledError


async def run_until_first(*work: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends, then cancel the others. Raise the error of that one; of several, the first."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_in_steps(work: Generator[None, None, T]) -> T:
    """Run the generator to its end and return its result, with a turn of the loop between its steps."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found
        await asyncio.sleep(0)


def is_being_cancelled() -> bool:
    """Whether the current task is being cancelled, not only the awaited work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class ClockEvent:
    """Like `asyncio.Event`, with an optional timeout."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[bool]] = []

    def is_set(self) -> bool:
        """Whether `wait` returns at once."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiters; later waits return at once until `clear`."""
        if not self._is_set:
            self._is_set = True
            for waiter in self._waiters:
                _wake(waiter, True)

    def clear(self) -> None:
        """Make later waits wait for the next `set`."""
        self._is_set = False

    async def wait(self) -> None:
        """Return when it is set."""
        if not self._is_set:
            await self._woken(asyncio.get_running_loop().create_future())

    async def within(self, clock: Clock, limit_ms: int) -> bool:
        """Return when it is set, or after `limit_ms`; whether it was set."""
        if self._is_set:
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        alarm = clock.alarm(limit_ms, partial(_wake, waiter, False))
        try:
            return await self._woken(waiter) or self._is_set
        finally:
            alarm.cancel()

    async def _woken(self, waiter: asyncio.Future[bool]) -> bool:
        self._waiters.append(waiter)
        try:
            return await waiter
        finally:
            self._waiters.remove(waiter)


def _wake(waiter: asyncio.Future[bool], happened: bool) -> None:
    if not waiter.done():
        waiter.set_result(happened)
