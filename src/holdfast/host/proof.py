"""How much a leader's word is worth: its last proof, and how long ago that began.

A term is proven by a write that landed on the head, or by a reading of the head that began after the question was
asked. Renewals are worth the lease less the proof's age; a leader whose proof is older than half a lease is silent.
"""

from __future__ import annotations

from holdfast.core.model.settings import Settings
from holdfast.core.model.shapes import Row
from holdfast.host.clock import Clock


class Renewal(Row, frozen=True):
    """What a heartbeat is answered: the session lives for `worth` milliseconds from when the heartbeat was sent.

    `(log_id, term)` is to be remembered by whoever hears it: a lower one is a deposed leader's.
    """

    log_id: str
    term: int
    worth: int


class Proof:
    """The proofs of one term. Time is this machine's even clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: int | None = None
        self._first: int | None = None

    def proven(self, began: int) -> None:
        """The store confirmed the term by something that began at `began`."""
        self._began = began if self._began is None else max(self._began, began)
        self._first = began if self._first is None else self._first

    def age(self) -> int | None:
        """Milliseconds since the last proof began; None before the first."""
        return None if self._began is None else self._clock.boot() - self._began

    def span(self) -> int:
        """How long this term has proven itself: from its first proof to its last."""
        return 0 if self._began is None or self._first is None else self._began - self._first

    def is_young(self, settings: Settings) -> bool:
        """Whether answers may be given: the last proof is at most half a lease old."""
        age = self.age()
        return age is not None and age * 2 <= settings.session_lease

    def worth(self, settings: Settings) -> int:
        """How long a renewal given now holds."""
        age = self.age()
        return 0 if age is None else max(0, settings.session_lease - age)

    def covers(self, asked: int) -> bool:
        """Whether a proof began at or after `asked`: what a linear read waits for."""
        return self._began is not None and self._began >= asked
