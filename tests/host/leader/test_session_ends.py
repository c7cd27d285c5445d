"""The end of a silent session is answered: it is renewed again only if it has surely not ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.host.errors import Failed, OutcomeUnknown, Overloaded
from holdfast.host.leader.lanes import QueuedCommand
from holdfast.host.leader.leader import Leader

CANCELLED = asyncio.CancelledError


async def is_renewed_again(answer: Any, *, shed: bool = False) -> bool:
    """End session 7, answer that, and see whether it may be renewed after all."""
    waits: list[QueuedCommand] = []
    again: list[int] = []

    def add(one: QueuedCommand) -> None:
        if shed:
            raise answer
        waits.append(one)

    leader: Any = Leader.__new__(Leader)
    leader._loop = asyncio.get_running_loop()
    leader.term = SimpleNamespace(
        now=lambda: 0, lanes=SimpleNamespace(add=add), sessions=SimpleNamespace(end_failed=again.append)
    )
    leader._end(7)
    for one in waits:
        if answer is CANCELLED:
            one.answer.cancel()
        elif isinstance(answer, Exception):
            one.answer.set_exception(answer)
        else:
            one.answer.set_result(answer)
    await asyncio.sleep(0)
    assert again in ([], [7])
    return bool(again)


@pytest.mark.parametrize(
    ("answer", "renewed"),
    [
        (Committed(1, b""), False),
        (OutcomeUnknown("the store did not answer"), False),
        (Refused(Code.NO_SESSION, "it is gone", {}), True),
        (Failed("it cannot be judged"), True),
        (CANCELLED, True),
    ],
)
def test_a_session_whose_end_may_be_in_the_log_is_never_renewed_again(answer: Any, renewed: bool) -> None:
    assert asyncio.run(is_renewed_again(answer)) is renewed


def test_a_session_whose_end_was_shed_is_renewed_and_judged_again() -> None:
    assert asyncio.run(is_renewed_again(Overloaded("too much"), shed=True))
