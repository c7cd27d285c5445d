"""Calls that wait for the head to move, in one event loop; shared by every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.host.ports.store import Head


class HeadWaiters:
    """Pending calls of `wait` in one event loop, woken in order of arrival."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[bool], None] = {}

    def wake(self) -> None:
        """Wake all calls: the head moved or was touched."""
        for waiter in self._waiters:
            _tell(waiter, changed=True)

    async def until_changed(self, seen: Head, timeout_ms: int, look: Callable[[], Awaitable[Head]]) -> Head:
        """Return the head once its position or touch differs from `seen`, or after the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            # Register before reading the head, so that no change in between is missed.
            waiter: asyncio.Future[bool] = loop.create_future()
            self._waiters[waiter] = None
            alarm = loop.call_at(deadline, partial(_tell, waiter, changed=False))
            try:
                head = await look()
                if not (head.same_place(seen) and head.touch == seen.touch):
                    return head
                if not await waiter:
                    return await look()
            finally:
                alarm.cancel()
                del self._waiters[waiter]


def _tell(waiter: asyncio.Future[bool], *, changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)
