"""The volatile state of one term of one leader: its ledger time, and the last proof of the term.

Ledger time: the timestamps that a leader puts on accepted commands.

    at = base + elapsed on the boot clock, drawn towards the wall clock by at most 500 parts in a million

It starts at the later of the last stamp in the log and the wall clock, always runs, and never jumps. A wall clock that
is an hour wrong causes an hour of offset, which later leaders reduce slowly.

A proof is a write on the head, or a read of the head that started after the request. A renewal is valid for the lease
less the proof's age. A leader whose proof is older than half a lease does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.values.settings import DEFAULT_TIMES, AgentTimes, Settings
from holdfast.core.model.values.structs import Instant, Row
from holdfast.host.errors import NotLeading, NotProven
from holdfast.host.leader.lanes import CommandLanes
from holdfast.host.leader.refusal_cache import RefusalCache
from holdfast.host.leader.scheduler_board import SchedulerBoard
from holdfast.host.leader.session_monitor import SessionMonitor
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head, Store
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.durable_state import DurableState, check_forward
from holdfast.host.storage.space import SpaceMonitor

#: Called with every refusal that is answered.
OnDenied = Callable[[Envelope[Any], Refused], None]
#: Nanoseconds per millisecond: a slew in parts per million needs no division.
NANOS = 1_000_000
SLEW_PER_MILLION = 500
#: A wall clock that deviates more from the boot clock was set.
STEP_MS = 60_000


class SteppedDown(Exception):
    """This server no longer leads. With `deposed`, another one does."""

    def __init__(self, why: str, *, deposed: bool = False) -> None:
        super().__init__(why)
        self.deposed = deposed


class LeaderTerm(Generic[S]):
    """A leader's queued commands, renewed sessions, proofs and time."""

    def __init__(
        self, durable: DurableState[S], store: Store, clock: Clock, metrics: Metrics, logger: Logger, denied: OnDenied
    ) -> None:
        self.durable = durable
        self.store = store
        self.clock = clock
        self.metrics = metrics
        self.logger = logger
        self.time = LedgerTime(clock, durable.state.info.at)
        self.proof = TermProof(clock)
        self.sessions = SessionMonitor(clock, metrics, logger)
        self.space = SpaceMonitor(store, clock, metrics, logger)
        self.lanes = CommandLanes()
        self.refusals = RefusalCache()
        self.schedulers = SchedulerBoard(clock, metrics)
        self.denied = denied
        self.is_over = False
        #: The store's last error during a proof; empty after a success.
        self.last_error = ""

    def now(self) -> int:
        """Return ledger time, never before the last stamp in the log."""
        steps = self.time.steps
        at = self.time.now()
        if self.time.steps != steps:
            self.sessions.restart_observation("clock-set")
        return max(at, self.durable.state.info.at)

    def must_be_leading(self) -> None:
        """Raise if the term has ended."""
        if self.is_over:
            raise NotLeading("this server has stepped down")

    def must_be_proven(self) -> None:
        """Raise unless this server can prove that it leads."""
        self.must_be_leading()
        if not self.proof.is_fresh(self.durable.state.info.settings):
            why = f": {self.last_error}" if self.last_error else ""
            raise NotProven(f"the last proof of this term is {self.proof.age()} ms old{why}")

    def depose(self, ours: Head, head: Head) -> SteppedDown:
        """Return the end of this term: another server moved the head. Raise if the store went backwards."""
        check_forward(self.store.name, ours, head)
        return SteppedDown(f"another server leads: the head is at {head.seq}, not at {ours.seq}", deposed=True)


class LedgerTime:
    """The time of one term. `steps` counts settings of the wall clock."""

    def __init__(self, clock: Clock, last: Instant) -> None:
        self._clock = clock
        self._boot = clock.boot()
        self._wall = clock.wall()
        #: In nanoseconds, since a slew may be below a microsecond.
        self._nanos = max(last, self._wall) * NANOS
        self.steps = 0

    def now(self) -> Instant:
        """Return the current ledger time, which never goes back."""
        boot, wall = self._clock.boot(), self._clock.wall()
        elapsed = max(0, boot - self._boot)
        if abs(wall - self._wall - elapsed) > STEP_MS:
            self.steps += 1
        self._boot, self._wall = boot, wall
        ahead = self._nanos + elapsed * NANOS
        most = elapsed * SLEW_PER_MILLION
        self._nanos = ahead + max(-most, min(most, wall * NANOS - ahead))
        return self._nanos // NANOS


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
