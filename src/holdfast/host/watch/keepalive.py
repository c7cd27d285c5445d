"""Streams whose readers hear now and then that they live: one timer for all of them, and a few at a time.

    add ──▶ one of the parts, by turns ──▶ nudged once in a round ──▶ `leave`

A timer for each would cost a leader with thousands of streams more than the word itself; all at once would hold up
everybody else for as long as it takes.
"""

from __future__ import annotations

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.clock_event import ClockEvent
from holdfast.host.watch.subscription import Subscription

#: How long a round takes: nobody hears nothing for longer.
ROUND_MS = 5_000
PARTS = 20


class KeepaliveRounds:
    """The subscriptions that are nudged. `run` it beside them."""

    def __init__(self) -> None:
        self._parts: list[dict[Subscription, None]] = [{} for _ in range(PARTS)]
        self._part_of: dict[Subscription, int] = {}
        self._added = 0
        self._joined = ClockEvent()

    def __len__(self) -> int:
        return len(self._part_of)

    def add(self, subscription: Subscription) -> None:
        """Nudge it from now on, for the first time within a round."""
        self._added += 1
        self._part_of[subscription] = part = self._added % PARTS
        self._parts[part][subscription] = None
        self._joined.set()

    def leave(self, subscription: Subscription) -> None:
        """Nudge it no more."""
        part = self._part_of.pop(subscription, None)
        if part is not None:
            del self._parts[part][subscription]

    async def run(self, clock: Clock) -> None:
        """Go round for ever; where nobody is, not before somebody comes."""
        while True:
            for part in self._parts:
                self._joined.clear()
                if not self._part_of:
                    await self._joined.wait()
                await clock.sleep(ROUND_MS // PARTS)
                for subscription in part:
                    subscription.request_bookmark()
