"""The volatile state of one term of one leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import NotLeading, NotProven
from holdfast.host.leader.lanes import CommandLanes
from holdfast.host.leader.ledger_time import LedgerTime
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
