"""Checks by the log that few nodes count as lost at a time when many are silent (RULES 5).

If many nodes are silent, the region itself may be cut off. So within a minute at most two nodes, or a fifth of all,
count as lost. Critical slots that are merely replaced do not wait. After a new term or a pause of repair many fences
may pass together.

Most endpoints are never withdrawn at once, either: then the region itself is probably cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.events import SlotsMoved
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding

WINDOW_MS = 60_000
#: Limit of lost nodes in a window: this number, or this percentage of all, whichever is more.
FEW, PERCENT = 2, 20
FENCED = "fenced"
WITHDRAWN = "withdrawn"
#: Fewer than this many never count as most; withdrawals within this time count as one event.
MOST_LEAST, TOGETHER_MS = 3, 2_000


class SilentNodeRateCheck:
    """Checks how fast repair treats nodes as lost. `state` is the audited state after each batch."""

    def __init__(self, where: str, state: RegionState, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._state = state
        self._find = find
        #: By node and start of its silence: when its first slot failed.
        self._gone: dict[tuple[Revision, Instant], Instant] = {}
        self._paused: Instant = 0

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        for record in batch.records:
            if any(
                one.action is OverrideAction.PAUSE_REPAIR and one.ends > record.at
                for one in self._state.every_override()
            ):
                self._paused = record.at
            for event in record.events:
                if isinstance(event, SlotsMoved):
                    self._note(event, record.at, batch.header.seq)

    def _note(self, event: SlotsMoved, at: Instant, seq: int) -> None:
        for move in event.moves:
            node, slot = self._state.nodes.get(move.node), self._state.slots.get(move.slot)
            if move.phase is not Phase.FAILED or move.cause != FENCED or node is None or node.session:
                continue
            if slot is None or self._is_pressing(slot) or (node.uid, node.session_ended) in self._gone:
                continue
            self._gone[node.uid, node.session_ended] = at
            self._judge(at, seq)

    def _judge(self, at: Instant, seq: int) -> None:
        facts, nodes = self._state.info, self._state.nodes
        since = max(facts.term_at + facts.settings.fence_time, self._paused) + WINDOW_MS
        gone = [
            nodes[uid].name
            for (uid, ended), when in self._gone.items()
            if at - when < WINDOW_MS and uid in nodes and not nodes[uid].session and nodes[uid].session_ended == ended
        ]
        most = max(FEW, len(nodes) * PERCENT // 100)
        if at >= since and len(gone) > most:
            told = f"{gone} count as lost within a minute, at most {most} of {len(nodes)} may"
            self._find(Finding("few-gone", f"{self._where} batch {seq}: {told}"))

    def _is_pressing(self, slot: Slot) -> bool:
        assignment = self._state.assignments[slot.assignment]
        known = self._state.priority_classes.get(assignment.priority_class)
        return known is not None and known.spec.may_preempt and not assignment.exclusive


class EndpointWithdrawalCheck:
    """Checks one region's endpoint list. `state` is the audited state after each batch."""

    def __init__(self, where: str, state: RegionState, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._state = state
        self._find = find
        self._withdrawn: list[Instant] = []

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        for record in batch.records:
            moves = [one for event in record.events if isinstance(event, SlotsMoved) for one in event.moves]
            gone = [one for one in moves if one.phase is Phase.READY and one.cause == WITHDRAWN]
            if gone:
                lately = [at for at in self._withdrawn if record.at - at < TOGETHER_MS]
                self._withdrawn = [*lately, *(record.at for _ in gone)]
                self._judge(batch.header.seq)

    def _judge(self, seq: int) -> None:
        count = len(self._withdrawn)
        whole = count + sum(self._is_asked(slot) for slot in self._state.slots.values())
        if count >= MOST_LEAST and 2 * count > whole:
            told = f"{count} of {whole} endpoints are withdrawn at once"
            self._find(Finding("most-listed", f"{self._where} batch {seq}: {told}"))

    def _is_asked(self, slot: Slot) -> bool:
        return slot.phase is Phase.SERVING and bool(slot.ports) and not self._state.assignments[slot.assignment].batch
