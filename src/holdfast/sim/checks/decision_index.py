"""Every slot on a node has its decision in the index, rebuilt from a region's log.

log ──▶ decisions, collected as a server does (`host/indexes`) ──▶ the newest one about each slot: this node?
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.decisions import has_decisions
from holdfast.core.region.state.tables import RegionState
from holdfast.host.indexes.decision_index import DecisionCollector
from holdfast.host.ports.index_store import DecisionQuery, DecisionStore, IndexPosition
from holdfast.host.ports.store import StoredBatch
from holdfast.host.storage.durable_state import DurableState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.stores.indexes.decision_rows import DecisionDatabase


async def slots_without_decision(state: RegionState, log: Sequence[StoredBatch]) -> list[Finding]:
    """Find slots whose newest decision is missing or names another node. `log` is complete."""
    kept = await _index(state, log)
    slots = [slot for slot in state.slots.values() if slot.node]
    return [finding for slot in slots if (finding := await _find(kept, slot)) is not None]


async def _index(state: RegionState, log: Sequence[StoredBatch]) -> DecisionStore:
    kept, gathering = DecisionDatabase(), DecisionCollector(DurableState(REGION, state))
    for stored in log:
        batch = REGION.batches.read(stored.raw, REGION.batches.header(stored.raw).previous, stored.digest)
        gathering.learn(batch)
        if has_decisions(batch):
            gathering.take(batch, REGION.batches.evidence(stored.raw))
    await kept.begin(IndexPosition(state.info.log_id))
    await kept.add(gathering.hand_over(), IndexPosition(state.info.log_id, state.info.seq, state.info.digest))
    return kept


async def _find(kept: DecisionStore, slot: Slot) -> Finding | None:
    page = await kept.find(DecisionQuery(workload=format_revision(slot.workload), ordinal=slot.ordinal, limit=1))
    went = [node for told in page.items for _, ordinal, node in told.placements if ordinal == slot.ordinal]
    if went == [slot.node]:
        return None
    told = f"goes to {', '.join(map(format_revision, went))}" if went else "is nowhere"
    where = f"slot {format_revision(slot.workload)}/{slot.ordinal} is on {format_revision(slot.node)}"
    return Finding("explained", f"{where}, and the newest decision about it {told}")
