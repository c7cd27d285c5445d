"""The port to time. All times are milliseconds.

Durations are measured with `boot`, which runs evenly, suspended time included. The calendar clock `wall` may be wrong.
Sleeps and alarms use the port too, so that a simulated host sleeps in simulated time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.core.model.values.structs import Instant


class Clock(Protocol):
    """The clocks and timers of a host."""

    def boot(self) -> int:
        """Return the milliseconds since this machine started, suspended time included."""

    def wall(self) -> Instant:
        """Return the milliseconds since 1970 by the machine's calendar clock."""

    async def sleep(self, duration: int) -> None:
        """Return after `duration` milliseconds; zero or less: after one turn of the loop."""

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `ring` after `duration` milliseconds of this clock, unless the handle is cancelled.

        A late alarm still rings: the callback checks whether it matters.
        """


class SystemClock:
    """The clocks of this machine."""

    def boot(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def wall(self) -> Instant:
        return time.time_ns() // 1_000_000

    async def sleep(self, duration: int) -> None:
        await asyncio.sleep(max(0, duration) / 1000)

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0, duration) / 1000, ring)
