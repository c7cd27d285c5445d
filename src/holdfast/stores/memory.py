"""A store in memory, for tests and simulations: the port's contract and nothing else.

Several hosts in one event loop may share one object, and it outlives them like a database. Each call takes effect at
once and then yields, so a cancelled task has written its data. There are no threads and no clock, so it works in
virtual time. A wrapper adds faults.
"""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.host.ports import store
from holdfast.stores.head_waiters import AnnouncementTable, HeadWaiters

#: Default size limit.
LIMIT_BYTES = 1 << 30


class MemoryStore:
    """A log and its snapshots, for as long as the object lives."""

    shared = True

    def __init__(self, name: str = "memory", limit_bytes: int = LIMIT_BYTES) -> None:
        self.name = name
        #: May change at any time, to simulate a full disk.
        self.limit_bytes = limit_bytes
        self._head = store.Head()
        self._batches: dict[int, store.StoredBatch] = {}
        self._chunks: dict[int, dict[str, bytes]] = {}
        self._manifests: dict[int, bytes] = {}
        self._used = 0
        self._waiting = HeadWaiters()
        self._announced = AnnouncementTable(name)

    async def head(self) -> store.Head:
        head = self._head
        await asyncio.sleep(0)
        return head

    async def append(self, after: store.Head, batch: store.StoredBatch) -> store.WriteOutcome:
        outcome = self._append(after, batch)
        await asyncio.sleep(0)
        return outcome

    async def touch(self, at: store.Head) -> store.WriteOutcome:
        outcome: store.WriteOutcome
        if self._head.same_place(at):
            outcome = self._move(msgspec.structs.replace(self._head, touch=self._head.touch + 1))
        else:
            outcome = store.WriteConflict(self._head)
        await asyncio.sleep(0)
        return outcome

    async def read(self, first: int, size_bytes: int = 4 << 20) -> list[store.StoredBatch]:
        assert first >= 1, f"batches are numbered from 1, got {first}"
        if first <= self._head.floor:
            raise store.LogTrimmed(store.trimmed_message(self.name, first, self._head.floor))
        found: list[store.StoredBatch] = []
        for seq in range(first, self._head.seq + 1):
            batch = self._batches[seq]
            size_bytes -= len(batch.raw)
            if found and size_bytes < 0:
                break
            found.append(batch)
        await asyncio.sleep(0)
        return found

    async def wait(self, seen: store.Head, timeout_ms: int) -> store.Head:
        head = self._head
        if head.same_place(seen) and head.touch == seen.touch:
            return await self._waiting.until_changed(seen, timeout_ms, self._now)
        await asyncio.sleep(0)
        return head

    async def _now(self) -> store.Head:
        """Return the head without yielding again: every follower waits for it."""
        return self._head

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        there = self._chunks.get(seq, {}).get(name, b"")
        self._take(len(raw) - len(there), f"chunk {name} of snapshot {seq}")
        self._chunks.setdefault(seq, {})[name] = bytes(raw)
        await asyncio.sleep(0)

    async def get_chunk(self, seq: int, name: str) -> bytes:
        raw = self._chunks.get(seq, {}).get(name)
        if raw is None:
            raise store.StoreCorrupt(
                f"{self.name}: chunk {name} of snapshot {seq} is missing\nhint: load the snapshot before it"
            )
        await asyncio.sleep(0)
        return raw

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        self._take(len(raw) - len(self._manifests.get(seq, b"")), f"the manifest of snapshot {seq}")
        self._manifests[seq] = bytes(raw)
        await asyncio.sleep(0)

    async def manifests(self) -> list[tuple[int, bytes]]:
        await asyncio.sleep(0)
        return sorted(self._manifests.items(), reverse=True)

    async def drop_snapshot(self, seq: int) -> None:
        self._used -= len(self._manifests.pop(seq, b""))
        self._used -= sum(map(len, self._chunks.pop(seq, {}).values()))
        await asyncio.sleep(0)

    async def unfinished(self) -> list[int]:
        await asyncio.sleep(0)
        return sorted(self._chunks.keys() - self._manifests.keys())

    async def trim(self, log_id: str, floor: int) -> store.WriteOutcome:
        outcome = self._trim(log_id, floor)
        await asyncio.sleep(0)
        return outcome

    async def usage(self) -> store.StoreUsage:
        await asyncio.sleep(0)
        return store.StoreUsage(self._used, self.limit_bytes)

    async def reclaim(self) -> None:
        """Nothing to do: trimmed and dropped data is freed at once."""
        await asyncio.sleep(0)

    async def announce(self, name: str, raw: bytes) -> None:
        self._announced.put(name, raw)
        await asyncio.sleep(0)

    async def announced(self) -> list[tuple[str, bytes]]:
        await asyncio.sleep(0)
        return self._announced.all()

    async def close(self) -> None:
        """Nothing to do: other hosts, and the next one, find the data."""

    def _append(self, after: store.Head, batch: store.StoredBatch) -> store.WriteOutcome:
        store.check_follows(after, batch)
        if not self._head.same_place(after):
            return store.WriteConflict(self._head)
        if self._used + len(batch.raw) > self.limit_bytes:
            return store.WriteFull(
                f"{self.name}: {self._used:,} of {self.limit_bytes:,} bytes are used, {len(batch.raw):,} needed"
            )
        self._used += len(batch.raw)
        self._batches[batch.seq] = batch
        return self._move(store.Head(batch.log_id, batch.seq, batch.digest, self._head.floor, self._head.touch))

    def _trim(self, log_id: str, floor: int) -> store.WriteOutcome:
        head = self._head
        if head.log_id != log_id or not head.floor <= floor <= head.seq:
            return store.WriteConflict(head)
        for seq in range(head.floor + 1, floor + 1):
            self._used -= len(self._batches.pop(seq).raw)
        return self._move(msgspec.structs.replace(head, floor=floor))

    def _move(self, head: store.Head) -> store.WriteOk:
        self._head = head
        self._waiting.wake()
        return store.WriteOk(head)

    def _take(self, size_bytes: int, what: str) -> None:
        if self._used + size_bytes > self.limit_bytes:
            raise store.StoreError(
                f"{self.name}: no room for {size_bytes:,} bytes of {what}: "
                f"{self._used:,} of {self.limit_bytes:,} are used\n"
                "hint: trim the log or drop a snapshot"
            )
        self._used += size_bytes
