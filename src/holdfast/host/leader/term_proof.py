"""The last proof of a term, and its age.

A proof is a write on the head, or a read of the head that started after the request. A renewal is valid for the lease
less the proof's age. A leader whose proof is older than half a lease does not answer.
"""

from __future__ import annotations

import asyncio

from holdfast.core.model.values.settings import DEFAULT_TIMES, AgentTimes, Settings
from holdfast.core.model.values.structs import Row
from holdfast.host.ports.clock import Clock


class SessionRenewal(Row, frozen=True):
    """The answer to a heartbeat: the session is valid for `worth` milliseconds from when the heartbeat was sent.

    The receiver remembers `(log_id, term)`: a lower pair is from a deposed leader. The agent applies `times` before it
    relies on the renewal.
    """

    log_id: str
    term: int
    worth: int
    times: AgentTimes = DEFAULT_TIMES


class TermProof:
    """The proofs of one term, by this machine's boot clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When the first proof began, and when the latest.
        self._span: tuple[int, int] | None = None
        #: The number of proof requests, and the newest that succeeded.
        self.questions = self._answered = 0
        self._waiting: list[asyncio.Future[None]] = []

    def next_question(self) -> int:
        """Return the number of a new proof request, which orders requests within a millisecond."""
        self.questions += 1
        return self.questions

    def confirm(self, began: int, question: int) -> None:
        """Record that the store confirmed this request, which was sent at `began`."""
        first, latest = self._span or (began, began)
        self._span = (first, max(latest, began))
        self._answered = max(self._answered, question)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def age(self) -> int | None:
        """Return the milliseconds since the last proof began; None before the first."""
        return None if self._span is None else self._clock.boot() - self._span[1]

    def span(self) -> int:
        """Return the time from this term's first proof to its last."""
        first, latest = self._span or (0, 0)
        return latest - first

    def is_fresh(self, settings: Settings) -> bool:
        """Whether the leader may answer: the last proof is at most half a lease old."""
        age = self.age()
        return age is not None and age * 2 <= settings.session_lease

    def lease_left(self, settings: Settings) -> int:
        """Return how long a renewal given now is valid."""
        age = self.age()
        return 0 if age is None else max(0, settings.session_lease - age)

    async def wait_next(self) -> None:
        """Return after the next proof."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def covers(self, questions: int) -> bool:
        """Whether a request later than this number has succeeded, as a linear read requires."""
        return self._answered > questions
