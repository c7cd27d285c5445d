"""Dry runs: commands decided as a leader would, and discarded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from msgspec import Struct

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.draft import BatchDraft, CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import Failed
from holdfast.host.leader.term import LeaderTerm


class DryRunResult(Struct, Generic[S], frozen=True):
    """The answers of commands, each on top of those before it, and the resulting state.

    The state is an overlay, valid in this turn of the loop only.
    """

    answers: tuple[CommandAnswer, ...]
    state: S


def dry_run(term: LeaderTerm[S], envelopes: Sequence[Envelope[Any]]) -> DryRunResult[S]:
    """Decide commands on the durable state. Raise `Failed` if a handler raises."""
    draft = BatchDraft(term.durable.definition, term.durable.state)
    answers = []
    for envelope in envelopes:
        command = type(envelope.command).__name__
        try:
            answer = draft.add(envelope, term.now())
        except Exception as error:
            term.metrics.count("trials_failed", command=command)
            term.logger.error("trial-failed", error, command=command, actor=envelope.actor)
            raise Failed(f"an internal error in {command}: {type(error).__name__}; it was logged") from error
        if isinstance(answer, Refused):
            term.denied(envelope, answer)
        answers.append(answer)
    draft.seal()
    term.metrics.count("trials", len(answers))
    return DryRunResult(tuple(answers), draft.state)
