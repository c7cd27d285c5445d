"""What a controller sees of its ledger, and how it sends commands and classifies failures.

A reconciler never receives an answer: it looks again and finds the state changed or not. A failure decides only
whether to look again soon, and after which revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import ProposedCommand, principal
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.watch.key_changes import KeyChanges

S = TypeVar("S")


class LedgerView(Struct, Generic[S], frozen=True):
    """Durable state, ledger time now, and the revision up to which the state holds everything."""

    state: S
    now: Instant
    revision: Revision


class LedgerClient(Protocol[S]):
    """What controllers need of the ledger they run beside."""

    def view(self) -> LedgerView[S]:
        """What is durable now. The state is for reading in this turn of the loop, and not to be kept."""

    async def submit(self, envelope: Envelope[Any]) -> Committed | Refused | Repeated:
        """The answer, once what it speaks of is in `view`. Cancelled, the command may land all the same."""

    def changes(self) -> KeyChanges:
        """What changes from this call on."""


class SendFailure(Struct, frozen=True):
    """Why something was in vain. With `catch_up_to`, a view of that revision is the cure."""

    result: str
    error: str
    catch_up_to: Revision = 0


class Proposer(Generic[S]):
    """Sends commands in the name of one controller."""

    def __init__(
        self, controller: str, ledger: LedgerClient[S], clock: Clock, metrics: Metrics, timeout_ms: int
    ) -> None:
        self._controller = controller
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._logger = Logger("reconcile", controller=controller)
        self._timeout_ms = timeout_ms

    async def send(self, view: LedgerView[S], wanted: Sequence[ProposedCommand]) -> list[SendFailure | None]:
        """What was in vain, in the order of the commands; None for one that landed.

        They are handed over in order and without waiting for each other's answers, so that one batch can hold them all.
        """
        if not wanted:
            return []
        # Not in a task group: that would cancel them in an order of its own.
        return await asyncio.gather(*(self._send_one(self._envelope(view, one)) for one in wanted))

    def _envelope(self, view: LedgerView[S], wanted: ProposedCommand) -> Envelope[Any]:
        actor = principal(self._controller)
        return Envelope(
            actor, wanted.command, sent=view.now, cause=wanted.cause, view=view.revision, expect=wanted.expect
        )

    async def _send_one(self, envelope: Envelope[Any]) -> SendFailure | None:
        command = type(envelope.command).__name__
        try:
            answer = await within(self._clock, self._timeout_ms, self._ledger.submit(envelope))
        except Exception as error:
            name = type(error).__name__
            self._metrics.count("reconcile_errors", controller=self._controller, error=name)
            self._logger.warning("submit-failed", command=command, error=name, why=str(error))
            result = "late" if isinstance(error, DeadlinePassed) else "failed"
            return SendFailure(result, f"{command}: {name}: {error}")
        if not isinstance(answer, Refused):
            return None
        self._metrics.count("reconcile_refused", controller=self._controller, code=answer.code.value)
        behind = answer.facts.get("catch_up_to", 0) if answer.code is Code.STALE else 0
        return SendFailure("refused", f"{command}: {answer.code.value}: {answer.message}", behind)


def one_line_error(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {error}"


def worst_failure(problems: Sequence[SendFailure]) -> SendFailure | None:
    """The one to act on: the first that no newer view cures, or else the one that waits for the newest view."""
    hard = next((problem for problem in problems if not problem.catch_up_to), None)
    return hard or max(problems, key=lambda problem: problem.catch_up_to, default=None)
