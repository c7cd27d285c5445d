"""One append, retried until its outcome is known: committed, lost, no space, or given up (RULES 2).

    append --> WriteOk                                              committed
           --> WriteConflict, the head is our own batch             committed: an earlier attempt had arrived
           --> WriteConflict, ours is below the head                committed, and another server leads now
           --> WriteConflict otherwise                              lost: it is not in the log
           --> WriteFull, and no earlier attempt is open            nothing written
           --> WriteUnknown                                         the same bytes again, at the same position

The append runs in a task of its own that is never cancelled: a waiter may leave, and the append continues to its end.
Nothing else is appended before that.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import (
    Head,
    LogTrimmed,
    Store,
    StoredBatch,
    WriteConflict,
    WriteFull,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
)
from holdfast.host.runtime.deadlines import is_being_cancelled
from holdfast.host.runtime.telemetry import Metrics

RETRY_FIRST_MS = 20
RETRY_MAX_MS = 1_000


class BatchCommitted(Struct, frozen=True):
    """The batch is in the log. If another leader has appended, `overtaken` is the new head."""

    began: int
    overtaken: Head | None = None


class BatchRejected(Struct, frozen=True):
    """The batch is not in the log and never will be."""

    head: Head


class BatchUnknown(Struct, frozen=True):
    """It is unknown whether the batch is in the log."""

    why: str


AppendResult = BatchCommitted | BatchRejected | WriteFull | BatchUnknown


class AppendTask:
    """An append in flight. `last_error` is the store's last unclear outcome."""

    def __init__(self, store: Store, clock: Clock, metrics: Metrics, after: Head, batch: StoredBatch) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._after = after
        self._batch = batch
        self.digest = batch.digest
        self.began = clock.boot()
        self.last_error = ""
        self._stop = False
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Future[AppendResult] = self._loop.create_future()
        self._task = self._loop.create_task(self._run(), name=f"append {batch.seq}")

    async def settled(self, within_ms: int) -> AppendResult:
        """Return the outcome. After `within_ms` give up: no further attempt starts."""
        alarm = self._loop.call_later(within_ms / 1000, self._give_up, within_ms)
        try:
            # Not the task: a cancelled waiter must not cancel the append.
            return await self._told
        finally:
            alarm.cancel()

    def _give_up(self, within_ms: int) -> None:
        self._stop = True
        self._tell(BatchUnknown(self.last_error or f"{self._store.name} has not answered for {within_ms} ms"))

    def _tell(self, settled: AppendResult) -> None:
        if not self._told.done():
            self._told.set_result(settled)

    async def _run(self) -> None:
        self._tell(await self._settle())

    def is_finished(self) -> bool:
        """Whether no attempt is in flight any more, whatever the outcome."""
        return self._task.done()

    async def _settle(self) -> AppendResult:
        wait, open_before = RETRY_FIRST_MS, False
        while True:
            outcome = await self._try()
            match outcome:
                case WriteOk():
                    return BatchCommitted(self.began)
                case WriteConflict(head):
                    return await self._judge_conflict(head)
                case WriteFull(why) if not open_before:
                    return WriteFull(why)
                case WriteFull(why) | WriteUnknown(why):
                    open_before = open_before or isinstance(outcome, WriteUnknown)
                    self.last_error = why
                    self._metrics.count("append_unknown")
            if not self._stop:
                await self._clock.sleep(wait)
            if self._stop:
                return BatchUnknown(self.last_error)
            wait = min(wait * 2, RETRY_MAX_MS)
            self.began = self._clock.boot()

    async def _try(self) -> WriteOutcome:
        try:
            return await self._store.append(self._after, self._batch)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            return WriteUnknown(f"{self._store.name} cancelled the append by itself: {error}")
        except Exception as error:  # the port guarantees an outcome; after an error it is unknown
            return WriteUnknown(f"{type(error).__name__}: {error}")

    async def _judge_conflict(self, head: Head) -> AppendResult:
        ours = self._batch
        if (head.seq, head.digest) == (ours.seq, ours.digest):
            return BatchCommitted(self.began)
        if head.seq <= ours.seq:
            return BatchRejected(head)
        try:
            under = await self._store.read(ours.seq, 1)
        except LogTrimmed:
            return BatchUnknown(f"batch {ours.seq} is trimmed by now; the head is at {head.seq}")
        except Exception as error:  # any error leaves it unknown which batch is there
            return BatchUnknown(f"{type(error).__name__}: {error}")
        return BatchCommitted(self.began, head) if under and under[0].digest == ours.digest else BatchRejected(head)
