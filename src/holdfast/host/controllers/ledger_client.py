"""A controller's view of its ledger. Sends commands and classifies failures.

A reconciler never receives an answer: it runs again and finds the state changed or not. A failure decides only when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import ProposedCommand, principal
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.watch.changes import KeyChanges

S = TypeVar("S")


class LedgerView(Struct, Generic[S], frozen=True):
    """Durable state, current ledger time, and the revision up to which the state is complete."""

    state: S
    now: Instant
    revision: Revision


class LedgerClient(Protocol[S]):
    """The operations that controllers need of their ledger."""

    def view(self) -> LedgerView[S]:
        """Return the durable state, for reads in this turn of the loop only."""

    async def submit(self, envelope: Envelope[Any]) -> CommandAnswer:
        """Return the answer once `view` contains its effect. A cancelled command may still be committed."""

    def changes(self) -> KeyChanges:
        """Return the changes from this call on."""


class SendFailure(Struct, frozen=True):
    """Why a command failed. With `catch_up_to`, a retry needs a view of that revision."""

    result: str
    error: str
    catch_up_to: Revision = 0


class Proposer(Generic[S]):
    """Sends commands as the principal of one controller."""

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
        """Send the commands; return the failure of each in their order, None if it succeeded.

        They are submitted in order without waiting for answers, so that one batch can contain them all.
        """
        if not wanted:
            return []
        # A task group would cancel the commands in another order.
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
    return f"{type(error).__name__}: {error}"


def worst_failure(problems: Sequence[SendFailure]) -> SendFailure | None:
    """Return the first failure that no newer view resolves, else that of the newest view."""
    hard = next((problem for problem in problems if not problem.catch_up_to), None)
    return hard or max(problems, key=lambda problem: problem.catch_up_to, default=None)
