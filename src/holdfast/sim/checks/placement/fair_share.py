"""Within one proposal and one priority, tenants take turns by their shares, and a tenant's requests by their age.

    share of a tenant    what its accounts are charged, less its protected amount, by its weight: the largest part of
                         any resource
    order                a tenant that is served has no more than one that is served later
    quantum              nor has it more without its last slot, but for a thousandth of the region
    nothing at all       nor than one that gets nothing, and whose slot could stand where the last slot stands

Shares are counted from the rows of slots and holds. The check applies only if the scheduler's view was the newest and
nothing was in flight; the last line only if the region has one scheduler. Requests with a deadline are ordered by it
and not checked here. A single slot of a request that has waited for a minute may come out of turn (see `aging`). A
proposal either binds or reserves: whoever gets nothing has been placed before in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.core.ledger.codec import LogRecord
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.records.decisions import DecisionEvidence, SchedulingPass
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.placement.aging import AGED_MS
from holdfast.sim.checks.placement.log_view import RegionLogView
from holdfast.sim.checks.placement.oracle import PlacementOracle
from holdfast.sim.checks.placement.usage import Amounts, amounts, grow

#: A region, in the parts that shares are counted in; and the part that a tenant may be ahead by.
PARTS, AHEAD = 10**9, 10**6
#: Rounding of two shares.
ROUNDING = 2

#: Whether a scheduler may leave out this slot of a proposal.
Excuse = Callable[[Slot], bool]


class _Turn(NamedTuple):
    """A pass: priority, tenant, start of waiting (earliest of its group, latest of its own), what each slot adds to the
    charges of its tenant, and its last slot."""

    priority: int
    tenant: str
    earliest: Instant
    latest: Instant
    taken: tuple[Amounts, ...]
    last: SlotKey


class FairShareCheck:
    """Checks the order of one region's proposals, by the state before each. `alone`: it has one scheduler. `past`
    returns the state after an earlier batch."""

    def __init__(
        self, state: RegionState, log: RegionLogView, past: Callable[[int], RegionState], *, alone: bool
    ) -> None:
        self._state = state
        self._log = log
        self._past = past
        self._alone = alone
        self._seq = 0
        #: By template: whether its last placement was bound at once.
        self._binds: dict[str, bool] = {}
        #: After the last batch: since when requests wait, the accounts of slots, charges by tenant, capacity.
        self._since: dict[tuple[Revision, str], Instant] = {}
        self._paid: dict[SlotKey, str] = {}
        self._own: dict[str, Amounts] = {}
        self._rest: dict[str, Amounts] = {}
        self._whole: Amounts = {}

    def look(self) -> None:
        """Take over the state after a batch."""
        state = self._state
        self._seq = state.info.seq
        self._since = {(uid, one.template): one.since for uid, some in state.requests.items() for one in some}
        self._whole = amounts(state.totals.capacity)
        self._paid, self._own, self._rest = {}, {}, {}
        for key, slot in state.slots.items():
            self._paid[key] = slot.account
            if slot.account:
                tenant = state.assignments[slot.assignment].tenant
                self._charge(slot.account, tenant, amounts(state.templates[slot.template].need))
        for hold in state.holds.values():
            self._charge(hold.account, hold.tenant, amounts(hold.need))

    def _charge(self, account: str, tenant: str, need: Amounts) -> None:
        sums = self._own if account == f"quota/{tenant}" else self._rest
        grow(sums.setdefault(tenant, {}), need)

    def judge(self, record: LogRecord[Any], decision: DecisionEvidence, excused: Excuse) -> str:
        """Return what is wrong with the order of a proposal; empty: nothing, or not certain. The state has all of the
        proposal's batch already."""
        events = [event for event in record.events if isinstance(event, SlotsPlaced)]
        self._binds.update({event.template: event.bound for event in events})
        if decision.in_flight or seq_of(decision.view) != self._seq or record.answer or not events:
            return ""
        placed = iter(events)
        turns = [turn for one in decision.passes for turn in self._turns(one, placed)]
        spent: dict[str, Amounts] = {}
        for number, turn in enumerate(turns):
            for later in turns[number + 1 :]:
                if later.priority == turn.priority and (why := self._passed(turn, later, spent, record.at)):
                    return why
            for taken in turn.taken:
                grow(spent.setdefault(turn.tenant, {}), taken)
        if not self._alone:
            return ""
        bound = events[0].bound
        return self._left_out(
            turns, spent, record, lambda slot: self._binds.get(slot.template) is not bound or excused(slot)
        )

    def _turns(self, one: SchedulingPass, placed: Iterator[SlotsPlaced]) -> Iterator[_Turn]:
        """Yield the pass, if it placed something. Events are in the order of passes."""
        if not one.outcome.startswith("placed"):
            return
        requests = [(uid, one.template) for uid, _ in one.requests]
        events = [event for _, event in zip(requests, placed, strict=False)]
        if any(self._log.assignments[uid].deadline or (uid, one.template) not in self._since for uid, _ in requests):
            return
        first = self._log.assignments[requests[0][0]]
        equal = [since for key, since in self._since.items() if key[1] == one.template]
        need, own = amounts(self._log.templates[one.template].need), min(self._since[key] for key in requests)
        slots = [(event.workload, slot.ordinal) for event in events for slot in event.placements]
        taken = tuple({} if self._paid.get(slot) else need for slot in slots)
        priority = self._log.priorities.get(first.priority_class, 0)
        yield _Turn(priority, first.tenant, min(equal), own, taken, slots[-1])

    def _passed(self, turn: _Turn, later: _Turn, spent: dict[str, Amounts], at: Instant) -> str:
        """Return why the later one should certainly have come first; empty: not certain."""
        if turn.tenant == later.tenant:
            waits = turn.earliest - later.latest
            return f"a request of {turn.tenant} came before one that waits for {waits} ms longer" if waits > 0 else ""
        if len(turn.taken) == 1 and at - turn.latest >= AGED_MS:
            return ""
        less = self._share(later.tenant, spent.get(later.tenant, {}))
        has = self._share(turn.tenant, spent.get(turn.tenant, {}))
        before = self._before_last(turn, spent)
        told = f"before {later.tenant}, with {less} at most"
        if has > less + ROUNDING:
            return f"{turn.tenant}, with {has} billionths of the region by weight, came {told}"
        if len(turn.taken) > 1 and before > less + self._ahead(turn.tenant):
            return f"{turn.tenant}, with {before} billionths of the region by weight, got one more slot {told}"
        return ""

    def _before_last(self, turn: _Turn, spent: dict[str, Amounts]) -> int:
        """Return a tenant's share before the last slot of a turn."""
        has = dict(spent.get(turn.tenant, {}))
        for taken in turn.taken[:-1]:
            grow(has, taken)
        return self._share(turn.tenant, has)

    def _left_out(self, turns: list[_Turn], spent: dict[str, Amounts], record: LogRecord[Any], excused: Excuse) -> str:
        """Return who got nothing, though it has less and could have had the last slot of another one."""
        at = record.at
        served = {turn.tenant for turn in turns}
        waiting: dict[tuple[Revision, str], Slot] = {}
        for slot in self._state.slots.values():
            if slot.phase is Phase.PENDING:
                waiting.setdefault((slot.assignment, slot.template), slot)
        for key, slot in waiting.items():
            known = self._log.assignments[slot.assignment]
            if known.tenant in served or known.deadline or key not in self._since or excused(slot):
                continue
            mine, less = self._log.priorities.get(known.priority_class, 0), self._share(known.tenant, {})
            for turn in turns:
                if (
                    turn.priority != mine
                    or not turn.taken[-1]
                    or (len(turn.taken) == 1 and at - turn.latest >= AGED_MS)
                ):
                    continue
                has = dict(spent[turn.tenant])
                grow(has, {name: -amount for name, amount in turn.taken[-1].items()})
                more = self._share(turn.tenant, has)
                if more <= less + self._ahead(turn.tenant):
                    continue
                if self._could_have(slot, turn.last, at):
                    told = f"got another slot before {known.tenant}, with {less} at most, which waits"
                    return f"{turn.tenant}, with {more} billionths of the region by weight, {told}"
        return ""

    def _could_have(self, slot: Slot, other: SlotKey, at: Instant) -> bool:
        """Return whether a slot could stand where another one does, and could be placed by the scheduler's view."""
        if PlacementOracle(self._state, at).verdict(slot).node:
            return False  # it waits for something else, such as a grant that has just come
        if not PlacementOracle(self._state, at, without=[other]).verdict(slot).node:
            return False
        before = self._past(self._seq)
        known = before.slots.get((slot.workload, slot.ordinal))
        return (
            known is not None and known.phase is Phase.PENDING and bool(PlacementOracle(before, at).verdict(known).node)
        )

    def _ahead(self, tenant: str) -> int:
        return AHEAD // self._weight(tenant) + ROUNDING

    def _weight(self, tenant: str) -> int:
        grant = self._state.accepted_grants.get(f"quota/{tenant}")
        return grant.weight if grant is not None else 1

    def _share(self, tenant: str, more: Amounts) -> int:
        """Return a tenant's share with `more` of its quota."""
        grant = self._state.accepted_grants.get(f"quota/{tenant}")
        free = amounts(grant.protected) if grant is not None else {}
        own, rest = dict(self._own.get(tenant, {})), self._rest.get(tenant, {})
        grow(own, more)
        above = {name: max(0, own.get(name, 0) - free.get(name, 0)) + rest.get(name, 0) for name in {**own, **rest}}
        parts = [amount * PARTS // self._whole[name] for name, amount in above.items() if self._whole.get(name)]
        return max(parts, default=0) // self._weight(tenant)
