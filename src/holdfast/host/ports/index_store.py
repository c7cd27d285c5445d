"""The port to an index of a log: its rows and its position."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from holdfast.core.model.values.structs import Instant


class IndexPosition(Struct, frozen=True):
    """The last batch that an index has read, and the time from which it is complete."""

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    since: Instant = 0


class IndexStore(Protocol):
    """An index and its position in the log.

    Every call may raise `StoreError`. After damage, the next call starts with an empty index.
    """

    async def position(self) -> IndexPosition:
        """Return the position up to which the log was read."""

    async def begin(self, position: IndexPosition) -> None:
        """Drop everything and start after this position."""

    async def settle(self) -> int:
        """Make everything durable; return the batch up to which the log was read."""

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop rows older than `before`, then the oldest until the index has at most `size_bytes`; return its size."""

    async def close(self) -> None:
        """Close the index."""
