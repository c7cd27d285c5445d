"""Checks that controllers do not undo each other's work: they end a replica at most as often as there were reasons.

Reasons are a changed assignment, an operator's change of a node, and an override; each allows one or two ends. Two
controllers that undo each other's work have no reasons and exceed every limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.builtin.overrides import OverrideOpened
from holdfast.core.ledger.codec import Batch
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.sim.checks.ledger_audit import Finding

#: How often controllers may end a replica without a reason, and in addition for each reason.
AT_FIRST, EACH = 4, 2
WITHDRAWN = "withdrawn"


class ReplicaChurnCheck:
    """Checks the replicas of one region."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._ended: dict[SlotKey, int] = {}
        #: By workload: changes of its assignment; and changes that may concern every workload.
        self._asked: dict[Revision, int] = {}
        self._others = 0
        self._told: set[SlotKey] = set()

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        for record in batch.records:
            for event in record.events:
                self._take(event, record.command)

    def _take(self, event: Any, command: str) -> None:
        match event:
            case e.AssignmentReceived(assignment):
                self._asked[assignment.workload] = self._asked.get(assignment.workload, 0) + 1
            case e.NodeStored() if command == "administer-node":
                self._others += 1
            case e.OverrideReceived() | OverrideOpened():
                self._others += 1
            case e.SlotsStopping(cause, stops):
                self._end([one.slot for one in stops], cause)
            case e.SlotsReleased(releases):
                self._end([one.slot for one in releases if one.cause == WITHDRAWN], WITHDRAWN)

    def _end(self, slots: list[SlotKey], cause: str) -> None:
        for slot in slots:
            ended = self._ended[slot] = self._ended.get(slot, 0) + 1
            reasons = self._asked.get(slot[0], 0) + self._others
            if ended > AT_FIRST + EACH * reasons and slot not in self._told:
                self._told.add(slot)
                told = f"was ended {ended} times, the last time for {cause!r}, with {reasons} reasons"
                self._find(Finding("churn", f"{self._where}: slot {slot} {told}"))
