"""The port to where an index of a log is kept: rows, and the position up to which the log was read."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from holdfast.core.model.values.structs import Instant


class IndexPosition(Struct, frozen=True):
    """How far the log was read: which log, up to which batch; and from when on nothing is missing."""

    log_id: str = ""
    seq: int = 0
    digest: bytes = b""
    since: Instant = 0


class IndexStore(Protocol):
    """Keeps what an index has of a log. Every call may raise `StoreError`; what is damaged is begun anew with the next
    one."""

    async def position(self) -> IndexPosition:
        """How far the log was read."""

    async def begin(self, position: IndexPosition) -> None:
        """Drop everything, and begin after this place."""

    async def settle(self) -> int:
        """Make everything durable; up to which batch the log was read."""

    async def tidy(self, before: Instant, size_bytes: int) -> int:
        """Drop what is older, and the oldest while all takes more room; how much it takes then."""

    async def close(self) -> None:
        """Let go of it."""
