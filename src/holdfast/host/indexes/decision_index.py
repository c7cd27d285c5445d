"""Index of a region's log (`log_index`): decisions by workload, slot, node and time.

It outlives the workloads. Names come from the state. If the state no longer has an object when a batch is read, the
name at commit time is used, or, during catch-up, the name from an earlier batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch, Corrupt, Evidence, UpgradeNeeded
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.decisions import DecisionWithParts, unpack
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.events import AssignmentReceived, NodeStored, PendingReported, RegionEvent, SlotsPlaced
from holdfast.core.region.queries.decisions import decisions_in, has_decisions
from holdfast.core.region.state.tables import RegionState
from holdfast.host.indexes.log_index import IndexMetric, IndexRetention, LogIndex
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.index_store import (
    AssignmentRef,
    DecisionBatch,
    DecisionPage,
    DecisionQuery,
    DecisionStore,
    IndexPosition,
)
from holdfast.host.ports.store import StoredBatch, StoreError
from holdfast.host.storage.durable_state import DurableState

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


class DecisionCollector:
    """Decisions that were read and not written yet."""

    def __init__(self, durable: DurableState[RegionState]) -> None:
        self._durable = durable
        self._reading = DecisionBatch()
        #: Number of their rows.
        self.rows = 0
        self._assignments: dict[Revision, Assignment] = {}
        self._nodes: dict[Revision, str] = {}

    def learn(self, batch: Batch[RegionEvent]) -> None:
        """Remember the names in a batch."""
        for record in batch.records:
            for event in record.events:
                if isinstance(event, AssignmentReceived):
                    self._assignments[event.assignment.uid] = event.assignment
                elif isinstance(event, NodeStored):
                    self._nodes[event.node.uid] = event.node.name

    def note(self, batch: Batch[RegionEvent]) -> None:
        """Remember the assignments of a new batch: the state may lack them when it is read."""
        assignments = self._durable.state.assignments
        for record in batch.records:
            for event in record.events:
                if isinstance(event, SlotsPlaced | PendingReported):
                    known = assignments.get(event.assignment)
                    if known is not None:
                        self._assignments[known.uid] = known

    def unlearn(self) -> None:
        """Forget remembered names: all observed batches were read."""
        self._assignments, self._nodes = {}, {}

    def take(self, batch: Batch[RegionEvent], evidence: Iterable[Evidence]) -> None:
        """Collect the decisions of a batch."""
        for found in decisions_in(batch, evidence, self._whose):
            self._reading.found.append(found)
            self.rows += 1 + len(found.parts)
            self._name(found)

    def hand_over(self) -> DecisionBatch:
        """Return all that was collected since the last call."""
        reading, self._reading, self.rows = self._reading, DecisionBatch(), 0
        return reading

    def _whose(self, uid: Revision) -> Assignment | None:
        return self._durable.state.assignments.get(uid) or self._assignments.get(uid)

    def _name(self, found: DecisionWithParts) -> None:
        reading, nodes = self._reading, self._durable.state.nodes
        seen = found.decided.found
        chosen = {one.node for one in seen.candidates} if seen is not None else set()
        for part in found.parts:
            chosen.update(unpack(part.nodes))
            known = self._whose(part.assignment)
            if known is not None:
                named = AssignmentRef(known.uid, known.workload, known.tenant, known.workload_name, known.purpose.value)
                reading.assignments[known.uid] = named
        for uid in chosen - reading.nodes.keys():
            node = nodes.get(uid)
            name = node.name if node is not None else self._nodes.get(uid)
            if name is not None:
                reading.nodes[uid] = name
