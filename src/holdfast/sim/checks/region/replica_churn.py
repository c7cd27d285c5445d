"""Nobody changes a replica to and fro: how often controllers end one is bounded by how often somebody had a reason to.

A replica may be stopped or withdrawn because its workload was asked for otherwise, its node was, or an override said
so: each of those once or twice. Two controllers that undo each other's work need no reason, and pass any bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.builtin.overrides import OverrideOpened
from holdfast.core.ledger.codec import Batch
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.sim.checks.ledger_audit import Finding

#: So often a replica may be ended by controllers without anybody having asked for anything else, and for each reason.
AT_FIRST, EACH = 4, 2
WITHDRAWN = "withdrawn"


class ReplicaChurnCheck:
    """The judge of one region's replicas."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._ended: dict[SlotKey, int] = {}
        #: By workload, how often it was asked for otherwise; and how often something was that may concern everybody.
        self._asked: dict[Revision, int] = {}
        self._others = 0
        self._told: set[SlotKey] = set()

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""
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
                told = f"was ended {ended} times, at last for {cause!r}, and there were {reasons} reasons to"
                self._find(Finding("churn", f"{self._where}: slot {slot} {told}"))
