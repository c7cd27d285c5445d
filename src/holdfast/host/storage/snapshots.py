"""Snapshots: written from a fork in small steps, read back before they count; three are kept, and the log is trimmed.

    fork --> chunks --> read each back, compare --> manifest --> drop the fourth --> trim behind the second newest
    space is short --> trim, and retry until it is done

The log is trimmed only behind snapshots whose every chunk this server has verified. An unfinished snapshot is removed
at the next start. Commits continue between the steps, which take a millisecond or two (RULES 20, 22).

Size: what is written, read back, kept and trimmed is one order of steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.state import snapshot
from holdfast.core.ledger.state.chunks import chunk_steps
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head, Store, StoreCorrupt, StoreError, WriteOk
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.backoff import exponential
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.durable_state import DurableState
from holdfast.host.storage.space import SpaceLevel, SpaceMonitor

SNAPSHOTS_KEPT = 3
POLL_MS = 1_000
AFTER_FAILURE_MS = 30_000
#: First and longest back-off of a trim that failed while space is short.
TRIM_FIRST_MS, TRIM_MAX_MS = 1_000, 60_000
#: While space is short, a snapshot is due after this much log, so that there is something to trim.
PRESSED_BYTES = 1 << 20
#: The pause after each step, for other tasks.
REST_MS = 2


class SnapshotPolicy(Struct, frozen=True):
    """When a snapshot is due, and the retention of the log."""

    #: After this many bytes of log, or the larger size of the last snapshot; and after this many batches.
    log_bytes: int = 64 << 20
    log_batches: int = 50_000
    retention_ms: int = 7 * 86_400_000


class Snapshotter(Generic[S]):
    """The snapshots of one leader. With `has_pressure`, retention is limited to what safety needs."""

    def __init__(
        self,
        durable: DurableState[S],
        store: Store,
        clock: Clock,
        metrics: Metrics,
        logger: Logger,
        policy: SnapshotPolicy,
    ) -> None:
        self._durable = durable
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._policy = policy
        self._last = 0
        self._last_bytes = 0
        self._log_bytes = 0
        self._is_clean = False
        #: Snapshots whose every chunk this server has verified.
        self._seen_whole: set[int] = set()
        self.has_pressure = False
        #: While space is short: the failed trims, and the time of the next one; 0: done.
        self._trims, self._trim_at = 0, 0
        #: By name, returns the batch up to which a reader no longer needs the log.
        self.trim_holds: dict[str, Callable[[], Awaitable[int]]] = {}

    def begin_from(self, seq: int, size_bytes: int, log_bytes: int) -> None:
        """The newest snapshot is of batch `seq`, with `log_bytes` of log after it."""
        self._last, self._last_bytes = seq, size_bytes
        self._seen_whole = {seq}
        self._log_bytes = self._durable.log_bytes - log_bytes

    def is_due(self) -> bool:
        """Whether the log has grown enough since the last snapshot."""
        grown = self._durable.log_bytes - self._log_bytes
        batches = self._durable.state.info.seq - self._last
        wanted = min(self._policy.log_bytes, PRESSED_BYTES) if self.has_pressure else self._policy.log_bytes
        return grown >= max(wanted, self._last_bytes) or batches >= self._policy.log_batches

    async def watch(self, room: SpaceMonitor) -> None:
        """Take a snapshot whenever one is due; while space is short, retain only what safety needs.

        A failed snapshot is retried later: the store may still accept the log.
        """
        self._is_clean = False
        while True:
            pause = POLL_MS
            try:
                await self._look_after(room)
            except StoreError as error:
                self._metrics.count("snapshots_failed")
                self._logger.warning("snapshot-failed", why=error)
                self._is_clean, pause = False, AFTER_FAILURE_MS
            await self._clock.sleep(pause)

    async def _look_after(self, room: SpaceMonitor) -> None:
        had_pressure, self.has_pressure = self.has_pressure, room.fill is not SpaceLevel.OPEN
        if self.has_pressure and not had_pressure:
            self._trims, self._trim_at = 0, self._clock.boot()
        await self._make_room()
        if not self._is_clean:
            await self.clean()
        if self.is_due() and room.fill is not SpaceLevel.FULL:
            await self.take()

    async def _make_room(self) -> None:
        """Trim history while space is short, with retries: a full store is read-only until an operator acts."""
        if not self.has_pressure or not self._trim_at or self._clock.boot() < self._trim_at:
            return
        try:
            is_done = await self.trim()
        except StoreError as error:
            self._logger.warning("not-trimmed", why=error, times=self._trims + 1)
            is_done = False
        self._trims += 1
        pause = exponential(TRIM_FIRST_MS, TRIM_MAX_MS, self._trims)
        self._trim_at = 0 if is_done else self._clock.boot() + pause

    async def clean(self) -> None:
        """Remove unfinished snapshots."""
        for seq in await self._store.unfinished():
            await self._store.drop_snapshot(seq)
            self._logger.info("snapshot-leftover-removed", snapshot=seq)
        self._is_clean = True

    async def take(self) -> snapshot.Manifest:
        """Write and verify a snapshot, then drop and trim what it replaces."""
        began, log_bytes = self._clock.boot(), self._durable.log_bytes
        fork = self._durable.state.fork()
        seq = fork.info.seq
        parts: list[snapshot.ManifestEntry] = []
        for chunk in chunk_steps(fork):
            if chunk is not None:
                await self._store.put_chunk(seq, chunk.name, chunk.raw)
                parts.append(snapshot.manifest_entry(chunk))
            await self._clock.sleep(REST_MS)
        manifest = snapshot.manifest_of(fork, parts)
        for _ in fork.release():
            await self._clock.sleep(REST_MS)
        await self._read_back(manifest)
        await self._store.put_manifest(seq, snapshot.encode_manifest(manifest))
        self._seen_whole.add(seq)
        self._last, self._last_bytes, self._log_bytes = seq, manifest.size_bytes, log_bytes
        self._metrics.count("snapshots")
        self._metrics.gauge("snapshot_bytes", manifest.size_bytes)
        self._metrics.time("snapshot_ms", self._clock.boot() - began)
        self._logger.info("snapshot", seq=seq, bytes=manifest.size_bytes, rows=manifest.rows, chunks=len(parts))
        gc_tuning.freeze()
        await self._drop_old()
        await self.trim()
        return manifest

    async def _read_back(self, manifest: snapshot.Manifest) -> None:
        for place, part in enumerate(manifest.parts):
            raw = await self._store.get_chunk(manifest.seq, part.name)
            try:
                snapshot.verify(manifest, place, raw)
            except Corrupt as error:
                await self._store.drop_snapshot(manifest.seq)
                raise StoreCorrupt(f"{self._store.name} did not return the written bytes: {error}") from error

    async def _intact(self) -> list[int]:
        """Return the newest complete snapshots, newest first, at most `SNAPSHOTS_KEPT`."""
        found: list[int] = []
        for seq, raw in await self._store.manifests():
            if len(found) < SNAPSHOTS_KEPT and await self._is_whole(seq, raw):
                found.append(seq)
        return found

    async def _is_whole(self, seq: int, raw: bytes) -> bool:
        if seq in self._seen_whole:
            return True
        try:
            manifest = snapshot.decode_manifest(raw, self._durable.definition.level)
            for place, part in enumerate(manifest.parts):
                snapshot.verify(manifest, place, await self._store.get_chunk(seq, part.name))
                await self._clock.sleep(REST_MS)
        except (Corrupt, StoreCorrupt, UpgradeNeeded) as error:
            self._metrics.count("snapshots_damaged")
            self._logger.error("snapshot-damaged", snapshot=seq, why=error)
            return False
        self._seen_whole.add(seq)
        return True

    async def _drop_old(self) -> None:
        intact = await self._intact()
        for seq, _ in await self._store.manifests():
            if len(intact) == SNAPSHOTS_KEPT and seq < intact[-1]:
                await self._store.drop_snapshot(seq)
                self._seen_whole.discard(seq)

    async def trim(self) -> bool:
        """Trim the log up to the second newest snapshot, but not past retention and trim holds.

        Returns whether the log is trimmed up to there.
        """
        head = await self._store.head()
        intact = await self._intact()
        if len(intact) < 2:
            return False
        floor = intact[1]
        if not self.has_pressure:
            floor = min(
                [floor, await self._kept_from(head, floor), *[await read() for read in self.trim_holds.values()]]
            )
        if floor <= head.floor:
            return True
        outcome = await self._store.trim(head.log_id, floor)
        if not isinstance(outcome, WriteOk):
            self._logger.warning("not-trimmed", floor=floor, outcome=outcome)
            return False
        self._metrics.gauge("trim_floor", floor)
        self._logger.info("trimmed", floor=floor, was=head.floor)
        return True

    async def _kept_from(self, head: Head, newest: int) -> int:
        """Return the last batch that is older than the retention, by binary search."""
        oldest_kept = self._durable.state.info.at - self._policy.retention_ms
        low, high = head.floor, newest
        while low < high:
            middle = (low + high + 1) // 2
            if _stamp((await self._store.read(middle, 1))[0].raw) < oldest_kept:
                low = middle
            else:
                high = middle - 1
        return low


def _stamp(raw: bytes) -> int:
    """Return the ledger time of a batch's first record."""
    records = msgspec.msgpack.decode(raw)[1]
    return int(records[0][0])
