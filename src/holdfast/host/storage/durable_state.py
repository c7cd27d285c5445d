"""The durable state of one server, and the waiters for a batch.

All reads, watches, forks and snapshots see this state, which contains committed batches only. A batch is decided on an
overlay, and merged in the loop turn in which it is answered and published (RULES 10).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Generic

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, fold
from holdfast.core.ledger.revision import RevisionToken, token_of
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import Diverged, NotReached, StoreWentBackwards, show_token
from holdfast.host.ports.store import Head, LogStore

#: Number of recent digests in memory, to check revision tokens against.
DIGESTS_KEPT = 4_096
#: Finished waiters beyond this number are removed.
WAITERS_KEPT = 256

Listener = Callable[[Batch[Any]], None]


def leader_named(batch: Batch[Any]) -> str:
    """Return the server whose term begins with this batch, by its first two records; empty: none."""
    firsts = (event for record in batch.records[:2] for event in record.events[:1])
    return next((event.leader for event in firsts if type(event) is TermStarted), "")


class DurableState(Generic[S]):
    """A state that moves on by complete, committed batches only."""

    def __init__(self, definition: LedgerDefinition[S], state: S) -> None:
        self.definition = definition
        self.state = state
        #: Called with every batch, in order, in the turn in which it is applied. They must not wait or raise.
        self.listeners: list[Listener] = []
        #: Bytes of the log applied since this state was loaded.
        self.log_bytes = 0
        #: The server that started the newest term; empty if unknown.
        self.leader = ""
        self._recent: deque[tuple[int, int, bytes]] = deque(maxlen=DIGESTS_KEPT)
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._asked = 0
        #: Number of waiters that have finished since the last cleanup.
        self._done = 0
        self._remember()

    def install(self, state: S, leader: str = "") -> None:
        """Replace this state by a loaded one, which must not be older.

        The leader that started its term is in `leader`, if it was seen during loading.
        """
        assert state.info.seq >= self.state.info.seq, (state.info.seq, self.state.info.seq)
        same_term = state.info.term == self.state.info.term
        self.leader = leader or (self.leader if same_term else "")
        self.state = state
        self._recent.clear()
        self._remember()
        self._wake(state.info.seq)

    def head(self, floor: int = 0) -> Head:
        facts = self.state.info
        return Head(facts.log_id, facts.seq, facts.digest, floor)

    def token(self) -> RevisionToken:
        """Return the position of this state as a revision token."""
        facts = self.state.info
        return token_of(facts.log_id, facts.term, facts.seq, facts.digest)

    def commit(self, draft: BatchDraft[S], size_bytes: int) -> None:
        """Merge the draft of a durable batch, and notify the listeners."""
        batch = draft.batch()
        draft.commit()
        self._moved_on(batch, size_bytes)

    def apply(self, batch: Batch[Any], size_bytes: int) -> None:
        """Apply the next batch from the log to the state."""
        fold(self.definition, self.state, batch)
        self._moved_on(batch, size_bytes)

    def _moved_on(self, batch: Batch[Any], size_bytes: int) -> None:
        self.log_bytes += size_bytes
        self.leader = leader_named(batch) or self.leader
        self._remember()
        for listener in self.listeners:
            listener(batch)
        self._wake(batch.header.seq)

    def _wake(self, seq: int) -> None:
        while self._waiting and self._waiting[0][0] <= seq:
            waiter = heapq.heappop(self._waiting)[2]
            if not waiter.done():
                waiter.set_result(None)

    def _remember(self) -> None:
        facts = self.state.info
        if facts.seq:
            self._recent.append((facts.seq, facts.term, facts.digest))

    async def wait_for(self, seq: int, timeout_ms: int) -> None:
        """Return once batch `seq` is part of the state. Raise `NotReached` after the timeout."""
        if self.state.info.seq >= seq:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._waiting, (seq, self._asked, waiter))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            here = self.state.info.seq
            raise NotReached(f"batch {seq} was not reached within {timeout_ms} ms; this server is at {here}") from None
        finally:
            self._tidy()

    def _tidy(self) -> None:
        """Remove finished waiters now and then: their batches may never arrive."""
        self._done += 1
        if self._done * 2 > len(self._waiting) + WAITERS_KEPT:
            self._waiting = [one for one in self._waiting if not one[2].done()]
            heapq.heapify(self._waiting)
            self._done = 0

    def must_be_of_this_log(self, held: RevisionToken) -> None:
        """Raise `Diverged` if the token is of another log."""
        if self.state.info.log_id not in ("", held.log_id):
            raise Diverged(f"{show_token(held)} is not in this log, which is at {show_token(self.token())}: list again")

    async def verify(self, held: RevisionToken, log: LogStore) -> RevisionToken:
        """Return the token of the same batch in this log.

        Raises `Diverged` if the token is not in this log, and `LogTrimmed` if its batch is trimmed.
        """
        facts = self.state.info
        if held.log_id != facts.log_id or held.seq > facts.seq:
            raise Diverged(f"{show_token(held)} is not in this log, which is at {show_token(self.token())}: list again")
        term, digest = await self._batch_at(held.seq, log)
        if digest[: len(held.digest_start)] != held.digest_start:
            here = f"batch {held.seq} of this log has digest {digest[:8].hex()}"
            raise Diverged(f"{show_token(held)} is not in this log ({here}): list again")
        return token_of(held.log_id, term, held.seq, digest)

    async def _batch_at(self, seq: int, log: LogStore) -> tuple[int, bytes]:
        """Return the term and digest of a batch, from memory or from the log."""
        if not seq:
            return 0, b""
        if self._recent and seq >= self._recent[0][0]:
            return self._recent[seq - self._recent[0][0]][1:]
        stored = (await log.read(seq, 1))[0]
        return self.definition.batches.header(stored.raw).term, stored.digest


def check_forward(store: str, seen: Head, head: Head) -> None:
    """Raise `StoreWentBackwards` unless `head` can be a successor of `seen`."""
    is_same = head.seq == seen.seq and head.same_place(seen)
    if is_same or seen.seq == 0 or (head.seq > seen.seq and head.log_id == seen.log_id):
        return
    raise StoreWentBackwards(
        f"{store} was at {_show(seen)} and is at {_show(head)} now; this server stops. "
        "hint: if the store was restored from a backup, start a new log from it; if it was copied, use the original"
    )


def _show(head: Head) -> str:
    return f"{head.log_id or 'nothing'}:{head.seq}:{head.digest[:8].hex()}"
