"""The durable state of one server, and who waits for it.

Everything that reads, watches, forks or snapshots sees this state, which holds landed batches only: a batch is decided
on an overlay and merged in the loop turn in which it is answered and published (RULES 10).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, fold
from holdfast.core.ledger.revision import RevisionToken, token_of
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import Diverged, NotReached, StoreWentBackwards, show_token
from holdfast.host.ports.store import Head, LogStore

S = TypeVar("S", bound=LedgerState)

#: Of how many batches the digests are kept in memory, to check tokens against.
DIGESTS_KEPT = 4_096
#: So many who wait no longer are not worth tidying away.
WAITERS_KEPT = 256

Listener = Callable[[Batch[Any]], None]


def leader_named(batch: Batch[Any]) -> str:
    """The server whose term begins with this batch; empty if none does. A term begins its batch, or follows the log."""
    firsts = (event for record in batch.records[:2] for event in record.events[:1])
    return next((event.leader for event in firsts if type(event) is TermStarted), "")


class DurableState(Generic[S]):
    """A state that only moves on by whole, landed batches."""

    def __init__(self, definition: LedgerDefinition[S], state: S) -> None:
        self.definition = definition
        self.state = state
        #: Told of every batch, in order, in the turn in which it becomes the state. They must not wait or raise.
        self.listeners: list[Listener] = []
        #: How many bytes of the log went into this state since it was loaded.
        self.log_bytes = 0
        #: The server that the newest term in the log was begun by; empty when that was not seen.
        self.leader = ""
        self._recent: deque[tuple[int, int, bytes]] = deque(maxlen=DIGESTS_KEPT)
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._asked = 0
        #: How many have stopped waiting since they were last tidied away.
        self._done = 0
        self._remember()

    def install(self, state: S, leader: str = "") -> None:
        """A state that was loaded takes the place of this one, which it must not lie behind.

        `leader` is who began its term, if that was seen while it was loaded.
        """
        assert state.info.seq >= self.state.info.seq, (state.info.seq, self.state.info.seq)
        same_term = state.info.term == self.state.info.term
        self.leader = leader or (self.leader if same_term else "")
        self.state = state
        self._recent.clear()
        self._remember()
        self._wake(state.info.seq)

    def head(self, floor: int = 0) -> Head:
        """Where this state is, as a store would say it."""
        facts = self.state.info
        return Head(facts.log_id, facts.seq, facts.digest, floor)

    def token(self) -> RevisionToken:
        """Where this state is, for a reader to come back to."""
        facts = self.state.info
        return token_of(facts.log_id, facts.term, facts.seq, facts.digest)

    def commit(self, draft: BatchDraft[S], size_bytes: int) -> None:
        """The draft's batch is durable: it becomes the state, and everybody is told."""
        batch = draft.batch()
        draft.commit()
        self._moved_on(batch, size_bytes)

    def apply(self, batch: Batch[Any], size_bytes: int) -> None:
        """The next batch from the log becomes the state."""
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
        """Return once batch `seq` is part of the state. `NotReached` when that takes longer."""
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
        """Forget those who no longer wait, now and then: what some of them waited for may never come."""
        self._done += 1
        if self._done * 2 > len(self._waiting) + WAITERS_KEPT:
            self._waiting = [one for one in self._waiting if not one[2].done()]
            heapq.heapify(self._waiting)
            self._done = 0

    def must_be_of_this_log(self, held: RevisionToken) -> None:
        """`Diverged` when the token is of another log: no waiting will make it part of this one."""
        if self.state.info.log_id not in ("", held.log_id):
            raise Diverged(f"{show_token(held)} is not in this log, which is at {show_token(self.token())}: list again")

    async def verify(self, held: RevisionToken, log: LogStore) -> RevisionToken:
        """The token's batch as this log has it. `Diverged` unless it is part of it; `LogTrimmed` where nobody can
        tell."""
        facts = self.state.info
        if held.log_id != facts.log_id or held.seq > facts.seq:
            raise Diverged(f"{show_token(held)} is not in this log, which is at {show_token(self.token())}: list again")
        term, digest = await self._batch_at(held.seq, log)
        if digest[: len(held.digest_start)] != held.digest_start:
            here = f"batch {held.seq} of this log has digest {digest[:8].hex()}"
            raise Diverged(f"{show_token(held)} is not in this log ({here}): list again")
        return token_of(held.log_id, term, held.seq, digest)

    async def _batch_at(self, seq: int, log: LogStore) -> tuple[int, bytes]:
        """The term and the digest of a batch: as they are remembered, or else by the log."""
        if not seq:
            return 0, b""
        if self._recent and seq >= self._recent[0][0]:
            return self._recent[seq - self._recent[0][0]][1:]
        stored = (await log.read(seq, 1))[0]
        return self.definition.batches.header(stored.raw).term, stored.digest


def check_forward(store: str, seen: Head, head: Head) -> None:
    """`StoreWentBackwards` unless `head` can be what `seen` became."""
    is_same = head.seq == seen.seq and head.same_place(seen)
    if is_same or seen.seq == 0 or (head.seq > seen.seq and head.log_id == seen.log_id):
        return
    raise StoreWentBackwards(
        f"{store} was at {_show(seen)} and is at {_show(head)} now; this server stops. "
        "hint: if the store was restored from a backup, start a new log from it; if it was copied, use the original"
    )


def _show(head: Head) -> str:
    return f"{head.log_id or 'nothing'}:{head.seq}:{head.digest[:8].hex()}"
