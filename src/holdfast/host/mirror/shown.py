"""What a mirror shows: a state that moves on with the log, until another one takes its place, or it is found wrong.

nothing ──▶ shown ──▶ another one in its place
   ▲          │
   └──────────┘ a digest in the log is not that of the state here (RULES 16)
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from holdfast.host.clock import Clock
from holdfast.host.digests import Digests
from holdfast.host.durable import Durable
from holdfast.host.meters import Meters
from holdfast.host.waiting import together
from holdfast.host.watch import Hub


class Shown:
    """The state of one mirror. Whoever listens to the hub is told when another one takes its place: changes end."""

    def __init__(self, clock: Clock, meters: Meters) -> None:
        self._clock = clock
        self._meters = meters
        self.durable: Durable[RegionState] = Durable(REGION, RegionState())
        nowhere: Any = None  # a mirror has no log: nobody subscribes here, and touches need none
        self.hub = Hub(REGION, nowhere, self.durable.token(), meters)
        #: How often a state was shown for the first time.
        self.times = 0
        #: What compares the state with the log; None: nothing is shown.
        self._digests: Digests[RegionState] | None = None
        self._moved = asyncio.Event()

    def show(self, state: RegionState) -> None:
        """This one from now on, whatever was there before: it may be another log's."""
        self._replace(state)
        self.durable.listeners.append(self.hub.publish)
        self._digests = Digests(self.durable, self._clock, self._meters)
        self.times += 1
        self._moved.set()

    def drop(self) -> None:
        """Nothing from now on."""
        self._replace(RegionState())
        self._digests = None
        self._moved.set()

    def _replace(self, state: RegionState) -> None:
        self.durable = Durable(REGION, state)
        self.hub.reset(self.durable.token())

    async def there(self) -> int:
        """Return when something is shown: how many were, up to this one."""
        while self._digests is None:
            self._moved.clear()
            await self._moved.wait()
        return self.times

    async def over(self, times: int) -> None:
        """Return when that one is shown no more."""
        while self._digests is not None and self.times == times:
            self._moved.clear()
            await self._moved.wait()

    async def compare(self) -> None:
        """Compare what is shown with the digests in the log, as a server compares its own state. `StateDiffers`."""
        while True:
            times = await self.there()
            assert self._digests is not None
            await together(self._digests.watch(), self.over(times))
