"""An index of a log: it reads the log as it grows and writes rows, so that a search needs no walk through the log.

    committed batches ──▶ those that concern the index, read again with evidence ──▶ rows, and the position of the last

Rows that are lost, damaged or of another log are rebuilt from the log. They outlive the log, which is not trimmed past
what was not read while the store has space. Nothing waits for an index: it reads batches some time after their commit,
several at once. Examples are `decisions` and `audit`.

Size: one life, from the first look to the last row; what differs between indexes is at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import NotReached
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.ports.index_store import IndexPosition, IndexStore
from holdfast.host.ports.store import LogTrimmed, StoredBatch, StoreError
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger

#: Bytes of the log read at once.
READ_BYTES = 4 << 20
#: Unless a reader waits, batches gather for the first time without a new one, or for the second: commits go first.
GATHER_MS, GATHER_MAX_MS = 250, 2_000
#: Unread batches that are remembered. Above that, the log is searched.
WANTED_MAX = 100_000
AFTER_FAILURE_MS, TIDY_EVERY_MS = 30_000, 60_000


class IndexRetention(Struct, frozen=True):
    """How long rows are stored, and in how much space."""

    retention_ms: int = 7 * 86_400_000
    size_bytes: int = 1 << 30


class IndexMetric(Enum):
    """The metrics of an index."""

    FAILED = auto()
    BEGUN_ANEW = auto()
    BEHIND = auto()
    KEPT = auto()
    BYTES = auto()


class LogIndex(ABC, Generic[S]):
    """One index of a log, on one of its servers. `run` it next to the ledger."""

    def __init__(self, name: str, ledger: Ledger[S], kept: IndexStore, lasting: IndexRetention | None = None) -> None:
        self._name = name
        self._ledger = ledger
        self._rows = kept
        self._lasting = lasting or IndexRetention()
        self._clock = ledger.clock
        self._logger = Logger(name, server=ledger.identity.server)
        #: The error that keeps the index from working; empty without one.
        self.last_error = ""
        #: The position read, and the last batch written.
        self._position, self._written = IndexPosition(), 0
        #: The newest observed batch, and the unread batches that concern the index, with their digests.
        self._heard = IndexPosition()
        self._wanted: OrderedDict[int, bytes] = OrderedDict()
        #: Whether all unread batches are noted. If not, the log is read from the position on.
        self._is_sure = False
        #: Events: there is something to read; a reader waits; the position moved.
        self._wake, self._asked, self._moved = ClockEvent(), ClockEvent(), ClockEvent()
        self._tidied = 0
        ledger.durable.listeners.append(self._on_change)
        ledger.snapshots.trim_holds[name] = self.settled

    # For readers

    async def reach(self, seq: int, timeout_ms: int) -> None:
        """Return once everything up to this batch was read. `NotReached` after the timeout."""
        deadline = self._clock.boot() + timeout_ms
        while self.up_to() < seq:
            self._asked.set()
            self._wake.set()
            moved, left = self._moved, deadline - self._clock.boot()
            if not await moved.within(self._clock, max(0, left)):
                why = f": {self.last_error}" if self.last_error else ""
                said = f"{self._name} did not reach batch {seq} within {timeout_ms} ms: it is at {self.up_to()}{why}"
                raise NotReached(said)

    def up_to(self) -> int:
        """Return the last batch up to which all entries are written."""
        before = next(iter(self._wanted), self._heard.seq + 1) - 1
        return max(self._written, before) if self._is_sure else self._written

    async def settled(self) -> int:
        """Return the batch up to which the rows are durable: the log may be trimmed up to it."""
        try:
            return await self._rows.settle()
        except StoreError as error:
            self._logger.warning("not-settled", why=error)
            return 0

    # Lifecycle

    async def run(self) -> None:
        """Read until cancelled. Errors of the index's store are logged and retried."""
        while True:
            try:
                await self._follow()
            except StoreError as error:
                self.last_error = str(error)
                self.measure(IndexMetric.FAILED, 1)
                self._logger.warning("not-kept", why=error)
                await self._clock.sleep(AFTER_FAILURE_MS)

    async def _follow(self) -> None:
        await self._ledger.begun(*(role for role in Role if role is not Role.LOADING))
        self._is_sure = False
        self.restart()
        self._position = await self._rows.position()
        self._written = self._position.seq
        await self._verify()
        while True:
            await (self._read_wanted() if self._is_sure else self._catch_up())
            self.last_error = ""
            self._tell_moved()
            await self._tidy()
            await self._wake.within(self._clock, self._tidied + TIDY_EVERY_MS - self._clock.boot())
            await self._gather()
            self._wake.clear()
            self._asked.clear()

    async def _gather(self) -> None:
        """Let batches gather, unless a reader waits."""
        before, until = -1, self._clock.boot() + GATHER_MAX_MS
        while before != self._heard.seq and self._clock.boot() < until and not self._asked.is_set():
            before = self._heard.seq
            await self._asked.within(self._clock, GATHER_MS)

    def _on_change(self, batch: Batch[Any]) -> None:
        """Note a committed batch. Only batches that concern the index are read later."""
        header = batch.header
        if header.seq != self._heard.seq + 1 or len(self._wanted) >= WANTED_MAX:
            self._is_sure, self._wanted = False, OrderedDict()  # the state was loaded, or too many: read the log
            self._wake.set()
        self._heard = IndexPosition(header.log_id, header.seq, batch.digest)
        if self.concerns(batch):
            self._wanted |= {header.seq: batch.digest} if self._is_sure else {}
            self.note(batch)
            self._wake.set()

    def _tell_moved(self) -> None:
        self._moved.set()
        self._moved = ClockEvent()
        self.measure(IndexMetric.BEHIND, max(0, self._ledger.durable.state.info.seq - self._position.seq))

    # Reading

    async def _verify(self) -> None:
        """Start over if the rows are not of this log."""
        facts, place, store = self._ledger.durable.state.info, self._position, self._ledger.store
        same = place.log_id == facts.log_id and place.seq <= facts.seq
        if same and place.seq:
            with suppress(LogTrimmed):
                same = (await store.read(place.seq, 1))[0].digest == place.digest
        if not same:
            await self._begin_anew("of another log" if place.log_id else "empty")

    async def _begin_anew(self, why: str) -> None:
        floor = (await self._ledger.store.head()).floor
        self._position = IndexPosition(self._ledger.durable.state.info.log_id, floor)
        await self._rows.begin(self._position)
        self.measure(IndexMetric.BEGUN_ANEW, 1)
        self._logger.info("begun-anew", why=why, after=floor)

    async def _catch_up(self) -> None:
        """Read the log from the last position to the durable state. From then on, commits are noted."""
        durable, store = self._ledger.durable, self._ledger.store
        while self._position.seq < durable.state.info.seq:
            try:
                batches = await store.read(self._position.seq + 1, READ_BYTES)
            except LogTrimmed:
                floor = (await store.head()).floor
                self._logger.warning("missed", after=self._position.seq, to=floor)
                self._position = replace(self._position, seq=floor, digest=b"", since=0)
                continue
            if not batches:
                raise StoreError(f"{store.name}: batch {self._position.seq + 1} is committed and cannot be read")
            for stored in batches:
                if stored.seq <= durable.state.info.seq:
                    self._position = await self.take(stored, self._position, learning=True)
            await self._write()
        # In the turn of the last check of the state, so that no later batch is missed.
        self._heard = IndexPosition(self._position.log_id, self._position.seq, self._position.digest)
        self._is_sure, self._wanted = True, OrderedDict()
        self.unlearn()

    async def _read_wanted(self) -> None:
        """Read the noted batches."""
        while self._is_sure and self._wanted:
            batches = await self._ledger.store.read(next(iter(self._wanted)), READ_BYTES)
            mine = [stored for stored in batches if stored.seq in self._wanted]
            for stored in mine:
                if self._wanted.get(stored.seq, stored.digest) != stored.digest:
                    raise StoreError(f"{self._ledger.store.name}: batch {stored.seq} is not the committed one")
                self._position = await self.take(stored, self._position)
            await self._write()
            for stored in mine:
                self._wanted.pop(stored.seq, None)
        if self._is_sure:
            self._position = replace(self._position, seq=self._heard.seq, digest=self._heard.digest)
            self.unlearn()

    async def _write(self) -> None:
        place = self._position
        self.measure(IndexMetric.KEPT, await self.write(place))
        self._written = place.seq

    async def _tidy(self) -> None:
        """Every `TIDY_EVERY_MS`, record the position, even without new entries, and drop old rows."""
        if self._tidied and self._clock.boot() < self._tidied + TIDY_EVERY_MS:
            return
        self._tidied = self._clock.boot()
        await self._write()
        before = self._ledger.durable.state.info.at - self._lasting.retention_ms
        size_bytes = await self._rows.tidy(before, self._lasting.size_bytes)
        self.measure(IndexMetric.BYTES, size_bytes)

    # Different per index

    @abstractmethod
    def concerns(self, batch: Batch[Any]) -> bool:
        """Return whether a committed batch has entries for the index."""

    def note(self, batch: Batch[Any]) -> None:  # most indexes need nothing
        """Remember what the state may no longer have when the batch is read."""

    def restart(self) -> None:  # most indexes keep nothing
        """Forget what was read and not written; it is read again."""

    def unlearn(self) -> None:  # most indexes keep nothing
        """All observed batches were read."""

    @abstractmethod
    async def take(self, stored: StoredBatch, position: IndexPosition, *, learning: bool = False) -> IndexPosition:
        """Collect a batch and return the new position. With `learning` (catch-up) all batches are passed."""

    @abstractmethod
    async def write(self, position: IndexPosition) -> int:
        """Write what was collected, and the position. Return the number of entries."""

    @abstractmethod
    def measure(self, what: IndexMetric, value: int) -> None:
        """Record a value under this index's metric names."""
