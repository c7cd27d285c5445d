"""The port to where snapshots are kept, apart from the log: chunks first, the manifest last."""

from __future__ import annotations

from typing import Protocol


class SnapshotStore(Protocol):
    """Snapshots of the state after a batch: chunks first, each named by its content, the manifest last."""

    async def put_chunk(self, seq: int, name: str, raw: bytes) -> None:
        """Keep a chunk of the snapshot of batch `seq`. Durable only when its manifest is. `StoreError` if it cannot."""

    async def get_chunk(self, seq: int, name: str) -> bytes:
        """A chunk as it is on the disk. `StoreCorrupt` when it is not there."""

    async def put_manifest(self, seq: int, raw: bytes) -> None:
        """Make the snapshot count: every chunk put before is durable before the manifest is."""

    async def manifests(self) -> list[tuple[int, bytes]]:
        """All manifests, newest first."""

    async def drop_snapshot(self, seq: int) -> None:
        """Remove the snapshot of a batch, or what there is of one without a manifest: its manifest goes first."""

    async def unfinished(self) -> list[int]:
        """Batches for which there are chunks and no manifest: snapshots that were never finished."""
