"""Checks the order of the queue by the log: a request of higher priority that can be placed comes first.

    after each batch: which slots wait and can be placed, since when?   (the oracle, if several priorities wait)
    a proposal, with its view ──▶ slots that could be placed since that view, still wait, and fit beside its slots of
                equal or higher priority, while lower ones were placed ──▶ passed over, unless excused (`excuses`),
                or unless its urgent slots and all slots in flight left no capacity on that view

A proposal has one policy, and either binds or reserves: a request of another kind than its most urgent ones waits for
the next proposal. Of sixty-four placements, one may go to a request that has waited for a minute (see `aging`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.core.ledger.codec import LogRecord
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.placement.aging import AgedTurns
from holdfast.sim.checks.placement.excuses import CommandNumber, SchedulerExcuses, WaitingGroup
from holdfast.sim.checks.placement.log_view import RegionLogView
from holdfast.sim.checks.placement.oracle import PlacementOracle


class WaitingSlot(NamedTuple):
    """A slot that waits and can be placed: assignment, template, and the batch since which it can."""

    assignment: Revision
    template: str
    since: int


class LandedProposal(NamedTuple):
    """A committed proposal: its number, evidence, placements, time of making, position in the log."""

    by: CommandNumber
    decision: DecisionEvidence
    placed: tuple[SlotsPlaced, ...]
    made: Instant
    position: Revision
    #: Placements that were in flight when it was made and were committed since.
    beside: tuple[SlotsPlaced, ...]


class PassedOverSlot(NamedTuple):
    """A slot that a proposal seems to have passed over."""

    slot: SlotKey
    one: WaitingSlot
    by: LandedProposal


class QueueOrderCheck:
    """Checks the queue of one region."""

    def __init__(
        self, state: RegionState, log: RegionLogView, clock: Callable[[], int], past: Callable[[int], RegionState]
    ) -> None:
        self._state = state
        self._log = log
        #: Returns the state after a batch, folded again.
        self._past = past
        self.excused = SchedulerExcuses(self._equals, clock)
        self._could: dict[SlotKey, WaitingSlot] = {}
        #: By template: whether its slots are bound at once, as last seen.
        self._binds: dict[str, bool] = {}
        #: Proposals of this batch, and slots passed over in the last one: a refusal arrives after its batch.
        self._proposed: list[LandedProposal] = []
        self._passed: list[PassedOverSlot] = []
        #: By scheduler: positions and placements of its proposals.
        self._landed: dict[str, list[tuple[int, tuple[SlotsPlaced, ...]]]] = {}
        self._aged = AgedTurns(state, self.priority)
        #: By batch: its ledger time.
        self._written: dict[int, Instant] = {}

    def _equals(self, assignment: Revision, template: str) -> WaitingGroup | None:
        known = self._log.assignments.get(assignment)
        return (template, known.tenant, known.priority_class) if known is not None else None

    def priority(self, assignment: Revision) -> int:
        """Return the priority of an assignment; the highest comes first."""
        return self._log.priorities.get(self._log.assignments[assignment].priority_class, 0)

    def confirmed(self) -> list[tuple[Revision, str]]:
        """Before a batch: return the slots that the last one passed over without an excuse."""
        found, passed, self._passed = [], self._passed, []
        for slot, one, by in passed:
            view = by.decision.view
            seen = view, self._written.get(seq_of(view), 0)
            excused = self.excused.is_excused(
                by.by, by.decision.in_flight, (one.assignment, one.template), slot[1], seen, by.made
            )
            if not excused and self._had_room(slot, one, by):
                told = f"could be placed since batch {one.since}, on view {seq_of(view)}, but lower priorities were"
                found.append((by.position, f"slot {slot} {told}"))
        return found

    def _had_room(self, slot: SlotKey, one: WaitingSlot, by: LandedProposal) -> bool:
        """Return whether a slot could be placed on a proposal's view beside its urgent slots and all in flight. The
        order of those in flight is checked when they are committed."""
        mine = self.priority(one.assignment)
        urgent = [event for event in by.placed if self.priority(event.assignment) >= mine]
        beside = [*by.beside, *urgent, *self._named(by, mine)]
        if not beside:
            return True
        seq = seq_of(by.decision.view)
        state = self._past(seq)
        for event in beside:
            for placed in event.placements:
                key = event.workload, placed.ordinal
                known = state.slots.get(key)
                if known is not None and known.phase is Phase.PENDING and placed.node in state.nodes:
                    stands = replace(
                        known, phase=Phase.BOUND, node=placed.node, devices=placed.devices, ports=placed.ports,
                        account=event.account, firm=event.firm,
                    )  # fmt: skip
                    state.slots.put(key, stands)
        waits = state.slots.get(slot)
        if waits is None or waits.phase is not Phase.PENDING:
            return False
        return bool(PlacementOracle(state, self._written.get(seq, 0)).verdict(waits).node)

    def _named(self, by: LandedProposal, mine: int) -> list[SlotsPlaced]:
        """Return the urgent slots of a proposal and all in flight, as sent.

        The log lacks the parts that were refused, because a slot was withdrawn or had a node by then. They used
        capacity on that view as well. An embedded scheduler has such parts too, if its batch withdraws a slot before
        the proposal.
        """
        known_here, itself = self._log.assignments, self.excused.sent(by.by)
        own = [group for group in itself.groups if group.assignment in known_here] if itself is not None else []
        groups = [group for group in own if self.priority(group.assignment) >= mine]
        for sent in self.excused.beside(by.by, by.decision.in_flight):
            groups += [group for group in sent.groups if group.assignment in known_here]
        found: list[SlotsPlaced] = []
        for group in groups:
            known = known_here[group.assignment]
            cls, account = self._state.priority_classes.get(known.priority_class), next(iter(known.accounts), "")
            firm = cls is None or not cls.spec.reclaimable
            found.append(
                SlotsPlaced(
                    group.assignment, known.workload, group.template, account, False, firm, 0, 0, group.placements
                )
            )
        return found

    def take(self, record: LogRecord[Any], by: CommandNumber, decision: DecisionEvidence, position: Revision) -> str:
        """Take a committed proposal before the rest of its batch. Return what is wrong with its own order; empty:
        nothing."""
        placed = tuple(event for event in record.events if isinstance(event, SlotsPlaced))
        requests = [(uid, one.template) for one in decision.passes for uid, _ in one.requests]
        groups = [self._equals(*request) for request in requests]
        for event in placed:
            self._binds[event.template] = event.bound
            if not event.bound:
                slots = [(event.workload, one.ordinal) for one in event.placements]
                self.excused.reserved(slots, self._equals(event.assignment, event.template))
        bound = all(event.bound for event in placed)
        self.excused.met_in_part(by, groups, record.answer, record.at, bound=bound)
        aged = self._aged.take(record)
        order = [self.priority(uid) for uid, template in requests if self._is_in_turn(uid, template, aged)]
        if order != sorted(order, reverse=True):
            return f"one proposal served requests of priorities {order} in this order"
        made = self.excused.made(by, record.sent, self._state.info.settings.proposal_life)
        landed = self._landed.setdefault(record.actor, [])
        if placed and decision.passes:
            under_way = landed[-len(decision.in_flight) :] if decision.in_flight else []
            unseen = [events for seq, events in under_way if seq > seq_of(decision.view)]
            beside = tuple(event for events in unseen for event in events)
            in_turn = tuple(event for event in placed if event not in aged)
            if in_turn:
                self._proposed.append(LandedProposal(by, decision, in_turn, made, position, beside))
        landed.append((seq_of(position), placed))
        return ""

    def _is_in_turn(self, uid: Revision, template: str, aged: list[SlotsPlaced]) -> bool:
        known = uid in self._log.assignments
        return known and all((event.assignment, event.template) != (uid, template) for event in aged)

    def look(self, at: Instant) -> None:
        """After a batch: find slots that seem passed over, and slots that wait and can be placed."""
        proposed, self._proposed = self._proposed, []
        self._written[self._state.info.seq] = at
        self._aged.look()
        waiting = [slot for slot in self._state.slots.values() if slot.phase is Phase.PENDING]
        several = len({self.priority(slot.assignment) for slot in waiting}) > 1
        if not proposed and not several:
            self._could = {}
            return
        for one in proposed:
            self._passed += self._passed_by(one, waiting, at)
        oracle, seq, could = PlacementOracle(self._state, at), self._state.info.seq, {}
        for slot in waiting:
            key = slot.workload, slot.ordinal
            if oracle.verdict(slot).node:
                could[key] = self._known(key, slot) or WaitingSlot(slot.assignment, slot.template, seq)
        self._could = could

    def _known(self, key: SlotKey, slot: Slot) -> WaitingSlot | None:
        known = self._could.get(key)
        return known if known is not None and known[:2] == (slot.assignment, slot.template) else None

    def _passed_by(self, proposed: LandedProposal, waiting: list[Slot], at: Instant) -> list[PassedOverSlot]:
        """Return slots that waited and could be placed since the proposal's view, beside all of equal or higher
        priority."""
        urgent: dict[SlotKey, int] = {
            (event.workload, one.ordinal): self.priority(event.assignment)
            for event in proposed.placed
            for one in event.placements
        }
        lowest, highest, found = min(urgent.values()), max(urgent.values()), []
        oracles: dict[int, PlacementOracle] = {}
        for slot in waiting:
            key, mine = (slot.workload, slot.ordinal), self.priority(slot.assignment)
            known = self._known(key, slot)
            if known is None or mine <= lowest or known.since > seq_of(proposed.decision.view):
                continue
            if highest >= mine and not self._is_of_its_kind(known, proposed.placed[0]):
                continue
            if mine not in oracles:
                lower = {key for key, theirs in urgent.items() if theirs < mine}
                oracles[mine] = PlacementOracle(self._state, at, without=lower)
            if oracles[mine].verdict(slot).node:
                found.append(PassedOverSlot(key, known, proposed))
        return found

    def _is_of_its_kind(self, one: WaitingSlot, other: SlotsPlaced) -> bool:
        """Return whether it could be in the same proposal: same policy, and both bind or both reserve."""
        tenant, others = (self._log.assignments[uid].tenant for uid in (one.assignment, other.assignment))
        same = self._log.valid(tenant) == self._log.valid(others)
        return same and self._binds.get(one.template) is other.bound
