"""Decisions between log and index, with the names of their objects.

Names come from the state. If the state no longer has an object when a batch is read, the name at commit time is used,
or, during catch-up, the name from an earlier batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.codec import Batch, Evidence
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.decisions import DecisionWithParts, unpack
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.events import AssignmentReceived, NodeStored, PendingReported, RegionEvent, SlotsPlaced
from holdfast.core.region.queries.decisions import decisions_in
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.decision_store import AssignmentRef, DecisionBatch
from holdfast.host.storage.durable_state import DurableState


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
