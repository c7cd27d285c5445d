"""Calls that wait for the head to move, in one event loop; shared by every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.host.ports.store import Head


class HeadWaiters:
    """The calls of `wait` that are under way, in one event loop, woken in the order in which they came."""

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[bool], None] = {}

    def wake(self) -> None:
        """The head has moved, or its leader gave a sign of life."""
        for waiter in self._waiters:
            _tell(waiter, changed=True)

    async def until_changed(self, seen: Head, timeout_ms: int, look: Callable[[], Awaitable[Head]]) -> Head:
        """The head once it differs from `seen` in place or touch, or as it is after the timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            # It listens before it looks: what changes in between is not missed.
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
