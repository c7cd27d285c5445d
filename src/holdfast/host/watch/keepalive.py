"""Keepalives of idle streams: one timer for all of them, and a few streams at a time.

    add ──▶ one of the parts, in turn ──▶ a bookmark in every round ──▶ `leave`

A timer per stream would cost a leader more than the messages; all streams at once would block the loop.
"""

from __future__ import annotations

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.watch.subscription import Subscription

#: The length of a round, and so the longest silence on a stream.
ROUND_MS = 5_000
PARTS = 20


class KeepaliveRounds:
    """Requests bookmarks from subscriptions. Runs alongside them."""

    def __init__(self) -> None:
        self._parts: list[dict[Subscription, None]] = [{} for _ in range(PARTS)]
        self._part_of: dict[Subscription, int] = {}
        self._added = 0
        self._joined = ClockEvent()

    def __len__(self) -> int:
        return len(self._part_of)

    def add(self, subscription: Subscription) -> None:
        """Request bookmarks from now on, the first within a round."""
        self._added += 1
        self._part_of[subscription] = part = self._added % PARTS
        self._parts[part][subscription] = None
        self._joined.set()

    def leave(self, subscription: Subscription) -> None:
        """Request no more bookmarks."""
        part = self._part_of.pop(subscription, None)
        if part is not None:
            del self._parts[part][subscription]

    async def run(self, clock: Clock) -> None:
        """Run rounds until cancelled; without subscriptions, wait for one."""
        while True:
            for part in self._parts:
                self._joined.clear()
                if not self._part_of:
                    await self._joined.wait()
                await clock.sleep(ROUND_MS // PARTS)
                for subscription in part:
                    subscription.request_bookmark()
