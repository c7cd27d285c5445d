"""What is on the medium of a simulated store, apart from every process that uses it.

    put_chunk ------> unsynced ---- power cut ----> kept whole, torn, or as it was before
                         |
    put_manifest ----> synced  ---- power cut ----> stays
    append, touch, trim: synced before they are answered

The engine is the store in memory. A disk adds what only a disk can do: forget what was not synced, be restored from
before its last batches, and be filled by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from holdfast.host.ports.store import Head, StoredBatch, StoreError, WriteOk, WriteOutcome
from holdfast.stores.memory import LIMIT_BYTES, MemoryStore


class Damage(NamedTuple):
    """What a power cut did to the chunks that were not synced."""

    lost: int
    torn: int


class SimDisk(MemoryStore):
    """Keeps one log and its snapshots through any crash, and knows what a power cut may take."""

    def __init__(self, name: str = "disk", limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(name, limit_bytes)
        #: Chunks since the last sync, in the order in which they came, each with what was synced there before.
        self._unsynced: dict[tuple[int, str], bytes | None] = {}
        #: The head as each batch left it, for as long as the log can be cut short there.
        self._heads: dict[int, Head] = {0: Head()}
        #: Told of each batch in the moment in which it becomes durable: whoever judges a run.
        self.listeners: list[Callable[[StoredBatch], object]] = []
        #: The limit from before somebody else filled the disk.
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
        """The head as it is on the medium, for whoever judges a run."""
        return self._head

    def power_cut(self, chance: Random) -> Damage:
        """Each chunk that was not synced stays, is torn, or is as it was before; all else stays."""
        lost = torn = 0
        for (seq, name), before in self._unsynced.items():
            fate = chance.choice(("stays", "torn", "lost"))
            raw = self._chunks[seq][name]
            # What replaces a synced chunk goes beside it and takes its name last: there is no half of it.
            if fate == "torn" and before is None and raw:
                self._become(seq, name, raw[: chance.randrange(len(raw))])
                torn += 1
            elif fate != "stays":
                self._become(seq, name, before)
                lost += 1
        self._unsynced.clear()
        return Damage(lost, torn)

    def go_backwards(self, batches: int) -> int:
        """Become the disk from before its last batches: a backup was restored. Says how many were taken back.

        What was trimmed stays trimmed, so it goes back no further than the floor. Snapshots of later batches go too.
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
        """Somebody else takes all the room there is. What is trimmed or dropped from now on makes room again."""
        if self._own_limit_bytes is None:
            self._own_limit_bytes = self.limit_bytes
        self.limit_bytes = self._used

    def empty(self) -> None:
        """The room that somebody else took is free again."""
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
