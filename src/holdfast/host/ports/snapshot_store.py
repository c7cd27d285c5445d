"""The port to the store of snapshots, separate from the log."""

from __future__ import annotations

from typing import Protocol


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
