"""Sessions as a leader keeps them: renewed in memory, ended in the log (RULES 3, 5).

A session that was not heard of for a lease, drift and a margin is ended by a command like any other. Nothing is judged
before the leader has itself watched for that long without interruption: a leader that was paused, that could not reach
its store, or whose clock was set, begins to watch anew. My own absence is not your death. When many fall silent at once
the fault is likely nearer than they are, and a second period is waited for.
"""

from __future__ import annotations

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import OverlayTable
from holdfast.core.model.values.settings import Settings, with_drift
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Added to a lease before it is judged: what a heartbeat may spend on its way.
MARGIN_MS = 500
#: The part of all sessions, in percent, whose silence in one period is doubted once.
MASS_PERCENT = 20
#: Fewer than this are never a mass.
MASS_MIN = 3


class SessionMonitor:
    """Who was heard of, and when, by this leader's even clock."""

    def __init__(self, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._heard: dict[int, int] = {}
        self._ending: set[int] = set()
        #: When each session of the last period was judged: they count as silent with those that follow.
        self._judged: dict[int, int] = {}
        self._since = self._looked = clock.boot()
        self._doubted = False
        #: The batch after which it was last noticed who is there: only a batch opens a session, or ends one.
        self._noticed = -1

    def restart_observation(self, why: str) -> None:
        """Watch anew: nobody is judged by a silence that began before now."""
        self._since = self._looked = self._clock.boot()
        self._doubted = False
        self._metrics.count("observation_restarts", why=why)
        self._logger.info("observing-anew", why=why)

    def renewed(self, session: int) -> bool:
        """A sign of life; False when the end of this session is queued: it is never renewed again."""
        if session in self._ending:
            return False
        self._heard[session] = self._clock.boot()
        return True

    def quiet_ms(self, session: int) -> int | None:
        """How long ago this session was heard of; None: it is not watched by this leader."""
        at = self._heard.get(session)
        return None if at is None else self._clock.boot() - at

    def expired(self, state: LedgerState) -> list[int]:
        """The sessions to be ended now, oldest first; from here on they are never renewed.

        To be asked at each proof. Whoever asks late was itself away, and begins to watch anew.
        """
        now, settings = self._clock.boot(), state.info.settings
        late, self._looked = now - self._looked - settings.proof_interval, now
        self._notice(state, now)
        if late * 4 > settings.session_lease:
            self.restart_observation("late")
        patience = _patience(settings)
        if now - self._since < patience:
            return []
        silent = sorted(self._quiet_for(patience, now))
        self._judged = {uid: at for uid, at in self._judged.items() if now - at < patience}
        if silent and not self._doubted and self._is_mass(patience, now):
            self.restart_observation("mass-silence")
            self._doubted = True
            return []
        self._doubted = False
        self._ending.update(silent)
        self._judged |= dict.fromkeys(silent, now)
        return silent

    def end_in(self, draft: LedgerState) -> list[int]:
        """The sessions that a draft ends, for whatever reason; from here on they are never renewed.

        Their fences are counted from when that was decided, and the store may take its time.
        """
        sessions = draft.sessions
        assert isinstance(sessions, OverlayTable), "what is durable ends nothing any more"
        ended = [uid for uid in sessions.changed_keys() if uid not in sessions]
        self._ending.update(ended)
        return ended

    def end_failed(self, session: int) -> None:
        """The end of this session was not logged after all: it may be renewed and judged again."""
        self._ending.discard(session)
        self._judged.pop(session, None)

    def _notice(self, state: LedgerState, now: int) -> None:
        """A session is watched from when it is first seen: one that was just opened has had no time to be silent."""
        if state.info.seq == self._noticed:
            return
        self._noticed = state.info.seq
        heard = self._heard
        self._heard = {uid: heard.get(uid, now) for uid, _ in state.sessions.unordered()}
        self._ending &= self._heard.keys()

    def _quiet_for(self, duration: int, now: int) -> list[int]:
        return [uid for uid, at in self._heard.items() if now - at >= duration and uid not in self._ending]

    def _is_mass(self, patience: int, now: int) -> bool:
        """Heartbeats are spread over time, and so is the silence after a cut: whoever missed two of them, and whoever
        was judged in the last period, is counted with those who are due."""
        quiet = self._judged.keys() | set(self._quiet_for(patience // 2, now))
        known = self._judged.keys() | self._heard.keys()
        return len(quiet) >= MASS_MIN and len(quiet) * 100 > len(known) * MASS_PERCENT


def _patience(settings: Settings) -> int:
    return with_drift(settings.session_lease, settings) + MARGIN_MS
