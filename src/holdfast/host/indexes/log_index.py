"""Something of a log found again: read from it as it grows, and kept where it is found without a walk through the log.

    batches that landed ──▶ those that concern the index, read again with their evidence ──▶ rows, and up to which batch

What is kept is derived: gone, damaged or of another log, it is begun anew from the log that is there. It outlives the
log, which is not trimmed past what was not read yet while there is room for it. Nothing waits for it: a batch is read
some time after it landed, several at once. `decisions` and `audit` are such indexes.

Size: one life, from the first look to the last row; what differs between indexes is at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import NotReached
from holdfast.host.ledger.ledger import Ledger, Role
from holdfast.host.ports.index_store import IndexPosition, IndexStore
from holdfast.host.ports.store import LogTrimmed, StoredBatch, StoreError
from holdfast.host.runtime.clock_event import ClockEvent
from holdfast.host.runtime.telemetry import Logger

S = TypeVar("S", bound=LedgerState)

#: So much of the log is read at once.
READ_BYTES = 4 << 20
#: While nobody asks, batches come together until none came for so long, or for the longest: deciding goes first.
GATHER_MS, GATHER_MAX_MS = 250, 2_000
#: So many batches that were not read yet are kept in mind; where there are more, all are searched for in the log.
WANTED_MAX = 100_000
AFTER_FAILURE_MS, TIDY_EVERY_MS = 30_000, 60_000


class IndexRetention(Struct, frozen=True):
    """How long rows are kept, and in how much room: what is older, or too much, goes."""

    retention_ms: int = 7 * 86_400_000
    size_bytes: int = 1 << 30


class IndexMetric(Enum):
    """What an index counts of itself."""

    FAILED = auto()
    BEGUN_ANEW = auto()
    BEHIND = auto()
    KEPT = auto()
    BYTES = auto()


class LogIndex(ABC, Generic[S]):
    """One index of a log, on one of its servers. `run` it beside the ledger."""

    def __init__(self, name: str, ledger: Ledger[S], kept: IndexStore, lasting: IndexRetention | None = None) -> None:
        self._name = name
        self._ledger = ledger
        self._rows = kept
        self._lasting = lasting or IndexRetention()
        self._clock = ledger.clock
        self._logger = Logger(name, server=ledger.identity.server)
        #: What keeps it from its work; empty when nothing does.
        self.last_error = ""
        #: How far the log was read, and how far that was written.
        self._position, self._written = IndexPosition(), 0
        #: The newest batch that was heard of, and those that concern it and were not read yet, with their digests.
        self._heard = IndexPosition()
        self._wanted: OrderedDict[int, bytes] = OrderedDict()
        #: Whether all that was not read is among the wanted. Otherwise the log says.
        self._is_sure = False
        #: Something is to be read; somebody waits for it; something was read.
        self._wake, self._asked, self._moved = ClockEvent(), ClockEvent(), ClockEvent()
        self._tidied = 0
        ledger.durable.listeners.append(self._on_change)
        ledger.snapshots.trim_holds[name] = self.settled

    # What others ask of it

    async def reach(self, seq: int, timeout_ms: int) -> None:
        """Return once everything up to this batch was read. `NotReached` when that takes longer."""
        deadline = self._clock.boot() + timeout_ms
        while self.up_to() < seq:
            self._asked.set()
            self._wake.set()
            moved, left = self._moved, deadline - self._clock.boot()
            if not await moved.within(self._clock, max(0, left)):
                why = f": {self.last_error}" if self.last_error else ""
                said = f"{self._name} was read up to batch {self.up_to()}, not to {seq}, within {timeout_ms} ms{why}"
                raise NotReached(said)

    def up_to(self) -> int:
        """The last batch of which everything that concerns it is written."""
        before = next(iter(self._wanted), self._heard.seq + 1) - 1
        return max(self._written, before) if self._is_sure else self._written

    async def settled(self) -> int:
        """Up to which batch it is kept whatever happens to this process: the log may go that far."""
        try:
            return await self._rows.settle()
        except StoreError as error:
            self._logger.warning("not-settled", why=error)
            return 0

    # Its life

    async def run(self) -> None:
        """Read for ever. What goes wrong where it is kept is told, and tried again."""
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
        """Let batches come together, unless somebody waits."""
        before, until = -1, self._clock.boot() + GATHER_MAX_MS
        while before != self._heard.seq and self._clock.boot() < until and not self._asked.is_set():
            before = self._heard.seq
            await self._asked.within(self._clock, GATHER_MS)

    def _on_change(self, batch: Batch[Any]) -> None:
        """A batch landed. Which of them concern the index is seen here, so that no other is read."""
        header = batch.header
        if header.seq != self._heard.seq + 1 or len(self._wanted) >= WANTED_MAX:
            self._is_sure, self._wanted = False, OrderedDict()  # the state was loaded, or too many: the log tells
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
        """Begin anew where what is kept is not of this log."""
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
        """Read the log from where it was left to what the state holds; from then on it is heard what to read."""
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
                raise StoreError(f"{store.name}: batch {self._position.seq + 1} landed and cannot be read")
            for stored in batches:
                if stored.seq <= durable.state.info.seq:
                    self._position = await self.take(stored, self._position, learning=True)
            await self._write()
        # In one turn with the last look at the state: what lands from now on is heard.
        self._heard = IndexPosition(self._position.log_id, self._position.seq, self._position.digest)
        self._is_sure, self._wanted = True, OrderedDict()
        self.unlearn()

    async def _read_wanted(self) -> None:
        """Read those batches that were heard to concern the index."""
        while self._is_sure and self._wanted:
            batches = await self._ledger.store.read(next(iter(self._wanted)), READ_BYTES)
            mine = [stored for stored in batches if stored.seq in self._wanted]
            for stored in mine:
                if self._wanted.get(stored.seq, stored.digest) != stored.digest:
                    raise StoreError(f"{self._ledger.store.name}: batch {stored.seq} is not the one that landed")
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
        """Now and then: say how far the log was read, also if there was nothing in it, and let go of what is old."""
        if self._tidied and self._clock.boot() < self._tidied + TIDY_EVERY_MS:
            return
        self._tidied = self._clock.boot()
        await self._write()
        before = self._ledger.durable.state.info.at - self._lasting.retention_ms
        size_bytes = await self._rows.tidy(before, self._lasting.size_bytes)
        self.measure(IndexMetric.BYTES, size_bytes)

    # What each index does its own way

    @abstractmethod
    def concerns(self, batch: Batch[Any]) -> bool:
        """Whether a batch that landed has something for it."""

    def note(self, batch: Batch[Any]) -> None:  # most need nothing
        """Remember of a batch that landed just now what the state may not know any more when it is read."""

    def restart(self) -> None:  # most keep nothing
        """Forget what was read and not written: it is read again."""

    def unlearn(self) -> None:  # most keep nothing
        """Everything that was heard of is read."""

    @abstractmethod
    async def take(self, stored: StoredBatch, position: IndexPosition, *, learning: bool = False) -> IndexPosition:
        """Take what a batch has; the place behind it. `learning`: while a log is caught up with, all are taken."""

    @abstractmethod
    async def write(self, position: IndexPosition) -> int:
        """Keep what was taken, and how far it was read; how much that was."""

    @abstractmethod
    def measure(self, what: IndexMetric, value: int) -> None:
        """Count it, under the name of this index's own."""
