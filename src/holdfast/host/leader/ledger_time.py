"""Ledger time: what a leader stamps on what it accepts.

    at = base + elapsed on the even clock, drawn towards the wall clock by at most 500 parts in a million

It starts at the later of the last stamp in the log and the wall clock, always runs, and never jumps. A wall clock that
is wrong by an hour costs an hour of offset that later leaders wear down; it never freezes time or makes it leap.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.clock import Clock

#: In a millisecond. A millionth of it is a nanosecond, so a slew in parts per million needs no division.
NANOS = 1_000_000
SLEW_PER_MILLION = 500
#: A wall clock that moves by more than this against the even clock was set by somebody.
STEP_MS = 60_000


class LedgerTime:
    """The time of one term. `steps` counts how often the wall clock was set meanwhile."""

    def __init__(self, clock: Clock, last: Instant) -> None:
        self._clock = clock
        self._boot = clock.boot()
        self._wall = clock.wall()
        #: In nanoseconds: a leader that asks every millisecond slews by half a microsecond each time.
        self._nanos = max(last, self._wall) * NANOS
        self.steps = 0

    def now(self) -> Instant:
        """The time now: at least as late as any before."""
        boot, wall = self._clock.boot(), self._clock.wall()
        elapsed = max(0, boot - self._boot)
        if abs(wall - self._wall - elapsed) > STEP_MS:
            self.steps += 1
        self._boot, self._wall = boot, wall
        ahead = self._nanos + elapsed * NANOS
        most = elapsed * SLEW_PER_MILLION
        self._nanos = ahead + max(-most, min(most, wall * NANOS - ahead))
        return self._nanos // NANOS
