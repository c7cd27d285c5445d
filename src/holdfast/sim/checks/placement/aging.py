"""Of sixty-four placements one goes to the request that has waited longest: nobody is passed over without an end.

    a request waits for a minute ──▶ placements of younger ones in whose place it could stand ──▶ sixty-four of them
                                     until its next slot is placed, and for each older slot that waits: more is
                                     starvation. Another sixty-four are for a turn under way

The check uses the log and the oracle, and no scheduler's code. It applies to regions with one scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.codec import LogRecord
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.placement.oracle import PlacementOracle

AGED_MS = 60_000
EACH = 64
#: The ledger counts placements since this level.
LEVEL = 3

Request = tuple[Revision, str]


class AgingCheck:
    """Counts by how many placements of younger requests each old one was passed."""

    def __init__(self, state: RegionState) -> None:
        self._state = state
        #: By request: since when it waits, with how many slots, the placements that passed it, and the most that may.
        self._passed: dict[Request, tuple[tuple[Instant, int], int, int]] = {}

    def look(self, placed: list[SlotsPlaced], at: Instant, excused: Callable[[Slot], bool]) -> str:
        """After a batch with placements, return which request starves; empty: none."""
        requests = [(uid, one) for uid, many in self._state.requests.items() for one in many]
        since = {(uid, one.template): one.since for uid, one in requests}
        counts = {(uid, one.template): one.open for uid, one in requests}
        for key, ((before, open_), _, _) in list(self._passed.items()):
            if since.get(key) != before or counts.get(key, 0) < open_:
                del self._passed[key]
        old = sorted((began, key) for key, began in since.items() if at - began >= AGED_MS)
        if not old or not placed or self._state.info.level < LEVEL:
            return ""
        waiting: dict[Request, Slot] = {}
        for slot in self._state.slots.values():
            if slot.phase is Phase.PENDING:
                waiting.setdefault((slot.assignment, slot.template), slot)
        older = 0
        for began, key in old:
            slot = waiting[key]
            younger = [event for event in placed if since.get((event.assignment, event.template), at) > began]
            gone: list[SlotKey] = [(event.workload, one.ordinal) for event in younger for one in event.placements]
            _, passed, most = self._passed.get(key, (0, 0, EACH * (older + 2)))
            older += counts[key]
            if not gone or excused(slot) or not PlacementOracle(self._state, at, without=gone).verdict(slot).node:
                continue
            passed += len(gone)
            self._passed[key] = (began, counts[key]), passed % (most + 1), most
            if passed > most:
                return f"slot {slot.workload, slot.ordinal} waits for {at - began} ms, and {passed} others were placed"
        return ""


class AgedTurns:
    """Finds the placements that may be out of turn, for the age of their request: one of sixty-four by each scheduler.
    `priority` returns that of an assignment."""

    def __init__(self, state: RegionState, priority: Callable[[Revision], int]) -> None:
        self._state = state
        self._priority = priority
        #: By request: since when it waits, after the last batch.
        self._since: dict[Request, Instant] = {}
        #: All placements; and by scheduler, those for age.
        self._count = 0
        self._turns: Counter[str] = Counter()

    def look(self) -> None:
        """Take over the state after a batch."""
        self._since = {(uid, one.template): one.since for uid, many in self._state.requests.items() for one in many}

    def take(self, record: LogRecord[Any]) -> list[SlotsPlaced]:
        """Return the placements that may be out of turn: single slots of old requests, of a priority below that of all
        others."""
        placed = [event for event in record.events if isinstance(event, SlotsPlaced)]
        self._count += sum(len(event.placements) for event in placed)
        found = []
        for event in placed:
            waits = record.at - self._since.get((event.assignment, event.template), record.at)
            if len(event.placements) == 1 and waits >= AGED_MS and self._turns[record.actor] <= self._count // EACH:
                found.append(event)
        others = [self._priority(event.assignment) for event in placed if event not in found]
        found = [event for event in found if not others or self._priority(event.assignment) < min(others)]
        self._turns[record.actor] += len(found)
        return found
