"""Waiting with an end, waiting longer each time, and waiting for one's turn: on the clock of the host, and no other.

Chance has no part in it. A wait that must not be the same for everybody is drawn from the waiter's identity, so that
two keys part and two runs do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from hashlib import blake2b
from typing import Any, TypeVar

from holdfast.host.clock import Clock

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


async def together(*work: Coroutine[Any, Any, object]) -> None:
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


async def bit_by_bit(work: Generator[None, None, T]) -> T:
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


def jittered(most_ms: int, *identity: object) -> int:
    """Between half of it and all of it, always the same for the same identity, whose parts need a stable repr."""
    name = "\x1f".join(repr(part) for part in identity).encode()
    drawn = int.from_bytes(blake2b(name, digest_size=8).digest())
    half = most_ms // 2
    return most_ms - drawn % (half + 1)


def doubled(first_ms: int, most_ms: int, attempt: int) -> int:
    """The wait before this attempt, counted from 1: twice as long each time, up to the most."""
    return min(most_ms, first_ms << min(attempt - 1, 40))


class Turns:
    """A token bucket: `burst` turns at once, `per_second` on average."""

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        assert min(per_second, burst) > 0, (per_second, burst)
        self._clock = clock
        self._cost_us = max(1, 1_000_000 // per_second)
        self._burst_us = burst * self._cost_us
        #: When the bucket will be full again: one number says how much is in it at any time.
        self._full_at_us = 0

    def take(self) -> int:
        """Zero, and a turn is taken; or how many milliseconds until there is one."""
        now_us = self._clock.boot() * 1000
        full_at = max(self._full_at_us, now_us) + self._cost_us
        early_us = full_at - self._burst_us - now_us
        if early_us > 0:
            return -(-early_us // 1000)
        self._full_at_us = full_at
        return 0
