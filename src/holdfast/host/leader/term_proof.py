"""How much a leader's word is worth: its last proof, and how long ago that began.

A term is proven by a write that landed on the head, or by a reading of the head that began after the question was
asked. Renewals are worth the lease less the proof's age; a leader whose proof is older than half a lease is silent.
"""

from __future__ import annotations

import asyncio

from holdfast.core.model.values.settings import DEFAULT_TIMES, AgentTimes, Settings
from holdfast.core.model.values.structs import Row
from holdfast.host.ports.clock import Clock


class SessionRenewal(Row, frozen=True):
    """What a heartbeat is answered: the session lives for `worth` milliseconds from when the heartbeat was sent.

    `(log_id, term)` is to be remembered by whoever hears it: a lower one is a deposed leader's. `times` are the numbers
    by which an agent is to act from before it counts on that.
    """

    log_id: str
    term: int
    worth: int
    times: AgentTimes = DEFAULT_TIMES


class TermProof:
    """The proofs of one term. Time is this machine's even clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When the first proof began, and when the latest.
        self._span: tuple[int, int] | None = None
        #: How many questions were put, and the newest that was answered.
        self.questions = self._answered = 0
        self._waiting: list[asyncio.Future[None]] = []

    def next_question(self) -> int:
        """Number a question to the store that is put now. Numbers grow; a millisecond can hold many questions."""
        self.questions += 1
        return self.questions

    def confirm(self, began: int, question: int) -> None:
        """The store confirmed the term in answer to this question, which was put at `began`."""
        first, latest = self._span or (began, began)
        self._span = (first, max(latest, began))
        self._answered = max(self._answered, question)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def age(self) -> int | None:
        """Milliseconds since the last proof began; None before the first."""
        return None if self._span is None else self._clock.boot() - self._span[1]

    def span(self) -> int:
        """How long this term has proven itself: from its first proof to its last."""
        first, latest = self._span or (0, 0)
        return latest - first

    def is_fresh(self, settings: Settings) -> bool:
        """Whether answers may be given: the last proof is at most half a lease old."""
        age = self.age()
        return age is not None and age * 2 <= settings.session_lease

    def lease_left(self, settings: Settings) -> int:
        """How long a renewal given now holds."""
        age = self.age()
        return 0 if age is None else max(0, settings.session_lease - age)

    async def wait_next(self) -> None:
        """Return when the next proof stands."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def covers(self, questions: int) -> bool:
        """Whether a question was answered that was put after so many: what a linear read waits for."""
        return self._answered > questions
