"""From a store to a recording: where the log begins, every batch, and what each event does today.

A log that was trimmed is folded from the oldest intact snapshot that reaches to its floor: that leaves most of it. A
batch that cannot be folded is recorded all the same, and so is everything after it: that log is the one to look at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.digest import state_digest
from holdfast.core.ledger.draft import Book
from holdfast.core.ledger.snapshot import decode_manifest
from holdfast.core.ledger.state import LedgerState
from holdfast.host.load import READ_BYTES, Damaged
from holdfast.host.store import Head, Log, Snapshots, StoreCorrupt, Stored
from holdfast.sim.effects import Watched
from holdfast.sim.recording import BookName, Entry, LedgerRecording, Start
from holdfast.sim.refold import BOOKS, begun, read_next


class Recorded(Log, Snapshots, Protocol):
    """What is asked of a store: it is only read."""


async def record(store: Recorded, which: BookName, name: str) -> LedgerRecording:
    """A ledger as it is in its store now. `Damaged` where batches or every snapshot of them are missing.

    `Trimmed` when a leader trims the log at this very time: record again.
    """
    book, head = BOOKS[which], await store.head()
    start, state = await _start(store, book, head)
    folding: Watched[Any] | None = Watched(book, state)
    entries: list[Entry] = []
    async for stored in _batches(store, state.facts.seq + 1, head):
        effects = b""
        if folding is not None:
            effects, whole = _fold(book, folding, stored)
            folding = folding if whole else None
        entries.append(Entry(stored.raw, stored.digest, effects))
    digest = b"" if folding is None else state_digest(folding.state)
    return LedgerRecording(name, which, start, tuple(entries), digest)


async def _start(store: Recorded, book: Book[Any], head: Head) -> tuple[Start | None, LedgerState]:
    if not head.floor:
        return None, book.empty()
    for seq, raw in reversed(await store.manifests()):
        if seq < head.floor:
            continue
        try:
            parts = decode_manifest(raw).parts
            start = Start(raw, tuple([await store.get_chunk(seq, part.name) for part in parts]))
            return start, begun(book, start)
        except (Corrupt, StoreCorrupt):
            continue  # the next one leaves less of the log, and is as good
    raise Damaged(
        f"{store.name}: no intact snapshot reaches back to batch {head.floor}, up to which the log is trimmed. "
        "hint: record the store of another server of this ledger"
    )


async def _batches(store: Recorded, first: int, head: Head) -> AsyncIterator[Stored]:
    while first <= head.seq:
        found = await store.read(first, READ_BYTES)
        if not found:
            raise Damaged(f"{store.name}: batch {first} is missing below its head, which is at {head.seq}")
        for stored in found[: head.seq - first + 1]:
            yield stored
        first += len(found)


def _fold(book: Book[Any], folding: Watched[Any], stored: Stored) -> tuple[bytes, bool]:
    """The digests of what its events do, and whether all of them could be applied."""
    try:
        batch = read_next(book, folding.state.facts, stored.raw, stored.digest)
    except (Corrupt, UpgradeNeeded):
        return b"", False
    folded = folding.fold(batch)
    return folded.digests(), folded.error is None
