"""When a follower becomes a candidate (RULES 5).

It does after six proof intervals without a leader's heartbeat, if it could read the head in that time: a server without
the store is no candidate. The wait doubles with each term of the last ten minutes that was not proven for a lease, so
that servers stop deposing each other.
"""

from __future__ import annotations

from collections import deque

from holdfast.core.model.values.settings import Settings
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head

MISSED_PROOFS = 6
WAIT_MAX_MS = 120_000
REMEMBERED_MS = 600_000


class Election:
    """One server's observations of leaders, by its boot clock; it may be the store's only server."""

    def __init__(self, clock: Clock, *, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._head = Head()
        #: When the last heartbeat was seen, and when the newest read without one began. Its end does not count: after a
        #: pause the result is old.
        self._since = self._silent_until = clock.boot()
        self._term = 0
        self._began = self._since
        self._sign = self._since
        self._short: deque[int] = deque()
        self._deposed = False

    def saw(self, head: Head, term: int, settings: Settings, began: int) -> None:
        """Record a read of the head that began at `began`, and the newest term in the log up to it."""
        now = self._clock.boot()
        self._silent_until = began
        if term != self._term:
            self._next(term, settings.session_lease, now)
        if head != self._head:
            self._head, self._since, self._sign = head, now, now

    def led(self, term: int, proven_for: int, settings: Settings) -> None:
        """Record that this server led this term until now, and the time between its first and its last proof."""
        now = self._clock.boot()
        self._next(term, settings.session_lease, now)
        self._began = now - proven_for

    def _next(self, term: int, lease: int, now: int) -> None:
        if self._term and self._sign - self._began < lease:
            self._short.append(now)
        self._term, self._began, self._sign = term, now, now

    def stepped_down(self, *, deposed: bool) -> None:
        """Record that this server no longer leads; `deposed`: another one does."""
        self._deposed = self._deposed or deposed
        self._since = self._clock.boot()

    def wait(self, settings: Settings) -> int:
        """Return how long without a heartbeat makes this server a candidate."""
        now = self._clock.boot()
        while self._short and now - self._short[0] > REMEMBERED_MS:
            self._short.popleft()
        return min(MISSED_PROOFS * settings.proof_interval << min(len(self._short), 16), WAIT_MAX_MS)

    def is_due(self, settings: Settings) -> bool:
        """Whether this server should be a candidate now."""
        if self._alone and not self._deposed:
            return True
        return self._silent_until - self._since >= self.wait(settings)
