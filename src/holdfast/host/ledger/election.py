"""When a follower stands (RULES 5).

It stands when it saw no sign of a leader for six proof intervals and could itself read the head in that time: a server
that is cut off from the store does not stand. The wait doubles with each term of the last ten minutes that ended before
it had proven itself for a lease, so that two servers that depose one another soon leave room for one.
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
    """What one server has seen of leaders, by its own even clock. `alone`: no other server can open the store."""

    def __init__(self, clock: Clock, *, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._head = Head()
        #: Since when there was no sign of a leader, and when the newest reading that showed none began. What happened
        #: after that is not known, however late it is: whoever was paused holds an old answer.
        self._since = self._silent_until = clock.boot()
        self._term = 0
        self._began = self._since
        self._sign = self._since
        self._short: deque[int] = deque()
        self._deposed = False

    def saw(self, head: Head, term: int, settings: Settings, began: int) -> None:
        """The head was read, by a call that began then, and this is the newest term in the log up to it."""
        now = self._clock.boot()
        self._silent_until = began
        if term != self._term:
            self._next(term, settings.session_lease, now)
        if head != self._head:
            self._head, self._since, self._sign = head, now, now

    def led(self, term: int, proven_for: int, settings: Settings) -> None:
        """This server led this term until now; so much time lay between its first proof and its last."""
        now = self._clock.boot()
        self._next(term, settings.session_lease, now)
        self._began = now - proven_for

    def _next(self, term: int, lease: int, now: int) -> None:
        if self._term and self._sign - self._began < lease:
            self._short.append(now)
        self._term, self._began, self._sign = term, now, now

    def stepped_down(self, *, deposed: bool) -> None:
        """This server no longer leads; `deposed`: somebody else does."""
        self._deposed = self._deposed or deposed
        self._since = self._clock.boot()

    def wait(self, settings: Settings) -> int:
        """How long without a sign before this server stands."""
        now = self._clock.boot()
        while self._short and now - self._short[0] > REMEMBERED_MS:
            self._short.popleft()
        return min(MISSED_PROOFS * settings.proof_interval << min(len(self._short), 16), WAIT_MAX_MS)

    def is_due(self, settings: Settings) -> bool:
        """Whether it is this server's turn to try."""
        if self._alone and not self._deposed:
            return True
        return self._silent_until - self._since >= self.wait(settings)
