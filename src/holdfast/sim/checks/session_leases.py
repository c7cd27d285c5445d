"""Nobody's session is ended for silence whom the same leader answered less than a lease ago; nor are many at once, of
whom it answered all less than a lease and a half ago: such a silence is doubted once (RULES 5), and whoever counted for
the doubt had been silent for half a lease.

A heartbeat was heard between when it was sent and when its answer came: so what was sent last and answered by whoever
leads says how long a silence can have been. What another leader answered does not count: each listens for itself.
"""

from __future__ import annotations

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
#: So many at least, and so many percent of all, are many.
MANY, PERCENT = 3, 20


class SessionLeaseCheck:
    """The judge of one ledger's sessions. `now` is the world's."""

    def __init__(self, where: str, state: LedgerState, find: Callable[[Finding], None], now: Callable[[], int]) -> None:
        self._where = where
        self._state = state
        self._find = find
        self._now = now
        #: Whose term it is.
        self.leader = ""
        #: By server and session: when the last heartbeat was sent that it answered.
        self._renewed: dict[tuple[str, Revision], int] = {}
        #: Sessions that were ended for silence lately: when, and for how long they had been quiet.
        self._ended: list[tuple[int, int]] = []

    def renewed(self, server: str, session: Revision, sent: int) -> None:
        """A server has answered a heartbeat that was sent then."""
        self._renewed[server, session] = sent

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""
        for event in (event for record in batch.records for event in record.events):
            if isinstance(event, TermStarted):
                self.leader = event.leader
            elif isinstance(event, SessionEnded) and event.reason == SILENT:
                sent = self._renewed.get((self.leader, event.session))
                quiet = self._state.info.settings.session_lease if sent is None else self._now() - sent
                if quiet < self._state.info.settings.session_lease:
                    told = f"{format_revision(event.session)} of {event.principal} is ended for silence"
                    why = f"{self.leader} answered what it sent {quiet} ms ago"
                    self._find(Finding("lease", f"{self._where} batch {batch.header.seq}: {told}, and {why}"))
                if sent is not None:
                    self._judge_many(quiet, batch.header.seq)

    def _judge_many(self, quiet: int, seq: int) -> None:
        """One more was ended, whom this leader had heard. Whoever is doubted waits for another lease: the one
        whose silence was the longest may have come back since."""
        lease, now = self._state.info.settings.session_lease, self._now()
        self._ended = [*((at, ms) for at, ms in self._ended if now - at < lease // 2), (now, quiet)]
        count, known = len(self._ended), len(self._ended) + len(self._state.sessions)
        if count >= MANY and count * 100 > known * PERCENT and all(2 * ms < 3 * lease for _, ms in self._ended):
            told = f"{count} of {known} sessions are ended for a silence of {max(ms for _, ms in self._ended)} ms"
            self._find(Finding("doubted", f"{self._where} batch {seq}: {told}, and nobody doubts it"))


class AuditAckSink:
    """Who notes what machines are told by the servers of one ledger."""

    def __init__(self, audit: LedgerAudit[Any], leases: SessionLeaseCheck, now: Callable[[], int]) -> None:
        self._audit = audit
        self.now = now
        self.renewed = leases.renewed

    def landed(self, envelope: Envelope[Any], revision: Revision) -> None:
        """Somebody was told that its command landed there."""
        self._audit.acknowledged(envelope, Committed(revision, b""))
