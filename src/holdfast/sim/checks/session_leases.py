"""No session expires within a lease after the same leader answered its heartbeat.

Many sessions expire together only after a lease and a half: a leader that would expire many of them waits once more
(RULES 5). Sessions count for that after half a lease of silence.

A heartbeat is received between its sending and its answer, so the last answered one limits the silence that its leader
can have observed. Answers of other leaders do not count: each leader observes for itself.

Within a term, ledger time passes as fast as the world's time.

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

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.builtin.sessions import SessionEnded
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.values.structs import Revision
from holdfast.sim.checks.ledger_audit import Finding, LedgerAudit

SILENT = "silent"
#: At least this many sessions, and more than this percentage of all, count as many.
MANY, PERCENT = 3, 20
#: Number of batches of which the least is taken.
SOME = 10
#: Delay of the store for even the fastest batch; a clock may drift by one in this many milliseconds.
DELAY_MS, ONE_IN = 1_500, 500


class SessionLeaseCheck:
    """Checks the session expiries of one ledger. `now` is the world's time."""

    def __init__(self, where: str, state: LedgerState, find: Callable[[Finding], None], now: Callable[[], int]) -> None:
        self._where = where
        self._state = state
        self._find = find
        self._now = now
        #: The server whose term it is.
        self.leader = ""
        #: By server and session: the sending time of the last answered heartbeat.
        self._renewed: dict[tuple[str, Revision], int] = {}
        #: Sessions that expired lately: when, and after which silence.
        self._ended: list[tuple[int, int]] = []

    def renewed(self, server: str, session: Revision, sent: int) -> None:
        """Record an answered heartbeat by its sending time."""
        self._renewed[server, session] = sent

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        for event in (event for record in batch.records for event in record.events):
            if isinstance(event, TermStarted):
                self.leader = event.leader
            elif isinstance(event, SessionEnded) and event.reason == SILENT:
                sent = self._renewed.get((self.leader, event.session))
                quiet = self._state.info.settings.session_lease if sent is None else self._now() - sent
                if quiet < self._state.info.settings.session_lease:
                    told = f"{format_revision(event.session)} of {event.principal} expired"
                    why = f"{self.leader} answered a heartbeat that was sent {quiet} ms ago"
                    self._find(Finding("lease", f"{self._where} batch {batch.header.seq}: {told}, but {why}"))
                if sent is not None:
                    self._judge_many(quiet, batch.header.seq)

    def _judge_many(self, quiet: int, seq: int) -> None:
        """Check one more expired session that this leader had answered. Delayed expiries wait for another lease; the
        session with the longest silence may have renewed since."""
        lease, now = self._state.info.settings.session_lease, self._now()
        self._ended = [*((at, ms) for at, ms in self._ended if now - at < lease // 2), (now, quiet)]
        count, known = len(self._ended), len(self._ended) + len(self._state.sessions)
        if count >= MANY and count * 100 > known * PERCENT and all(2 * ms < 3 * lease for _, ms in self._ended):
            told = f"{count} of {known} sessions expired after a silence of {max(ms for _, ms in self._ended)} ms"
            self._find(Finding("doubted", f"{self._where} batch {seq}: {told}, without another lease of waiting"))


class AuditAckSink:
    """Records what the servers of one ledger acknowledge to machines."""

    def __init__(self, audit: LedgerAudit[Any], leases: SessionLeaseCheck, now: Callable[[], int]) -> None:
        self._audit = audit
        self.now = now
        self.renewed = leases.renewed

    def landed(self, envelope: Envelope[Any], revision: Revision) -> None:
        """Record an acknowledged command."""
        self._audit.acknowledged(envelope, Committed(revision, b""))


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
