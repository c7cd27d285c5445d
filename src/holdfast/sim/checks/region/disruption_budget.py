"""Checks by the log that voluntary stops of serving replicas stay within the disruption budget.

A region's share of the budget is part of its assignment. Replicas beyond the wanted number, stops that the owner
requested and forced stops cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import STOP_CAUSES, Phase, StopKind
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.sim.checks.ledger_audit import Finding


class DisruptionBudgetCheck:
    """Checks the stops of one region."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._assignments: dict[Revision, Assignment] = {}
        #: The assignment of each placed slot; and the slots that serve.
        self._of: dict[SlotKey, Revision] = {}
        self._serving: set[SlotKey] = set()
        self._count: Counter[Revision] = Counter()

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            for event in record.events:
                self._take(event, position)
                position += 1

    def _take(self, event: Any, position: Revision) -> None:
        match event:
            case e.AssignmentReceived(assignment):
                self._assignments[assignment.uid] = assignment
            case e.SlotsPlaced(assignment=uid, workload=workload, placements=placements):
                self._of |= {(workload, one.ordinal): uid for one in placements}
            case e.SlotsMoved(moves):
                for one in moves:
                    self._serve(one.slot, serves=one.phase is Phase.SERVING)
            case e.SlotsStopping(cause, stops):
                for stop in stops:
                    self._stop(stop.slot, cause, position)
            case e.SlotsReleased(releases):
                for release in releases:
                    self._serve(release.slot, serves=False)
                    self._of.pop(release.slot, None)

    def _serve(self, slot: SlotKey, *, serves: bool) -> None:
        if serves is (slot in self._serving):
            return
        self._count[self._of[slot]] += 1 if serves else -1
        (self._serving.add if serves else self._serving.discard)(slot)

    def _stop(self, slot: SlotKey, cause: str, position: Revision) -> None:
        if slot in self._serving and STOP_CAUSES[cause].kind is StopKind.VOLUNTARY:
            assignment = self._assignments[self._of[slot]]
            wanted, serving = sum(share.count for share in assignment.shares), self._count[assignment.uid]
            if serving - 1 < wanted - assignment.disruption:
                told = f"{serving} of {wanted} serve, at most {assignment.disruption} may be down"
                place = f"{self._where} {format_revision(position)}"
                self._find(Finding("budget", f"{place}: slot {slot} is stopped for {cause!r} while {told}"))
        self._serve(slot, serves=False)
