"""Ledger time against the world's: within a term it passes as fast as time does.

    of each batch: when it became durable, less the time that it was stamped with ──▶ the least of ten at first
                                                                                 ──▶ the least of the last ten

What a batch waits for its store only adds to that, so the least of several says by how much the leader's time is off;
while one server leads, that may change by what its clock drifts and is slewed. A time that runs fast ends overrides,
leases and fences before they are due, and nothing in a log shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.sim.checks.ledger_audit import Finding

#: So many batches are looked at together.
SOME = 10
#: So much a store delays even the fastest of them, and one in so many milliseconds a clock may gain or lose.
DELAY_MS, ONE_IN = 1_500, 500


class LedgerTimeCheck:
    """The judge of one ledger's time. `now` is the world's."""

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
        """The next batch."""
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
            told = f"in {now - self._began} ms of term {self._term} its time went {-off} ms too far"
            self._find(Finding("even-time", f"{self._where} batch {batch.header.seq}: {told}"))
