"""The port to the index of audit entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.ledger.builtin.audit import AuditEntry
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.index_store import IndexPosition, IndexStore
from holdfast.host.ports.store import StoredBatch

#: Returns the audit entries of a batch; called outside the loop's thread.
EntryReader = Callable[[StoredBatch], list[AuditEntry]]


class AuditIndexQuery(Struct, frozen=True):
    """A filter of audit entries, newest first. An unset field matches everything.

    Entries are older than `before`, a batch and an index in it. `tenant` selects entries about it, and those about no
    tenant by `actors`, its own principals. At most `limit` are returned.
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
    """Entries that match a query. `going_on` is the batch and entry to continue before, if there are more."""

    items: tuple[AuditEntry, ...]
    going_on: tuple[int, int] | None = None


class AuditStore(IndexStore, Protocol):
    """The index of audit entries."""

    async def add(self, batches: Sequence[StoredBatch], reader: EntryReader, position: IndexPosition) -> int:
        """Store the entries of batches and the index position in one transaction; return their number."""

    async def find(self, query: AuditIndexQuery) -> AuditPage:
        """Return the entries that match the query."""
