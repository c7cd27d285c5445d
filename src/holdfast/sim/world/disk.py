"""The medium of a simulated store. It outlives every process that uses it.

    put_chunk ------> unsynced ---- power cut ----> kept in full, torn, or restored to the earlier chunk
                         |
    put_manifest ----> synced  ---- power cut ----> stays
    append, touch, trim: synced before they are answered

The engine is the store in memory. A disk adds what only a disk can do: lose unsynced data, return to a backup, and be
filled by other data.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from holdfast.host.ports.store import Head, StoredBatch, StoreError, WriteOk, WriteOutcome
from holdfast.stores.memory import LIMIT_BYTES, MemoryStore


class Damage(NamedTuple):
    """How many unsynced chunks a power cut lost and tore."""

    lost: int
    torn: int


class SimDisk(MemoryStore):
    """One log and its snapshots, which survive every crash; tracks what a power cut may lose."""

    def __init__(self, name: str = "disk", limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(name, limit_bytes)
        #: Unsynced chunks in order of arrival, each with its last synced content.
        self._unsynced: dict[tuple[int, str], bytes | None] = {}
        #: The head after each batch to which the log can still be cut short.
        self._heads: dict[int, Head] = {0: Head()}
        #: Called with each batch when it becomes durable: the checks of a run.
        self.listeners: list[Callable[[StoredBatch], object]] = []
        #: The limit before other data filled the disk.
        self._own_limit_bytes: int | None = None

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        key, before = (seq, name), self._chunks.get(seq, {}).get(name)
        was_unsynced = key in self._unsynced
        self._unsynced.setdefault(key, before)
        try:
            await super().put_chunk(seq, name, raw)
        except StoreError:
            if not was_unsynced:
                del self._unsynced[key]
            raise

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        self._forget_unsynced(seq)
        await super().put_manifest(seq, raw)

    async def drop_snapshot(self, seq: int) -> None:
        self._forget_unsynced(seq)
        await super().drop_snapshot(seq)

    def now(self) -> Head:
        """The durable head, for the checks of a run."""
        return self._head

    def power_cut(self, chance: Random) -> Damage:
        """Keep, tear or restore each unsynced chunk; keep all else."""
        lost = torn = 0
        for (seq, name), before in self._unsynced.items():
            fate = chance.choice(("stays", "torn", "lost"))
            raw = self._chunks[seq][name]
            # A write over a synced chunk goes to a new file and is renamed last, so it cannot be torn.
            if fate == "torn" and before is None and raw:
                self._become(seq, name, raw[: chance.randrange(len(raw))])
                torn += 1
            elif fate != "stays":
                self._become(seq, name, before)
                lost += 1
        self._unsynced.clear()
        return Damage(lost, torn)

    def go_backwards(self, batches: int) -> int:
        """Return to the disk of some batches ago, as if a backup was restored. Return how many batches were removed.

        Trimmed batches stay trimmed: the disk goes back no further than the trim floor. Later snapshots are removed
        too.
        """
        assert batches >= 0, f"a disk goes back by some batches, not by {batches}"
        head = self._head
        seq = max(head.floor, head.seq - batches)
        for later in range(seq + 1, head.seq + 1):
            self._used -= len(self._batches.pop(later).raw)
            del self._heads[later]
        for later in sorted(self._chunks.keys() | self._manifests.keys()):
            if later > seq:
                self._forget_unsynced(later)
                self._used -= len(self._manifests.pop(later, b""))
                self._used -= sum(map(len, self._chunks.pop(later, {}).values()))
        if seq < head.seq:
            self._move(msgspec.structs.replace(self._heads[seq], floor=head.floor))
        return head.seq - seq

    def fill(self) -> None:
        """Fill the disk with other data. A later trim or drop frees space again."""
        if self._own_limit_bytes is None:
            self._own_limit_bytes = self.limit_bytes
        self.limit_bytes = self._used

    def empty(self) -> None:
        """Remove the other data."""
        if self._own_limit_bytes is not None:
            self.limit_bytes, self._own_limit_bytes = self._own_limit_bytes, None

    def _append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        outcome = super()._append(after, batch)
        if isinstance(outcome, WriteOk):
            self._heads[batch.seq] = outcome.head
            for listener in self.listeners:
                listener(batch)
        return outcome

    def _trim(self, log_id: str, floor: int) -> WriteOutcome:
        floor_before = self._head.floor
        outcome = super()._trim(log_id, floor)
        if isinstance(outcome, WriteOk):
            for seq in range(floor_before, floor):
                del self._heads[seq]
        return outcome

    def _become(self, seq: int, name: str, raw: bytes | None) -> None:
        chunks = self._chunks[seq]
        self._used += len(raw or b"") - len(chunks[name])
        if raw is not None:
            chunks[name] = raw
            return
        del chunks[name]
        if not chunks:
            del self._chunks[seq]

    def _forget_unsynced(self, seq: int) -> None:
        for key in [key for key in self._unsynced if key[0] == seq]:
            del self._unsynced[key]
