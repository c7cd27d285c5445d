"""What streams of a leader's log have in common, those of regions and of mirrors: who sends, from where, how they end.

    since ──▶ in this log, and what follows is there ──▶ go on        `Diverged`, `Gone`: list, or begin anew

A place that somebody says to have come to is read here and nowhere else: what the log has there is told, and whoever
serves the stream judges what that means for its reader.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import Gone, NotLeading, NotReached, show_token
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.store import LogTrimmed, StoreError

S = TypeVar("S", bound=LedgerState)


def proven_leader(ledger: Ledger[S]) -> Leader[S]:
    """The leader, if this server is one and can show it. `Unavailable` otherwise."""
    if ledger.leader is None:
        raise NotLeading(f"{ledger.identity.server} is {ledger.role.value}")
    ledger.leader.term.must_be_proven()
    return ledger.leader


async def resume_point(ledger: Ledger[S], held: RevisionToken) -> RevisionToken:
    """The place that a reader has come to, as this log has it: a stream can go on after it.

    `Diverged` when it is not in this log, as far as its digest tells; `Gone` when what follows it is trimmed;
    `NotReached` when the store does not say.
    """
    gone = f"the log no longer reaches back to {show_token(held)}: begin anew"
    try:
        found = await ledger.durable.verify(held, ledger.store)
        floor = (await ledger.store.head()).floor
    except LogTrimmed as error:
        raise Gone(gone) from error
    except StoreError as error:
        raise NotReached(f"{show_token(held)} cannot be looked up: {error}") from error
    if held.seq < floor:
        raise Gone(gone)  # that it was in this log is remembered for longer than what followed it
    return found


async def close_frames(frames: AsyncIterator[bytes]) -> None:
    """End a stream from its reader's side."""
    if isinstance(frames, AsyncGenerator):
        await frames.aclose()
