"""Common parts of streams of a leader's log, to regions and to mirrors: leadership, position, frames and end.

    since ──▶ in this log, and its successors are there ──▶ resume     `Diverged`, `Gone`: list, or start over

A reader's position is verified only here; the server of the stream decides what the result means for the reader.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import Gone, NotLeading, NotProven, NotReached, Unavailable, show_token
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.store import LogTrimmed, StoreError
from holdfast.host.runtime.telemetry import Logger


def proven_leader(ledger: Ledger[S]) -> Leader[S]:
    """Return the leader, if this server can prove that it is one, or raise `Unavailable`."""
    if ledger.leader is None:
        raise NotLeading(f"{ledger.identity.server} is {ledger.role.value}")
    ledger.leader.term.must_be_proven()
    return ledger.leader


async def resume_point(ledger: Ledger[S], held: RevisionToken) -> RevisionToken:
    """Return the reader's position as a token of this log: a stream can resume after it.

    Raises `Diverged` if it is not in this log, as far as its digest shows; `Gone` if the batches after it are trimmed;
    `NotReached` if the store does not answer.
    """
    gone = f"the log no longer reaches back to {show_token(held)}: start over"
    try:
        found = await ledger.durable.verify(held, ledger.store)
        floor = (await ledger.store.head()).floor
    except LogTrimmed as error:
        raise Gone(gone) from error
    except StoreError as error:
        raise NotReached(f"{show_token(held)} cannot be verified: {error}") from error
    if held.seq < floor:
        raise Gone(gone)  # digests stay in memory for longer than the batches in the log
    return found


async def stream_frames(
    messages: AsyncGenerator[Any, None], last: Callable[[], Any], count: Callable[[int], None], logger: Logger
) -> AsyncGenerator[bytes, None]:
    """Yield every message, encoded, and `last` once this server no longer leads. `count` is called with 1, and with -1
    at the end."""
    count(1)
    try:
        async with aclosing(messages):
            async for message in messages:
                yield encode(message)
    except (NotLeading, NotProven) as error:
        logger.info("leads-no-more", why=error)
        yield encode(last())
    except (Unavailable, StoreError) as error:
        logger.warning("stream-broke", why=error)
    finally:
        count(-1)


async def close_frames(frames: AsyncIterator[bytes]) -> None:
    """End a stream from its reader's side."""
    if isinstance(frames, AsyncGenerator):
        await frames.aclose()
