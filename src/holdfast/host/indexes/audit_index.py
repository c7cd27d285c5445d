"""Index of a log (`log_index`): commands of operators and tenants, and denials, by time, actor, command and outcome.

Raw batches go to the audit store, which reads them on a thread of its own, never on the event loop.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.builtin.audit import AuditEntry, entries_in, has_entries
from holdfast.core.ledger.codec import Batch, Corrupt, UpgradeNeeded
from holdfast.host.indexes.log_index import IndexMetric, IndexRetention, LogIndex
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.index_store import AuditIndexQuery, AuditPage, AuditStore, IndexPosition
from holdfast.host.ports.store import StoredBatch, StoreError

#: Bytes of the log that are handed over at once.
HANDED_BYTES = 1 << 20


class AuditIndex(LogIndex[Any]):
    """The audit of one ledger, on one of its servers. `run` it next to the ledger."""

    def __init__(self, ledger: Ledger[Any], kept: AuditStore, lasting: IndexRetention | None = None) -> None:
        super().__init__("audit", ledger, kept, lasting)
        self._kept = kept
        self._taken: list[StoredBatch] = []
        self._bytes = 0

    async def find(self, query: AuditIndexQuery) -> AuditPage:
        """Return matching entries, newest first. `StoreError` if they cannot be read."""
        return await self._kept.find(query)

    def concerns(self, batch: Batch[Any]) -> bool:
        return has_entries(batch)

    def restart(self) -> None:
        self._taken, self._bytes = [], 0

    async def take(self, stored: StoredBatch, position: IndexPosition, *, learning: bool = False) -> IndexPosition:  # noqa: ARG002  # all are taken, always
        self._taken.append(stored)
        self._bytes += len(stored.raw)
        self._position = IndexPosition(stored.log_id, stored.seq, stored.digest, position.since)
        if self._bytes >= HANDED_BYTES:
            await self._write()
        return self._position

    async def write(self, position: IndexPosition) -> int:
        taken = self._taken
        self.restart()
        return await self._kept.add(taken, self._read, position)

    def _read(self, stored: StoredBatch) -> list[AuditEntry]:
        definition = self._ledger.definition
        try:
            return entries_in(stored.raw, stored.digest, definition.batches, definition.envelopes)
        except (Corrupt, UpgradeNeeded) as error:
            raise StoreError(f"{self._ledger.store.name}: batch {stored.seq}: {error}") from error

    def measure(self, what: IndexMetric, value: int) -> None:
        metrics = self._ledger.metrics
        match what:
            case IndexMetric.FAILED:
                metrics.count("audit_failed", value)
            case IndexMetric.BEGUN_ANEW:
                metrics.count("audit_begun_anew", value)
            case IndexMetric.BEHIND:
                metrics.gauge("audit_behind", value)
            case IndexMetric.KEPT:
                metrics.count("audit_kept", value)
            case IndexMetric.BYTES:
                metrics.gauge("audit_bytes", value)
