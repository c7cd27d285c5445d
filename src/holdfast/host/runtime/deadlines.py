"""Waits with an end, the first of several tasks, and long work in steps: by the host's clock and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

from holdfast.host.ports.clock import Clock

T = TypeVar("T")


class DeadlinePassed(Exception):
    """It was not done in time. Whether it will be done all the same is for the caller to know."""


class Abandoned(Exception):
    """Somebody else cancelled what was waited for: it has no result."""


#: So many turns of the loop whatever is ready goes before a deadline: one that comes late must not win over an answer
#: that came in time and was not looked at yet.
GIVES_WAY = 3


class _Deadline:
    """Cancels the task that waits, once its time is over, unless it waits no more or is being cancelled already."""

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
    """What the awaitable gives, if it does so in time.

    Otherwise it is cancelled, and `DeadlinePassed` raised once it has ended: nothing is left running. That it cancelled
    itself is `Abandoned`, and not taken for a cancellation of the caller. It runs in the caller's own task: most waits
    end in time, and a task and an alarm for each would cost more than what is waited for.
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
        raise Abandoned("cancelled by somebody else") from None
    finally:
        deadline.is_over = True
        alarm.cancel()
        if deadline.is_passed and task.uncancel() <= deadline.before:
            raise DeadlinePassed(f"not done within {limit_ms} ms")
        if task.cancelling() > deadline.before:  # whatever came of the work while it was ending
            raise asyncio.CancelledError


async def run_until_first(*work: Coroutine[Any, Any, object]) -> None:
    """Run all until one ends; then end the others, too. Raises what that one raised; of several, the first."""
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
    """What comes of it, with a turn for everybody else between its bits."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found
        await asyncio.sleep(0)


def is_being_cancelled() -> bool:
    """Whether somebody wants the current task to end; otherwise what it waited for was cancelled, not the task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
