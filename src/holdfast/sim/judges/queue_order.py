"""The order of the queue, judged by the log: whoever is of higher priority and could be placed comes first.

    after each batch: who waits and could be placed, since when?      (the oracle, where several priorities wait)
    a proposal: what it says of its view ──▶ who could be placed there and still waits, while lower ones were placed?

What keeps somebody out of one proposal for good reason is left alone: proposals in flight, another way of binding,
another policy, and whoever was refused a little while ago and waits for its next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.evidence import Decision
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.shapes import Instant, Revision, SlotKey
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state import RegionState
from holdfast.sim.judges.followed import Followed
from holdfast.sim.judges.placement import Oracle

#: For so long a scheduler may leave alone what it was refused, and where.
RANKLES_MS = 60_000
#: So long it takes at most until a scheduler has heard of what its view of the ledger already has.
HEARS_MS = 100


class Waiting(NamedTuple):
    """A slot that waits and could be placed: of which assignment and template, and since which batch and when."""

    assignment: Revision
    template: str
    since: int
    at: Instant


class QueueOrder:
    """The judge of one region's queue. `refused` is how much schedulers were refused so far."""

    def __init__(self, state: RegionState, log: Followed, refused: Callable[[], int]) -> None:
        self._state = state
        self._log = log
        self._refused = refused
        self._refusals, self._refused_at = 0, -RANKLES_MS
        self._could: dict[SlotKey, Waiting] = {}
        #: By template: whether its slots are bound at once, as far as that was seen.
        self._binds: dict[str, bool] = {}

    def priority(self, assignment: Revision) -> int:
        """How urgent an assignment is; the highest first."""
        return self._log.priorities.get(self._log.assignments[assignment].priority_class, 0)

    def judge(self, decision: Decision, placed: list[SlotsPlaced], at: Instant) -> str:
        """What is wrong with the order of a proposal, by who could have been placed before it; empty: nothing."""
        uids = [uid for one in decision.passes for uid, _ in one.requests if uid in self._log.assignments]
        order = [self.priority(uid) for uid in uids]
        if order != sorted(order, reverse=True):
            return f"in one proposal requests of priorities {order} were served in turn"
        for event in placed:
            self._binds[event.template] = event.bound
        if not placed or decision.in_flight or not decision.passes or at - self._refused_at < RANKLES_MS:
            return ""
        lowest = min(placed, key=lambda event: self.priority(event.assignment))
        ours = {(event.workload, one.ordinal) for event in placed for one in event.placements}
        for slot, one in self._could.items():
            if slot in ours or one.since > seq_of(decision.view) or at - one.at < HEARS_MS:
                continue
            if one.assignment not in self._log.assignments:
                continue
            higher = self.priority(one.assignment) > self.priority(lowest.assignment)
            if higher and self._is_of_its_kind(one, lowest) and slot not in self._log.stands:
                return f"slot {slot} could be placed since batch {one.since}, and lower priorities were"
        return ""

    def _is_of_its_kind(self, one: Waiting, other: SlotsPlaced) -> bool:
        """Whether it may be in the same proposal."""
        tenant, others = (self._log.assignments[uid].tenant for uid in (one.assignment, other.assignment))
        same = self._log.valid(tenant) == self._log.valid(others)
        return same and self._binds.get(one.template) is other.bound

    def look(self, at: Instant) -> None:
        """After a batch: who waits and could be placed. Where all that wait are of one priority nobody is passed."""
        refused = self._refused()
        if refused != self._refusals:
            self._refusals, self._refused_at = refused, at
        waiting = [slot for _, slot in self._state.slots.unordered() if slot.phase is Phase.PENDING]
        if len({self.priority(slot.assignment) for slot in waiting}) < 2:
            self._could = {}
            return
        oracle, seq, could = Oracle(self._state, at), self._state.facts.seq, {}
        for slot in sorted(waiting, key=lambda slot: (slot.workload, slot.ordinal)):
            key = slot.workload, slot.ordinal
            if oracle.verdict(slot).node:
                before = self._could.get(key)
                could[key] = before or Waiting(slot.assignment, slot.template, seq, at)
        self._could = could
