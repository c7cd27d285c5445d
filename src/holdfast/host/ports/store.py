"""The ports to the store of a log (one head cell, batches, announcements of its servers) and to its snapshots.

    head (log id, seq, digest, trim floor)  <-- every append and every trim is one transaction on this cell

An append names the head that it follows. A deposed leader names an old head and gets a conflict: nothing else guards
the log. Every outcome that is not a clear yes or no is `WriteUnknown`, and only another write settles it (RULES 1, 2).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class SnapshotStore(Protocol):
    """Snapshots of the state after a batch: chunks, each named by its content, then the manifest."""

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        """Store a chunk of the snapshot of batch `seq`, or raise `StoreError`. Durable once its manifest is."""

    async def get_chunk(self, seq: int, name: str) -> bytes:
        """Return a chunk as it is on the disk. Raise `StoreCorrupt` if it is missing."""

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        """Make the snapshot valid: every chunk put before is durable before the manifest is."""

    async def manifests(self) -> list[tuple[int, bytes]]:
        """Return all manifests, newest first."""

    async def drop_snapshot(self, seq: int) -> None:
        """Remove the snapshot of a batch, complete or unfinished: its manifest first."""

    async def unfinished(self) -> list[int]:
        """Return the batches of unfinished snapshots: chunks without a manifest."""


#: A batch is closed near this size: one blob, one commit.
BATCH_BYTES = 256 << 10
#: Largest size of an announcement, and largest number of waiting ones.
ANNOUNCEMENT_BYTES, ANNOUNCEMENTS = 1 << 10, 1_000


class Head(Struct, frozen=True):
    """The end of a log. Batches up to `floor` are trimmed; `touch` counts the heartbeats of its leader.

    An empty store has an empty log id; its first batch sets it.
    """

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    floor: int = 0
    touch: int = 0

    def same_place(self, other: Head) -> bool:
        """Whether both end in the same batch with the same history."""
        return (self.log_id, self.seq, self.digest) == (other.log_id, other.seq, other.digest)


class StoredBatch(Struct, frozen=True):
    """A batch as it is stored. Its digest covers all batches before it."""

    log_id: str
    seq: int
    digest: bytes
    raw: bytes


class WriteOk(Struct, frozen=True):
    """The write is durable, and `head` is the new head."""

    head: Head


class WriteConflict(Struct, frozen=True):
    """Nothing was written: the head is not the expected one."""

    head: Head


class WriteFull(Struct, frozen=True):
    """Nothing was written, nor will be: the store has no space."""

    why: str


class WriteUnknown(Struct, frozen=True):
    """The write may have happened, or may yet happen. Repeat the same bytes until there is another outcome."""

    why: str


WriteOutcome = WriteOk | WriteConflict | WriteFull | WriteUnknown


class StoreUsage(Struct, frozen=True):
    """Used bytes of a store, and its limit in bytes."""

    used: int
    limit: int

    def share(self) -> float:
        """Return the used share, between 0 and 1."""
        return self.used / self.limit if self.limit else 1.0


class StoreError(Exception):
    """The store cannot do this now; the message names the operation, the store and the way out."""


class StoreInUse(StoreError):
    """Another process has this store open."""


class StoreCorrupt(StoreError):
    """The stored bytes are not the bytes that were written."""


class LogTrimmed(StoreError):
    """The requested batch is behind the trim floor: load the newest snapshot instead."""


class LogStore(Protocol):
    """The log itself. `append` and `touch` return an outcome and never raise for the store's condition."""

    #: The store's name in messages.
    name: str
    #: Whether a second server can open this store. If not, reading the head proves a term (RULES 5).
    shared: bool

    async def head(self) -> Head:
        """Return the head, read after this call began: linearizable. Raise `StoreError` if it cannot be read."""

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        """Write the batch if the head is at `after`, and move the head, in one transaction."""

    async def touch(self, at: Head) -> WriteOutcome:
        """Count one more heartbeat if the head is at `at`. Adds no batch."""

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[StoredBatch]:
        """Return batches from `first` on, in order: at least one if there is one, then up to `size_bytes`.

        Raises `LogTrimmed` if `first` is trimmed.
        """

    async def wait(self, seen: Head, timeout_ms: int) -> Head:
        """Return the head once its position or touch differs from `seen`, or after the timeout."""


class StoreSpace(Protocol):
    """The space of the store, and what frees it."""

    async def trim(self, log_id: str, floor: int) -> WriteOutcome:
        """Remove batches up to `floor`, through the head cell. A floor only grows and never passes the head.

        A repeat is `WriteOk` again. A lower floor, one past the head, or another log is `WriteConflict`.
        """

    async def usage(self) -> StoreUsage:
        """Return the current usage. Raise `StoreError` if it is unknown."""

    async def reclaim(self) -> None:
        """Return trimmed space to the system. Works on a full disk too (RULES 20)."""


class Announcements(Protocol):
    """Messages from servers to the leader: a process that can write the store is a server of its ledger.

    They are not records. The leader removes what it has read; a server repeats an announcement that is neither here nor
    in the log. They need not outlive the last process with an open store.
    """

    async def announce(self, name: str, raw: bytes) -> None:
        """Put `raw` under a name in place of an earlier announcement; empty bytes remove it. Raise `StoreError` on
        failure."""

    async def announced(self) -> list[tuple[str, bytes]]:
        """Return all announcements by name. They are not trusted: every server writes here."""


class Store(LogStore, SnapshotStore, StoreSpace, Announcements, Protocol):
    """Everything that a host needs from its store."""

    async def close(self) -> None:
        """Finish operations in flight and close the store."""


def check_follows(after: Head, batch: StoredBatch) -> None:
    """Assert that a batch directly follows its head, in the same log, unless it is the first."""
    assert batch.seq == after.seq + 1, f"batch {batch.seq} cannot follow {after.seq}"
    assert batch.log_id, "a batch names its log"
    assert batch.log_id == after.log_id or not after.log_id, f"a batch of {batch.log_id} cannot follow {after.log_id}"
    assert batch.digest, "a batch has a digest"


def trimmed_message(name: str, seq: int, floor: int) -> str:
    """Return the message for a batch behind the trim floor."""
    return (
        f"{name}: batch {seq} is trimmed, the floor is {floor}\nhint: load the newest snapshot and read on from there"
    )
