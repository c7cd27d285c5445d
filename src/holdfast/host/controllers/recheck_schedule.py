"""Keys that are checked periodically: one timer for all, and keys of a tick are taken together.

    add ──▶ a random time, rounded up to a tick ──▶ take ──▶ as many as the rate allows

An alarm per key would wake a task per key: with thousands of keys, that is most of the work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import TokenBucket
from holdfast.host.runtime.deadlines import ClockEvent

K = TypeVar("K", bound=Hashable)

#: Largest number of ticks between two checks of a key.
TICKS = 20
#: Parameters of the pseudo-random sequence that waits are drawn from.
MULTIPLIER, MASK = 6_364_136_223_846_793_005, 2**64 - 1


class RecheckSchedule(Generic[K]):
    """Keys with the time of their next check: between half of `again_ms` and all of it."""

    def __init__(self, clock: Clock, again_ms: int, per_second: int, seed: int = 0) -> None:
        self._clock = clock
        self._beat_ms = max(1, again_ms // TICKS)
        #: The range of waits, so that the next tick is in time.
        self._least_ms = again_ms // 2
        self._spread_ms = max(0, again_ms - self._least_ms - self._beat_ms)
        #: The last draw, from the seed on: cheaper than a digest per key.
        self._drawn = seed & MASK
        self._turns = TokenBucket(clock, per_second, per_second)
        #: The tick of each key. An entry under another tick is obsolete.
        self._due: dict[K, int] = {}
        self._strokes: dict[int, list[K]] = {}
        self._line: list[int] = []
        #: Keys that are due and held back by the rate.
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._changed = ClockEvent()

    def __len__(self) -> int:
        return len(self._due) + len(self._ready)

    def add(self, key: K) -> None:
        """Schedule the key. An earlier time that is already set wins."""
        now = self._clock.boot()
        self._drawn = (self._drawn * MULTIPLIER + 1) & MASK
        wait_ms = self._least_ms + (self._drawn >> 32) % (self._spread_ms + 1)
        stroke = -(-(now + wait_ms) // self._beat_ms) * self._beat_ms
        if key in self._ready or self._due.get(key, stroke + 1) <= stroke:
            return
        self._due[key] = stroke
        there = self._strokes.get(stroke)
        if there is not None:
            there.append(key)
            return
        self._strokes[stroke] = [key]
        heappush(self._line, stroke)
        if self._line[0] == stroke:
            self._changed.set()

    def drop(self, key: K) -> None:
        """Remove the key from the schedule."""
        self._due.pop(key, None)
        self._ready.pop(key, None)

    async def take(self, most: int) -> list[K]:
        """Return due keys in the order of their times: at least one, at most the given number."""
        assert most > 0, most
        while True:
            self._changed.clear()
            self._call()
            taken: list[K] = []
            pause_ms = 0
            while self._ready and len(taken) < most and not pause_ms:
                pause_ms = self._turns.take()
                if not pause_ms:
                    taken.append(self._ready.popitem(last=False)[0])
            if taken:
                return taken
            if pause_ms:
                await self._clock.sleep(max(pause_ms, self._beat_ms))
            elif self._line:
                await self._changed.within(self._clock, self._line[0] - self._clock.boot())
            else:
                await self._changed.wait()

    def _call(self) -> None:
        now = self._clock.boot()
        while self._line and self._line[0] <= now:
            stroke = heappop(self._line)
            for key in self._strokes.pop(stroke):
                if self._due.get(key) == stroke:
                    del self._due[key]
                    self._ready[key] = None
