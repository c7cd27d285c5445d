"""Waiting for something to happen, and not for ever: a flag that wakes those who wait for it, or the clock does.

What waits for an event with an end is the most common way to wait here, and mostly nothing happens. So nobody is
cancelled when the time is over, as by `waiting.within`: whoever waits is woken, as by the event, and looks.
"""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.host.ports.clock import Clock


class ClockEvent:
    """Like `asyncio.Event`, with an end to the wait."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[bool]] = []

    def is_set(self) -> bool:
        """Whether whoever waits now does not wait."""
        return self._is_set

    def set(self) -> None:
        """It happened: everybody who waits goes on, and so does whoever comes before it is cleared."""
        if not self._is_set:
            self._is_set = True
            for waiter in self._waiters:
                _wake(waiter, True)

    def clear(self) -> None:
        """From now on whoever comes waits for the next time."""
        self._is_set = False

    async def wait(self) -> None:
        """Return when it is set."""
        if not self._is_set:
            await self._woken(asyncio.get_running_loop().create_future())

    async def within(self, clock: Clock, limit_ms: int) -> bool:
        """Return when it is set, or after so long; whether it was set, in time or in the same moment."""
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
