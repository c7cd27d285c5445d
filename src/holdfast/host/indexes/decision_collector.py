"""Decisions on their way from the log to where they are kept, with the names of what they are about.

Names are those of the state. When a batch is read the state may have let go of what it tells of: then they are those
that were known when it landed or, while a log is caught up with, that the batches before it gave.
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
    """What was read and not written yet."""

    def __init__(self, durable: DurableState[RegionState]) -> None:
        self._durable = durable
        self._reading = DecisionBatch()
        #: How many rows that is.
        self.rows = 0
        self._assignments: dict[Revision, Assignment] = {}
        self._nodes: dict[Revision, str] = {}

    def learn(self, batch: Batch[RegionEvent]) -> None:
        """Remember the names that a batch gives."""
        for record in batch.records:
            for event in record.events:
                if isinstance(event, AssignmentReceived):
                    self._assignments[event.assignment.uid] = event.assignment
                elif isinstance(event, NodeStored):
                    self._nodes[event.node.uid] = event.node.name

    def note(self, batch: Batch[RegionEvent]) -> None:
        """Remember whom a batch is about that landed just now: by the time it is read, the state may have let go."""
        assignments = self._durable.state.assignments
        for record in batch.records:
            for event in record.events:
                if isinstance(event, SlotsPlaced | PendingReported):
                    known = assignments.get(event.assignment)
                    if known is not None:
                        self._assignments[known.uid] = known

    def unlearn(self) -> None:
        """Everything that was heard of is read: go by the state alone."""
        self._assignments, self._nodes = {}, {}

    def take(self, batch: Batch[RegionEvent], evidence: Iterable[Evidence]) -> None:
        """Take the decisions of a batch."""
        for found in decisions_in(batch, evidence, self._whose):
            self._reading.found.append(found)
            self.rows += 1 + len(found.parts)
            self._name(found)

    def hand_over(self) -> DecisionBatch:
        """All that was taken since it was last asked for."""
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
