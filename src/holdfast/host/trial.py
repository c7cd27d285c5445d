"""A command tried out: judged as the leader would judge it now, and thrown away."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.draft import Draft, Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state import LedgerState
from holdfast.host.errors import Failed
from holdfast.host.term import Term

S = TypeVar("S", bound=LedgerState)


class Tried(Struct, Generic[S], frozen=True):
    """What a command would be answered, and the state as it would be then.

    The state is an overlay on the durable one: look at it in this turn of the loop, and do not keep it.
    """

    answer: Landed | Refused | Repeated
    state: S


def try_out(term: Term[S], envelope: Envelope[Any]) -> Tried[S]:
    """Judge a command on what is durable now. `Failed` when it cannot be judged by a fault of ours."""
    draft = Draft(term.durable.book, term.durable.state)
    command = type(envelope.command).__name__
    try:
        answer = draft.consider(envelope, term.now())
        if isinstance(answer, Landed):
            draft.seal()
    except Exception as error:
        term.meters.count("trials_failed", command=command)
        term.journal.error("trial-failed", error, command=command, actor=envelope.actor)
        raise Failed(f"judging {command} failed: {type(error).__name__}; it was logged") from error
    term.meters.count("trials")
    if isinstance(answer, Refused):
        term.denied(envelope, answer)
    return Tried(answer, draft.state)
