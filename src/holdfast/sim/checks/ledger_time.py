"""Within a term, ledger time passes as fast as the world's time.

    for each batch: time when it became durable, minus its timestamp ──▶ the least of the first ten
                                                                    ──▶ the least of the last ten

A slow store only adds to the difference, so the least of several is the leader's time offset. During a term it may
change by clock drift and slewing. Fast ledger time would end overrides, leases and fences early, and no log would show
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.sim.checks.ledger_audit import Finding

#: Number of batches of which the least is taken.
SOME = 10
#: Delay of the store for even the fastest batch; a clock may drift by one in this many milliseconds.
DELAY_MS, ONE_IN = 1_500, 500


class LedgerTimeCheck:
    """Checks the time of one ledger. `now` is the world's time."""

    def __init__(self, where: str, find: Callable[[Finding], None], now: Callable[[], int]) -> None:
        self._where = where
        self._find = find
        self._now = now
        self._term = -1
        self._began = 0
        self._first: int | None = None
        self._last: deque[int] = deque(maxlen=SOME)
        self._told = False

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        if not batch.records:
            return
        now = self._now()
        if batch.header.term != self._term:
            self._term, self._began, self._first, self._told = batch.header.term, now, None, False
            self._last.clear()
        self._last.append(now - batch.records[-1].at)
        if len(self._last) < SOME:
            return
        least = min(self._last)
        if self._first is None:
            self._first = least
        off, most = least - self._first, DELAY_MS + (now - self._began) // ONE_IN
        if abs(off) > most and not self._told:
            self._told = True
            told = f"in {now - self._began} ms of term {self._term} its ledger time advanced by {-off} ms too much"
            self._find(Finding("even-time", f"{self._where} batch {batch.header.seq}: {told}"))
