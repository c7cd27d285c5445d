"""Load a state from a store: the newest intact snapshot, and the batches after it.

manifests, newest first --> verify every chunk --> restore      a damaged one is logged, and the next one tried
batches after it        --> chain, decode, fold                 a damaged one is named, and the server stops
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic

from holdfast.core.ledger.codec import Batch, Corrupt, UpgradeNeeded, chain
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.state.ledger_state import LedgerState, S
from holdfast.core.ledger.state.snapshot import Manifest, SnapshotLoader, decode_manifest
from holdfast.host.errors import Stopped, StoreWentBackwards
from holdfast.host.ports.store import LogTrimmed, Store, StoreCorrupt, StoredBatch, StoreError
from holdfast.host.runtime.gc_tuning import gc_paused
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.storage.durable_state import leader_named

#: Bytes of the log per read.
READ_BYTES = 8 << 20
#: Number of batches that are folded per turn of the loop.
FOLD_AT_ONCE = 64


class Damaged(Stopped):
    """The log cannot be read past the position that the message names."""


class LoadedState(Generic[S]):
    """A state, and the batch of the snapshot that it began with: zero for none."""

    def __init__(self, state: S, snapshot: int, size_bytes: int) -> None:
        self.state = state
        self.snapshot = snapshot
        self.size_bytes = size_bytes
        #: Bytes of the log after the snapshot.
        self.tail_bytes = 0
        #: The server that started the newest term, if the log shows it.
        self.leader = ""


async def load(definition: LedgerDefinition[S], store: Store, logger: Logger) -> LoadedState[S]:
    """Return the state as of the store's head."""
    with gc_paused():
        manifests = await store.manifests()
        loaded = await _from_snapshot(definition, store, manifests, logger)
        head = await store.head()
        state = loaded.state
        if state.info.seq < head.floor:
            if await store.manifests() != manifests:
                raise LogTrimmed(f"{store.name}: snapshots were dropped and the log was trimmed while they were read")
            raise Damaged(
                f"{store.name}: no intact snapshot reaches back to batch {head.floor}, up to which the log is trimmed. "
                "hint: copy a snapshot from another server of this ledger, or restore a backup into a new log"
            )
        while state.info.seq < head.seq:
            await _fold_some(definition, store, loaded)
        loaded.leader = loaded.leader or await _leader_before(definition, store, state, head.floor)
        if state.info.seq:
            logger.info("loaded", seq=state.info.seq, snapshot=loaded.snapshot, term=state.info.term)
        return loaded


async def _fold_some(definition: LedgerDefinition[S], store: Store, loaded: LoadedState[S]) -> None:
    state = loaded.state
    batches = await store.read(state.info.seq + 1, READ_BYTES)
    if not batches:
        raise Damaged(f"{store.name}: batch {state.info.seq + 1} is missing below its head")
    for number, stored in enumerate(batches):
        batch = read_batch(definition, state, stored, store.name)
        fold(definition, state, batch)
        loaded.leader = leader_named(batch) or loaded.leader
        if number % FOLD_AT_ONCE == 0:
            await asyncio.sleep(0)
    loaded.tail_bytes += sum(len(stored.raw) for stored in batches)


async def _leader_before(definition: LedgerDefinition[S], store: Store, state: S, floor: int) -> str:
    """Return the server that started the newest term, from the log before the snapshot; empty if it is trimmed."""
    first, last = floor + 1, state.info.seq
    if first > last:
        return ""
    try:
        while first < last:
            middle = (first + last) // 2
            header = definition.batches.header((await store.read(middle, 1))[0].raw)
            first, last = (middle + 1, last) if header.term < state.info.term else (first, middle)
        stored = (await store.read(first, 1))[0]
        previous = definition.batches.header(stored.raw).previous
        return leader_named(definition.batches.read(stored.raw, previous, stored.digest))
    except (StoreError, Corrupt, UpgradeNeeded, LookupError):  # nothing depends on it
        return ""


def read_batch(definition: LedgerDefinition[Any], state: LedgerState, stored: StoredBatch, store: str) -> Batch[Any]:
    """Return the batch that follows this state, or raise `Damaged`, or `UpgradeNeeded` for a newer format."""
    try:
        batch: Batch[Any] = definition.batches.read(stored.raw, state.info.digest, stored.digest)
    except Corrupt as error:
        _must_follow(definition, state, stored, store)
        raise Damaged(
            f"{store}: batch {stored.seq} is damaged: {error}. hint: the state is intact up to batch "
            f"{state.info.seq}; restore the batch from another server or a backup, or start a new log from there"
        ) from error
    except UpgradeNeeded as error:
        raise UpgradeNeeded(f"{store}: {error}. hint: start a newer version of this server") from error
    if batch.header.seq != stored.seq or stored.seq != state.info.seq + 1:
        raise Damaged(f"{store}: batch {batch.header.seq} is stored as batch {stored.seq}, after {state.info.seq}")
    return batch


def _must_follow(definition: LedgerDefinition[Any], state: LedgerState, stored: StoredBatch, store: str) -> None:
    """Raise if the batch is intact and follows another history: the store was replaced (RULES 9)."""
    try:
        previous = definition.batches.header(stored.raw).previous
    except UpgradeNeeded:  # the bytes are unreadable
        return
    facts = state.info
    if previous != facts.digest and chain(previous, stored.raw) == stored.digest:
        raise StoreWentBackwards(
            f"{store}: batch {stored.seq} follows {previous[:8].hex()}, and this server was at "
            f"{facts.log_id}:{facts.seq}:{facts.digest[:8].hex()}; this server stops. "
            "hint: the store was restored from a backup and written to; restart this server to follow it"
        )


async def _from_snapshot(
    definition: LedgerDefinition[S], store: Store, manifests: list[tuple[int, bytes]], logger: Logger
) -> LoadedState[S]:
    for seq, raw in manifests:
        state = definition.empty()
        try:
            manifest = decode_manifest(raw, definition.level)
            await _restore(state, store, manifest)
        except (Corrupt, StoreCorrupt) as error:
            logger.error("snapshot-damaged", store=store.name, snapshot=seq, why=error)
            continue
        return LoadedState(state, manifest.seq, manifest.size_bytes)
    return LoadedState(definition.empty(), 0, 0)


async def _restore(state: LedgerState, store: Store, manifest: Manifest) -> None:
    """Restore a snapshot; the next chunks are read while one is decoded."""
    restoring = SnapshotLoader(state, manifest)
    parts = [part.name for part in manifest.parts]
    reading = [asyncio.ensure_future(store.get_chunk(manifest.seq, name)) for name in parts[:2]]
    try:
        for place in range(len(parts)):
            raw = await reading.pop(0)
            if place + 2 < len(parts):
                reading.append(asyncio.ensure_future(store.get_chunk(manifest.seq, parts[place + 2])))
            restoring.take(raw)
        restoring.finish()
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
