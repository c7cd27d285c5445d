"""Sessions as a leader keeps them: renewed in memory, ended in the log (RULES 3, 5).

A session that was not heard of for a lease, drift and a margin is ended by a command like any other. Nothing is judged
before the leader has itself watched for that long without interruption: a leader that was paused, that could not reach
its store, or whose clock was set, begins to watch anew. My own absence is not your death. When many fall silent at once
the fault is likely nearer than they are, and a second period is waited for.
"""

from __future__ import annotations

from holdfast.core.ledger.state import LedgerState
from holdfast.core.model.settings import Settings, drifted
from holdfast.host.clock import Clock
from holdfast.host.journal import Journal
from holdfast.host.meters import Meters

#: Added to a lease before it is judged: what a heartbeat may spend on its way.
MARGIN_MS = 500
#: The part of all sessions, in percent, whose silence in one period is doubted once.
MASS_PERCENT = 20
#: Fewer than this are never a mass.
MASS_LEAST = 3


class Sessions:
    """Who was heard of, and when, by this leader's even clock."""

    def __init__(self, clock: Clock, meters: Meters, journal: Journal) -> None:
        self._clock = clock
        self._meters = meters
        self._journal = journal
        self._heard: dict[int, int] = {}
        self._ending: set[int] = set()
        self._since = clock.boot()
        self._doubted = False

    def restart(self, why: str) -> None:
        """Watch anew: nobody is judged by a silence that began before now."""
        self._since = self._clock.boot()
        self._doubted = False
        self._meters.count("observation_restarts", why=why)
        self._journal.info("observing-anew", why=why)

    def heard(self, session: int) -> bool:
        """A sign of life; False when the end of this session is queued: it is never renewed again."""
        if session in self._ending:
            return False
        self._heard[session] = self._clock.boot()
        return True

    def silent(self, state: LedgerState) -> list[int]:
        """The sessions to be ended now, oldest first; from here on they are never renewed."""
        now = self._clock.boot()
        patience = _patience(state.facts.settings)
        if now - self._since < patience:
            return []
        live = [uid for uid, _ in state.sessions.items()]
        silent = [
            uid for uid in live if uid not in self._ending and now - self._heard.get(uid, self._since) >= patience
        ]
        self._forget_others(live)
        if self._is_doubtful(len(silent), len(live)):
            self.restart("mass-silence")
            self._doubted = True
            return []
        if silent:
            self._doubted = False
        self._ending.update(silent)
        return silent

    def _is_doubtful(self, silent: int, live: int) -> bool:
        is_mass = silent >= MASS_LEAST and silent * 100 > live * MASS_PERCENT
        return is_mass and not self._doubted

    def _forget_others(self, live: list[int]) -> None:
        kept = set(live)
        self._heard = {uid: at for uid, at in self._heard.items() if uid in kept}
        self._ending &= kept

    def not_ended(self, session: int) -> None:
        """The end of this session was not logged after all: it may be renewed and judged again."""
        self._ending.discard(session)


def _patience(settings: Settings) -> int:
    return drifted(settings.session_lease, settings) + MARGIN_MS
