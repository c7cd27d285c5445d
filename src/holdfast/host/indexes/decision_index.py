"""Index of a region's log (`log_index`): decisions by workload, slot, node and time.

It outlives the workloads. Names are those at commit time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, Corrupt, UpgradeNeeded
from holdfast.core.region.events import RegionEvent
from holdfast.core.region.queries.decisions import has_decisions
from holdfast.core.region.state.tables import RegionState
from holdfast.host.indexes.decision_collector import DecisionCollector
from holdfast.host.indexes.log_index import IndexMetric, IndexRetention, LogIndex
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.decision_store import DecisionPage, DecisionQuery, DecisionStore
from holdfast.host.ports.index_store import IndexPosition
from holdfast.host.ports.store import StoredBatch, StoreError

#: Rows written at once.
WRITE_ROWS = 2_000


class DecisionIndex(LogIndex[RegionState]):
    """The decisions of one region, on one of its servers. `run` it next to the ledger."""

    def __init__(self, ledger: Ledger[RegionState], kept: DecisionStore, lasting: IndexRetention | None = None) -> None:
        super().__init__("decisions", ledger, kept, lasting)
        self._kept = kept
        self._gathering = DecisionCollector(ledger.durable)

    async def find(self, query: DecisionQuery) -> DecisionPage:
        """Return matching decisions, newest first. `StoreError` if they cannot be read."""
        up_to = self.up_to()
        page = await self._kept.find(query)
        return replace(page, position=replace(page.position, seq=max(up_to, page.position.seq)))

    def concerns(self, batch: Batch[Any]) -> bool:
        return has_decisions(batch)

    def note(self, batch: Batch[Any]) -> None:
        self._gathering.note(batch)

    def restart(self) -> None:
        self._gathering = DecisionCollector(self._ledger.durable)

    def unlearn(self) -> None:
        self._gathering.unlearn()

    async def take(self, stored: StoredBatch, position: IndexPosition, *, learning: bool = False) -> IndexPosition:
        """Collect the decisions of one batch; during catch-up also its names, which the state may lack."""
        batches = self._ledger.definition.batches
        try:
            batch: Batch[RegionEvent] = batches.read(stored.raw, batches.header(stored.raw).previous, stored.digest)
        except (Corrupt, UpgradeNeeded) as error:
            raise StoreError(f"{self._ledger.store.name}: batch {stored.seq}: {error}") from error
        if learning:
            self._gathering.learn(batch)
        since = position.since or (batch.records[0].at if batch.records else 0)
        self._position = IndexPosition(stored.log_id, stored.seq, stored.digest, since)
        if has_decisions(batch):
            self._gathering.take(batch, batches.evidence(stored.raw))
            if self._gathering.rows >= WRITE_ROWS:
                await self._write()
        await asyncio.sleep(0)
        return self._position

    async def write(self, position: IndexPosition) -> int:
        reading = self._gathering.hand_over()
        await self._kept.add(reading, position)
        return len(reading.found)

    def measure(self, what: IndexMetric, value: int) -> None:
        metrics = self._ledger.metrics
        match what:
            case IndexMetric.FAILED:
                metrics.count("decisions_failed", value)
            case IndexMetric.BEGUN_ANEW:
                metrics.count("decisions_begun_anew", value)
            case IndexMetric.BEHIND:
                metrics.gauge("decisions_behind", value)
            case IndexMetric.KEPT:
                metrics.count("decisions_kept", value)
            case IndexMetric.BYTES:
                metrics.gauge("decisions_bytes", value)
