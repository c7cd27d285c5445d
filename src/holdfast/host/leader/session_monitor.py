"""Sessions of a leader: renewed in memory, ended in the log (RULES 3, 5).

A session without renewal for a lease, plus drift and a margin, is ended by a command, but only after the leader has
observed for that long without interruption. A pause, an unreachable store or a clock that was set restarts the
observation. If many sessions expire at once, the fault is probably near the leader, and it waits for a second period.
"""

from __future__ import annotations

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.table import OverlayTable
from holdfast.core.model.values.settings import Settings, with_drift
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Added to a lease for the delay of a heartbeat.
MARGIN_MS = 500
#: If more than this percentage of sessions would expire in one period, the leader waits one more.
MASS_PERCENT = 20
#: Fewer than this never count as many.
MASS_MIN = 3


class SessionMonitor:
    """When each session was last renewed, by this leader's boot clock."""

    def __init__(self, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._heard: dict[int, int] = {}
        self._ending: set[int] = set()
        #: When each session of the last period expired; they still count as silent.
        self._judged: dict[int, int] = {}
        self._since = self._looked = clock.boot()
        self._doubted = False
        #: The last batch that updated the sessions: only a batch opens or ends one.
        self._noticed = -1

    def restart_observation(self, why: str) -> None:
        """Restart the observation: a silence that began earlier expires no session."""
        self._since = self._looked = self._clock.boot()
        self._doubted = False
        self._metrics.count("observation_restarts", why=why)
        self._logger.info("observing-anew", why=why)

    def renewed(self, session: int) -> bool:
        """Record a renewal; False if the end of this session is queued."""
        if session in self._ending:
            return False
        self._heard[session] = self._clock.boot()
        return True

    def quiet_ms(self, session: int) -> int | None:
        """Return the milliseconds since this session's last renewal; None: not observed."""
        at = self._heard.get(session)
        return None if at is None else self._clock.boot() - at

    def expired(self, state: LedgerState) -> list[int]:
        """Return the sessions to end now, oldest first; they are never renewed again.

        Called at each proof. A late call means that the leader was absent: the observation restarts.
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
        """Return the sessions that a draft ends; they are never renewed again.

        Their fences count from this decision, however long the store takes.
        """
        sessions = draft.sessions
        assert isinstance(sessions, OverlayTable), "a durable state has no pending ends"
        ended = [uid for uid in sessions.changed_keys() if uid not in sessions]
        self._ending.update(ended)
        return ended

    def end_failed(self, session: int) -> None:
        """The end was not logged: the session may be renewed and expire again."""
        self._ending.discard(session)
        self._judged.pop(session, None)

    def _notice(self, state: LedgerState, now: int) -> None:
        """Update the observed sessions. A new one counts from now."""
        if state.info.seq == self._noticed:
            return
        self._noticed = state.info.seq
        heard = self._heard
        self._heard = {uid: heard.get(uid, now) for uid, _ in state.sessions.unordered()}
        self._ending &= self._heard.keys()

    def _quiet_for(self, duration: int, now: int) -> list[int]:
        return [uid for uid, at in self._heard.items() if now - at >= duration and uid not in self._ending]

    def _is_mass(self, patience: int, now: int) -> bool:
        """Whether many sessions are silent at once.

        Heartbeats are spread over time, so sessions with two missed heartbeats and those that expired in the last
        period count too.
        """
        quiet = self._judged.keys() | set(self._quiet_for(patience // 2, now))
        known = self._judged.keys() | self._heard.keys()
        return len(quiet) >= MASS_MIN and len(quiet) * 100 > len(known) * MASS_PERCENT


def _patience(settings: Settings) -> int:
    return with_drift(settings.session_lease, settings) + MARGIN_MS
