"""Who is looked at again, and when: one timer for many, and those whose time comes together are taken together.

    add ──▶ its time, drawn for each, on the next stroke of a slow beat ──▶ take ──▶ as many as the pace allows

A queue with an alarm for each key wakes somebody for each: of thousands that are to be looked at every few seconds,
that is most of the work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import TokenBucket
from holdfast.host.runtime.clock_event import ClockEvent

K = TypeVar("K", bound=Hashable)

#: So many strokes are between two looks at the same key, at most.
TICKS = 20
#: Of the row of numbers that waits are drawn from.
MULTIPLIER, MASK = 6_364_136_223_846_793_005, 2**64 - 1


class RecheckSchedule(Generic[K]):
    """Keys, each with the time of its next look: between half of `again_ms` and all of it from when it was added."""

    def __init__(self, clock: Clock, again_ms: int, per_second: int, seed: int = 0) -> None:
        self._clock = clock
        self._beat_ms = max(1, again_ms // TICKS)
        #: Between these a wait is drawn, so that with the next stroke it is over in time.
        self._least_ms = again_ms // 2
        self._spread_ms = max(0, again_ms - self._least_ms - self._beat_ms)
        #: The last draw: a row of numbers that begins with the seed, and costs less than a digest for each key.
        self._drawn = seed & MASK
        self._turns = TokenBucket(clock, per_second, per_second)
        #: By key: its stroke. Who is listed under another stroke is not wanted there.
        self._due: dict[K, int] = {}
        self._strokes: dict[int, list[K]] = {}
        self._line: list[int] = []
        #: Whose time has come, and whom the pace has held up.
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._changed = ClockEvent()

    def __len__(self) -> int:
        return len(self._due) + len(self._ready)

    def add(self, key: K) -> None:
        """Have it looked at in its time. Of two times the earlier counts."""
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
        """It is not to be looked at any more."""
        self._due.pop(key, None)
        self._ready.pop(key, None)

    async def take(self, most: int) -> list[K]:
        """Those whose time has come, in the order of their times, at least one and no more than this."""
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
