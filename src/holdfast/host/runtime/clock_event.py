"""An event that can be awaited with a timeout: either the event or the clock wakes the waiter.

This is the most frequent wait of a host. So a timeout does not cancel the waiter, as `deadlines.within` does, but wakes
it as the event would.
"""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.host.ports.clock import Clock


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
