"""Makes a recording from a store or a simulation: the start of the log, every batch, and the effects of its events.

A trimmed log is folded from the oldest intact snapshot at or after its floor, which leaves most of the log. A batch
that cannot be folded is recorded without effects, and so are all later ones: such a log needs examination.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Protocol

from holdfast.core.ledger.builtin.log import LogStarted
from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.snapshot import decode_manifest
from holdfast.host.ports.store import Head, LogStore, SnapshotStore, StoreCorrupt, StoredBatch
from holdfast.host.storage.load import READ_BYTES, Damaged
from holdfast.replay.divergence import events_of
from holdfast.replay.effects import EffectTracker
from holdfast.replay.recording import PLATFORM_NAME, LedgerKind, LedgerRecording, RecordedBatch, SnapshotStart
from holdfast.replay.refold import LEDGER_DEFINITIONS, initial_state, read_next


class RecordableStore(LogStore, SnapshotStore, Protocol):
    """The parts of a store that are used; it is only read."""


async def record(store: RecordableStore, which: LedgerKind, name: str) -> LedgerRecording:
    """Record a ledger as it is in its store now. Raise `Damaged` if batches or all snapshots are missing.

    Raise `LogTrimmed` if a leader trims the log meanwhile: record again.
    """
    definition, head = LEDGER_DEFINITIONS[which], await store.head()
    start, state = await _start(store, definition, head)
    folding = _Folding(definition, state)
    async for stored in _batches(store, state.info.seq + 1, head):
        folding.take(stored)
    return folding.recorded(which, name, start)


def record_log(name: str, log: Iterable[StoredBatch]) -> LedgerRecording:
    which = ledger_kind(name if name == PLATFORM_NAME else f"region/{name}")
    folding = _Folding(LEDGER_DEFINITIONS[which], LEDGER_DEFINITIONS[which].empty())
    for stored in log:
        folding.take(stored)
    return folding.recorded(which, name, None)


def ledger_kind(ledger: str) -> LedgerKind:
    return "platform" if ledger == PLATFORM_NAME else "region"


async def ledger_name_in(store: RecordableStore) -> str:
    for _, raw in await store.manifests():
        with suppress(Corrupt):
            return decode_manifest(raw).ledger
    for stored in (await store.read(1, READ_BYTES))[:1]:
        # The first batch has the same format in both kinds of ledger and names its ledger.
        batch = LEDGER_DEFINITIONS["region"].batches.read(stored.raw, b"", stored.digest)
        for _, event in events_of(batch):
            if isinstance(event, LogStarted):
                return event.ledger
    raise Damaged(f"{store.name}: no manifest or batch names its ledger. hint: was a server ever started on it?")


class _Folding:
    """The recording of one log in progress."""

    def __init__(self, definition: LedgerDefinition[Any], state: LedgerState) -> None:
        self._definition = definition
        #: None after a batch that could not be folded.
        self._watched: EffectTracker[Any] | None = EffectTracker(definition, state)
        self._entries: list[RecordedBatch] = []

    def take(self, stored: StoredBatch) -> None:
        """Record the next batch."""
        effects = b""
        if self._watched is not None:
            effects, whole = _fold(self._definition, self._watched, stored)
            self._watched = self._watched if whole else None
        self._entries.append(RecordedBatch(stored.raw, stored.digest, effects))

    def recorded(self, which: LedgerKind, name: str, start: SnapshotStart | None) -> LedgerRecording:
        digest = b"" if self._watched is None else state_digest(self._watched.state)
        return LedgerRecording(name, which, start, tuple(self._entries), digest)


async def _start(
    store: RecordableStore, definition: LedgerDefinition[Any], head: Head
) -> tuple[SnapshotStart | None, LedgerState]:
    if not head.floor:
        return None, definition.empty()
    for seq, raw in reversed(await store.manifests()):
        if seq < head.floor:
            continue
        try:
            parts = decode_manifest(raw).parts
            start = SnapshotStart(raw, tuple([await store.get_chunk(seq, part.name) for part in parts]))
            return start, initial_state(definition, start)
        except (Corrupt, StoreCorrupt):
            continue  # the next snapshot covers less of the log, and is as good
    raise Damaged(
        f"{store.name}: no intact snapshot reaches back to batch {head.floor}, up to which the log is trimmed. "
        "hint: record the store of another server of this ledger"
    )


async def _batches(store: RecordableStore, first: int, head: Head) -> AsyncIterator[StoredBatch]:
    while first <= head.seq:
        found = await store.read(first, READ_BYTES)
        if not found:
            raise Damaged(f"{store.name}: batch {first} is missing below its head, batch {head.seq}")
        for stored in found[: head.seq - first + 1]:
            yield stored
        first += len(found)


def _fold(definition: LedgerDefinition[Any], folding: EffectTracker[Any], stored: StoredBatch) -> tuple[bytes, bool]:
    """Return the digests of a batch's effects, and whether all of its events were applied."""
    try:
        batch = read_next(definition, folding.state.info, stored.raw, stored.digest)
    except (Corrupt, UpgradeNeeded):
        return b"", False
    folded = folding.fold(batch)
    return folded.digests(), folded.error is None
