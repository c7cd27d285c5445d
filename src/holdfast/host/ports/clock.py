"""The port to time. All times are milliseconds.

Two clocks: `boot` runs evenly, counts suspended time and never jumps, and is what durations are measured with; `wall`
is what people call the time, and may be wrong. Sleeping and alarms go through the port too, so that a simulated host
sleeps in simulated time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.core.model.values.structs import Instant


class Clock(Protocol):
    """What a host knows about time."""

    def boot(self) -> int:
        """Milliseconds since this machine started, suspended ones too."""

    def wall(self) -> Instant:
        """Milliseconds since 1970 by the machine's calendar clock."""

    async def sleep(self, duration: int) -> None:
        """Return after `duration` milliseconds of this clock; zero or less: after giving way once."""

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        """Ring after `duration` milliseconds of this clock, unless it is cancelled. One that rings late may do so then
        all the same: whoever is rung knows whether it still matters."""


class SystemClock:
    """This machine's clocks."""

    def boot(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def wall(self) -> Instant:
        return time.time_ns() // 1_000_000

    async def sleep(self, duration: int) -> None:
        await asyncio.sleep(max(0, duration) / 1000)

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0, duration) / 1000, ring)
