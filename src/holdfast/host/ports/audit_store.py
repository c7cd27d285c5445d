"""The port to where audit entries are indexed, and how they are queried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.builtin.audit import AuditEntry
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.index_store import IndexPosition, IndexStore
from holdfast.host.ports.store import StoredBatch

#: The entries of a batch; called on another thread than the loop's.
EntryReader = Callable[[StoredBatch], list[AuditEntry]]


class AuditIndexQuery(Struct, frozen=True):
    """Which entries, newest first: what is unset does not matter.

    `before` is a batch and one of its entries: only older ones. `tenant`: only what is about it, or what is about
    nobody and was done by `actors`, who are its own. At most `limit`.
    """

    since: Instant = 0
    actor: str = ""
    command: str = ""
    outcome: str = ""
    before: tuple[int, int] | None = None
    tenant: str | None = None
    actors: tuple[str, ...] = ()
    limit: int = 50


class AuditPage(Struct, frozen=True):
    """What was found. `going_on`: there are more, older than this batch and entry."""

    items: tuple[AuditEntry, ...]
    going_on: tuple[int, int] | None = None


class AuditStore(IndexStore, Protocol):
    """Keeps what people did."""

    async def add(self, batches: Sequence[StoredBatch], reader: EntryReader, position: IndexPosition) -> int:
        """Keep the entries of these batches, and how far the log was read, in one step; how many they are."""

    async def find(self, query: AuditIndexQuery) -> AuditPage:
        """Entries as asked for."""
