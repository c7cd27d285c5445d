"""Checks by the log that most endpoints are never withdrawn at once: then the region itself is probably cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.events import SlotsMoved
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding

WITHDRAWN = "withdrawn"
#: Fewer than this many never count as most; withdrawals within this time count as one event.
MOST_LEAST, TOGETHER_MS = 3, 2_000


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
