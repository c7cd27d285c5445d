"""Ledger time: the timestamps that a leader puts on accepted commands.

    at = base + elapsed on the boot clock, drawn towards the wall clock by at most 500 parts in a million

It starts at the later of the last stamp in the log and the wall clock, always runs, and never jumps. A wall clock that
is an hour wrong causes an hour of offset, which later leaders reduce slowly.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.clock import Clock

#: Nanoseconds per millisecond: a slew in parts per million needs no division.
NANOS = 1_000_000
SLEW_PER_MILLION = 500
#: A wall clock that deviates more from the boot clock was set.
STEP_MS = 60_000


class LedgerTime:
    """The time of one term. `steps` counts settings of the wall clock."""

    def __init__(self, clock: Clock, last: Instant) -> None:
        self._clock = clock
        self._boot = clock.boot()
        self._wall = clock.wall()
        #: In nanoseconds, since a slew may be below a microsecond.
        self._nanos = max(last, self._wall) * NANOS
        self.steps = 0

    def now(self) -> Instant:
        """Return the current ledger time, which never goes back."""
        boot, wall = self._clock.boot(), self._clock.wall()
        elapsed = max(0, boot - self._boot)
        if abs(wall - self._wall - elapsed) > STEP_MS:
            self.steps += 1
        self._boot, self._wall = boot, wall
        ahead = self._nanos + elapsed * NANOS
        most = elapsed * SLEW_PER_MILLION
        self._nanos = ahead + max(-most, min(most, wall * NANOS - ahead))
        return self._nanos // NANOS
