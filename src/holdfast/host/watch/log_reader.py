"""Batches after a position in the log, read from the store.

The position is a revision token. Its batch is read first, to verify that the token is in this log (RULES 9).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import RevisionToken, token_of
from holdfast.host.errors import Diverged, Gone, show_token
from holdfast.host.ports.store import LogStore, LogTrimmed, StoredBatch, StoreError

#: The beginning of any log, for readers that have no token yet.
BEGINNING = RevisionToken("", 0, 0, b"")


def check_not_ahead(token: RevisionToken, head: RevisionToken) -> None:
    """Raise `Diverged` unless the token is behind `head` in the same log."""
    if token.seq >= head.seq or (token.log_id != head.log_id and token != BEGINNING):
        raise Diverged(f"{show_token(token)} is not in this log, which is at {show_token(head)}: list again")


class ReadAhead:
    """The bytes that all readers of a log have read ahead."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    def grant(self, wanted_bytes: int) -> int:
        """Return how much may be read now: at least one batch."""
        return max(1, min(wanted_bytes, self._most_bytes - self.held_bytes))


class LogReader:
    """Reads batches after a position. After a store error, the next call continues without a gap.

    Call `drop` if reading stops before the end.
    """

    def __init__(
        self,
        definition: LedgerDefinition[Any],
        log: LogStore,
        token: RevisionToken,
        read_bytes: int,
        ahead: ReadAhead | None = None,
    ) -> None:
        self.resume_at = token
        self._definition = definition
        self._log = log
        self._read_bytes = read_bytes
        self._ahead = ahead or ReadAhead(read_bytes)
        #: The full digest of the batch at `resume_at`; None until verified.
        self._digest: bytes | None = None
        self._read: deque[StoredBatch] = deque()

    async def verify(self) -> None:
        """Raise `Diverged` if the position is not in this log, `Gone` if it is trimmed."""
        if self._digest is not None:
            return
        place = self.resume_at
        if place.seq == 0:
            found, digest = token_of(place.log_id, 0, 0, b""), b""
        else:
            self._hold(await self._from(place.seq))
            if not self._read:
                raise Diverged(f"{show_token(place)} is beyond the end of {self._log.name}: list again")
            stored = self._hand_out()
            term = self._definition.batches.header(stored.raw).term
            found, digest = token_of(stored.log_id, term, stored.seq, stored.digest), stored.digest
        if found != place:
            raise Diverged(f"{show_token(place)} is not in this log, which has {show_token(found)} there: list again")
        self._digest = digest

    async def next(self) -> Batch[Any]:
        """Return the next batch and advance `resume_at`. Call only below the log's head."""
        await self.verify()
        assert self._digest is not None
        if not self._read:
            self._hold(await self._from(self.resume_at.seq + 1))
        if not self._read:
            raise StoreError(f"{self._log.name}: batch {self.resume_at.seq + 1} is in the log and cannot be read yet")
        stored = self._read[0]
        batch: Batch[Any] = self._definition.batches.read(stored.raw, self._digest, stored.digest)
        self._hand_out()
        self._digest = stored.digest
        self.resume_at = token_of(stored.log_id, batch.header.term, stored.seq, stored.digest)
        return batch

    def drop(self) -> None:
        """Release the batches that were read ahead."""
        self._hold([])

    def _hold(self, read: list[StoredBatch]) -> None:
        for one in self._read:
            self._ahead.held_bytes -= len(one.raw)
        self._read = deque(read)
        for one in read:
            self._ahead.held_bytes += len(one.raw)

    def _hand_out(self) -> StoredBatch:
        first = self._read.popleft()
        self._ahead.held_bytes -= len(first.raw)
        return first

    async def _from(self, first: int) -> list[StoredBatch]:
        try:
            return await self._log.read(first, self._ahead.grant(self._read_bytes))
        except LogTrimmed as error:
            raise Gone(f"the log no longer reaches back to batch {first}: list again ({error})") from error
