"""Snapshots: written from a fork in small steps, read back before they count, three kept, and the log trimmed behind.

    fork --> chunks --> read each back, compare --> manifest --> drop the fourth --> trim behind the second newest
    room is short --> trim, and again until it is done

A snapshot counts only after this server has itself seen every chunk of it: the log is not trimmed on another's word.
One that was not finished is removed at the next start. While it is written, commits go on: a step takes a millisecond
or two, and between steps everybody else gets a turn (RULES 20, 22).

Size: what is written, read back, kept and trimmed is one order of steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.state.chunks import chunk_steps
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.snapshot import (
    Manifest,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
    manifest_entry,
    manifest_of,
    verify,
)
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head, Store, StoreCorrupt, StoreError, WriteOk
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.backoff import exponential
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.durable_state import DurableState
from holdfast.host.storage.space import SpaceLevel, SpaceMonitor

S = TypeVar("S", bound=LedgerState)

SNAPSHOTS_KEPT = 3
POLL_MS = 1_000
AFTER_FAILURE_MS = 30_000
#: Where room is short the log is trimmed, and if that fails again and again: after so long, twice as long each time.
TRIM_FIRST_MS, TRIM_MAX_MS = 1_000, 60_000
#: Where room is short, after so much log a snapshot is due whatever was set: behind it there is something to trim.
PRESSED_BYTES = 1 << 20
#: Between two steps everybody else gets at least this long.
REST_MS = 2


class SnapshotPolicy(Struct, frozen=True):
    """When a snapshot is due, and how long the log is kept for explanations."""

    #: After so much log, or as much as the last snapshot had, whichever is more; and after so many batches.
    log_bytes: int = 64 << 20
    log_batches: int = 50_000
    retention_ms: int = 7 * 86_400_000


class Snapshotter(Generic[S]):
    """The snapshots of one leader. `has_pressure`: history is kept only as far as safety needs it."""

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
        #: Snapshots of which this server has seen every chunk.
        self._seen_whole: set[int] = set()
        self.has_pressure = False
        #: Where room is short: how often the log was to be trimmed in vain, and when it is tried again; 0: it is done.
        self._trims, self._trim_at = 0, 0
        #: By name, who keeps what the log says: up to where it is kept durably, and the log is not needed for it.
        self.trim_holds: dict[str, Callable[[], Awaitable[int]]] = {}

    def begin_from(self, seq: int, size_bytes: int, log_bytes: int) -> None:
        """The newest snapshot is of batch `seq`; so much log came after it."""
        self._last, self._last_bytes = seq, size_bytes
        self._seen_whole = {seq}
        self._log_bytes = self._durable.log_bytes - log_bytes

    def is_due(self) -> bool:
        """Whether enough log has come together since the last one."""
        grown = self._durable.log_bytes - self._log_bytes
        batches = self._durable.state.info.seq - self._last
        wanted = min(self._policy.log_bytes, PRESSED_BYTES) if self.has_pressure else self._policy.log_bytes
        return grown >= max(wanted, self._last_bytes) or batches >= self._policy.log_batches

    async def watch(self, room: SpaceMonitor) -> None:
        """Take a snapshot whenever one is due; where room is short, keep no more history than safety needs.

        A store that fails at this may still keep the log: it is tried again later.
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
        """Trim what history takes of a store whose room is short, again and again until that is done: a store that
        stays full is read-only until a person comes."""
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
        """Remove what was begun and never finished."""
        for seq in await self._store.unfinished():
            await self._store.drop_snapshot(seq)
            self._logger.info("snapshot-leftover-removed", snapshot=seq)
        self._is_clean = True

    async def take(self) -> Manifest:
        """Write a snapshot of the state as it is now, verify it, and drop and trim what it makes superfluous."""
        began, log_bytes = self._clock.boot(), self._durable.log_bytes
        fork = self._durable.state.fork()
        seq = fork.info.seq
        parts: list[ManifestEntry] = []
        for chunk in chunk_steps(fork):
            if chunk is not None:
                await self._store.put_chunk(seq, chunk.name, chunk.raw)
                parts.append(manifest_entry(chunk))
            await self._clock.sleep(REST_MS)
        manifest = manifest_of(fork, parts)
        for _ in fork.release():
            await self._clock.sleep(REST_MS)
        await self._read_back(manifest)
        await self._store.put_manifest(seq, encode_manifest(manifest))
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

    async def _read_back(self, manifest: Manifest) -> None:
        for place, part in enumerate(manifest.parts):
            raw = await self._store.get_chunk(manifest.seq, part.name)
            try:
                verify(manifest, place, raw)
            except Corrupt as error:
                await self._store.drop_snapshot(manifest.seq)
                raise StoreCorrupt(f"{self._store.name} gave back other bytes than it was given: {error}") from error

    async def _intact(self) -> list[int]:
        """The newest snapshots that are whole, newest first, and no more than are kept."""
        found: list[int] = []
        for seq, raw in await self._store.manifests():
            if len(found) < SNAPSHOTS_KEPT and await self._is_whole(seq, raw):
                found.append(seq)
        return found

    async def _is_whole(self, seq: int, raw: bytes) -> bool:
        if seq in self._seen_whole:
            return True
        try:
            manifest = decode_manifest(raw, self._durable.definition.level)
            for place, part in enumerate(manifest.parts):
                verify(manifest, place, await self._store.get_chunk(seq, part.name))
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
        """Trim the log behind the second newest snapshot, and no later than history is kept for and was read; whether
        it is trimmed to there."""
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
        """The last batch that is older than history is kept for, searched for in the log."""
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
    """The ledger time of a batch's first record."""
    records = msgspec.msgpack.decode(raw)[1]
    return int(records[0][0])
