"""The clocks of a simulated machine: they may be wrong, run fast or slow, be set, and pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop


class SimClock(VirtualClock):
    """The clocks of one machine. Its boot clock counts time in which the machine is paused; sleepers wake after the
    pause."""

    def __init__(self, loop: VirtualLoop, *, fast_per_million: int = 0, booted: int = 1_000, wrong_by: int = 0) -> None:
        super().__init__(loop, booted=booted, wrong_by=wrong_by)
        self._fast = fast_per_million
        self._awake = asyncio.Event()
        self._awake.set()
        #: Timers that fired while the machine was paused.
        self._late: list[Callable[[], object]] = []
        #: Boot clock at the virtual time of the last read: many reads happen at the same time.
        self._said, self._asked = self._booted, 0.0

    def boot(self) -> int:
        now = self._loop.now
        if now != self._asked:
            self._asked = now
            self._said = self._booted + round(now * 1000 * (1_000_000 + self._fast) / 1_000_000)
        return self._said

    async def sleep(self, duration: int) -> None:
        true_ms = self._true_ms(duration)
        if not true_ms:
            await asyncio.sleep(0)
        else:
            over: asyncio.Future[None] = self._loop.create_future()
            alarm = self._loop.call_later(true_ms / 1000, _end, over)
            try:
                await over
            except BaseException:  # on success the alarm has fired already
                alarm.cancel()
                raise
        if not self._awake.is_set():
            await self._awake.wait()

    def alarm(self, duration: int, ring: Callable[[], object]) -> asyncio.TimerHandle:
        return self._loop.call_later(self._true_ms(duration) / 1000, self._ring, ring)

    def _ring(self, ring: Callable[[], object]) -> None:
        if self._awake.is_set():
            ring()
        else:
            self._late.append(ring)

    def _true_ms(self, duration: int) -> int:
        """Return true milliseconds, rounded up: no sleeper wakes early by its own clock."""
        return max(0, -(-duration * 1_000_000 // (1_000_000 + self._fast)))

    def step(self, by_ms: int) -> None:
        """Set the wall clock."""
        self.wrong_by += by_ms

    def pause(self) -> None:
        """Hold all sleepers and timers until `resume`."""
        self._awake.clear()

    def resume(self) -> None:
        """Wake the sleepers and run the timers that came due during the pause."""
        self._awake.set()
        late, self._late = self._late, []
        for ring in late:
            self._loop.call_soon(ring)


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)
