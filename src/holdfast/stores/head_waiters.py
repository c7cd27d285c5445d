"""Calls that wait for the head to move, and announcements of servers in memory; shared by engines that one process
uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.host.ports.store import ANNOUNCEMENT_BYTES, ANNOUNCEMENTS, Head, StoreError


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


class AnnouncementTable:
    """Announcements in memory, for a store whose servers are all in one process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._announced: dict[str, bytes] = {}

    def put(self, name: str, raw: bytes) -> None:
        """Set or replace an announcement; an empty one removes it."""
        if not raw:
            self._announced.pop(name, None)
            return
        if len(raw) > ANNOUNCEMENT_BYTES:
            raise StoreError(f"{self._name}: announcement of {len(raw):,} bytes, limit {ANNOUNCEMENT_BYTES:,}")
        if name not in self._announced and len(self._announced) >= ANNOUNCEMENTS:
            raise StoreError(f"{self._name}: {ANNOUNCEMENTS:,} announcements wait for a leader\nhint: try again later")
        self._announced[name] = bytes(raw)

    def all(self) -> list[tuple[str, bytes]]:
        """Return all announcements by name."""
        return sorted(self._announced.items())
