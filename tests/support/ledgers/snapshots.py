"""Snapshots in memory: what a host would keep of a state, and that state again."""

from __future__ import annotations

from typing import TypeVar

from holdfast.core.ledger.state.chunks import chunk_steps
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.snapshot import (
    Manifest,
    decode_manifest,
    encode_manifest,
    manifest_entry,
    manifest_of,
    restore,
)

S = TypeVar("S", bound=LedgerState)


def a_snapshot(state: LedgerState) -> tuple[Manifest, list[bytes]]:
    """The manifest, as it reads back, and the chunks of a state."""
    chunks = [chunk for chunk in chunk_steps(state) if chunk is not None]
    manifest = manifest_of(state, [manifest_entry(chunk) for chunk in chunks])
    return decode_manifest(encode_manifest(manifest)), [chunk.raw for chunk in chunks]


def restored(state: LedgerState, into: S) -> S:
    """What a snapshot of this state restores to."""
    manifest, chunks = a_snapshot(state)
    restore(into, manifest, chunks)
    return into
