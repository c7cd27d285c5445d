"""The volatile state of one term of one leader, and its ledger time.

Ledger time: the timestamps that a leader puts on accepted commands.

    at = base + elapsed on the boot clock, drawn towards the wall clock by at most 500 parts in a million

It starts at the later of the last stamp in the log and the wall clock, always runs, and never jumps. A wall clock that
is an hour wrong causes an hour of offset, which later leaders reduce slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import NotLeading, NotProven
from holdfast.host.leader.lanes import CommandLanes
from holdfast.host.leader.refusal_cache import RefusalCache
from holdfast.host.leader.scheduler_board import SchedulerBoard
from holdfast.host.leader.session_monitor import SessionMonitor
from holdfast.host.leader.term_proof import TermProof
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head, Store
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.durable_state import DurableState, check_forward
from holdfast.host.storage.space import SpaceMonitor

S = TypeVar("S", bound=LedgerState)

#: Called with every refusal that is answered.
OnDenied = Callable[[Envelope[Any], Refused], None]


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


#: Nanoseconds per millisecond: a slew in parts per million needs no division.
NANOS = 1_000_000
SLEW_PER_MILLION = 500
#: A wall clock that deviates more from the boot clock was set.
STEP_MS = 60_000


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
