"""The port to where a log is kept: one head cell, batches, snapshots, and what its servers announce.

    head (log id, seq, digest, trim floor)  <-- every append and every trim is one transaction on this cell

An append names the head it follows. A deposed leader, however long it slept, names a head that is no more and is told
so: nothing else guards what is in the log. Every answer that is not a plain yes or no is `WriteUnknown`, and only
another write settles it (RULES 1, 2).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from holdfast.host.ports.snapshot_store import SnapshotStore

#: A batch is closed near this size: one blob, one commit.
BATCH_BYTES = 256 << 10
#: An announcement has at most so many bytes, and so many of them wait for the leader.
ANNOUNCEMENT_BYTES, ANNOUNCEMENTS = 1 << 10, 1_000


class Head(Struct, frozen=True):
    """Where a log ends. Batches up to `floor` are trimmed; `touch` counts its leader's signs of life.

    An empty store has an empty log id; its first batch gives it one.
    """

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    floor: int = 0
    touch: int = 0

    def same_place(self, other: Head) -> bool:
        """Whether both end in the same batch with the same past."""
        return (self.log_id, self.seq, self.digest) == (other.log_id, other.seq, other.digest)


class StoredBatch(Struct, frozen=True):
    """A batch as it is kept. Its digest covers all batches before it."""

    log_id: str
    seq: int
    digest: bytes
    raw: bytes


class WriteOk(Struct, frozen=True):
    """It is durable, and this is the head now."""

    head: Head


class WriteConflict(Struct, frozen=True):
    """Nothing was written: the head is another one."""

    head: Head


class WriteFull(Struct, frozen=True):
    """Nothing was written, and will not appear later: there is no room."""

    why: str


class WriteUnknown(Struct, frozen=True):
    """It may have been written, or may yet be. Repeat the same bytes at the same place until the store answers."""

    why: str


WriteOutcome = WriteOk | WriteConflict | WriteFull | WriteUnknown


class StoreUsage(Struct, frozen=True):
    """How much is used of how much there is, in bytes."""

    used: int
    limit: int

    def share(self) -> float:
        """The used part, between 0 and 1."""
        return self.used / self.limit if self.limit else 1.0


class StoreError(Exception):
    """The store cannot do what was asked now; the message says what, to which store, and the way out."""


class StoreInUse(StoreError):
    """Another process has this store open."""


class StoreCorrupt(StoreError):
    """What is kept is not what was written."""


class LogTrimmed(StoreError):
    """The batch asked for lies behind the trim floor: load the newest snapshot instead."""


class LogStore(Protocol):
    """The log itself. `append` and `touch` answer with an outcome and never raise for what the world does."""

    #: How the store is named in messages.
    name: str
    #: Whether a second server can open this store. Where none can, reading the head proves a term (RULES 5).
    shared: bool

    async def head(self) -> Head:
        """The head, read after this call began and no earlier: linearizable. `StoreError` when it cannot be told."""

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        """Write the batch on condition that the head is at `after`, and move the head, in one transaction."""

    async def touch(self, at: Head) -> WriteOutcome:
        """Count one more sign of life on condition that the head is at `at`. Adds no batch."""

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        """Batches from `first` on, in order: at least one if there is one, then as many as fit. May raise
        `LogTrimmed`."""

    async def wait(self, seen: Head, timeout_ms: int) -> Head:
        """The head once it differs from `seen` in place or touch, or as it is after the timeout."""


class StoreSpace(Protocol):
    """How full the store is, and what makes room."""

    async def trim(self, log_id: str, floor: int) -> WriteOutcome:
        """Remove batches up to `floor`, through the head cell. A floor only grows and never passes the head.

        A repeat is `WriteOk` again; a lower floor, one past the head, or another log's is `WriteConflict`.
        """

    async def usage(self) -> StoreUsage:
        """What is used now. `StoreError` when it cannot be told."""

    async def reclaim(self) -> None:
        """Give back to the system what trimming freed. Works on a full disk too (RULES 20)."""


class Announcements(Protocol):
    """What servers of this store have to say to the leader: whoever can write the store is a server of its ledger.

    No record of anything: the leader takes out what it has read, and a server announces again what it finds
    neither there nor in the log. It need not outlive the last process that has the store open.
    """

    async def announce(self, name: str, raw: bytes) -> None:
        """Put this under a name, in place of what is there; nothing: take it away. `StoreError` if it cannot."""

    async def announced(self) -> list[tuple[str, bytes]]:
        """What there is, by name. It may be anything: others write here, too."""


class Store(LogStore, SnapshotStore, StoreSpace, Announcements, Protocol):
    """Everything a host asks of its store."""

    async def close(self) -> None:
        """Finish what is under way and let go of the store."""


def check_follows(after: Head, batch: StoredBatch) -> None:
    """A batch comes directly after the head it names, in the same log, unless it is the first of all."""
    assert batch.seq == after.seq + 1, f"batch {batch.seq} cannot follow {after.seq}"
    assert batch.log_id, "a batch names its log"
    assert batch.log_id == after.log_id or not after.log_id, f"a batch of {batch.log_id} cannot follow {after.log_id}"
    assert batch.digest, "a batch has a digest"


def trimmed_message(name: str, seq: int, floor: int) -> str:
    """The message for a batch that lies behind the floor."""
    return (
        f"{name}: batch {seq} is trimmed, the floor is {floor}\nhint: load the newest snapshot and read on from there"
    )
