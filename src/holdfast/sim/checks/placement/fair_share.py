"""Within one proposal and one priority, the tenant with the least usage comes first, then the longest wait.

The check uses the log up to the scheduler's view. It applies only if that view was the newest and nothing was in
flight. Requests with a deadline are ordered by it and not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.core.ledger.codec import LogRecord
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.records.decisions import DecisionEvidence, SchedulingPass
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.events import SlotsPlaced
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.placement.log_view import RegionLogView
from holdfast.sim.checks.placement.usage import Amounts, amounts, grow

WHOLE = 1_000_000


class _Turn(NamedTuple):
    """A pass: priority, tenant, start of waiting (earliest of its group, latest of its own), usage."""

    priority: int
    tenant: str
    earliest: Instant
    latest: Instant
    taken: Amounts


class FairShareCheck:
    """Checks the order of one region's proposals, by the state before each."""

    def __init__(self, state: RegionState, log: RegionLogView) -> None:
        self._state = state
        self._log = log
        self._seq = 0
        #: After the last batch: since when requests wait, charges of tenants, capacity of the region.
        self._since: dict[tuple[Revision, str], Instant] = {}
        self._charged: dict[str, Amounts] = {}
        self._whole: Amounts = {}

    def look(self) -> None:
        """Take over the state after a batch."""
        state = self._state
        self._seq = state.info.seq
        self._since = {(uid, one.template): one.since for uid, some in state.requests.items() for one in some}
        self._whole = amounts(state.totals.capacity)
        self._charged = {
            account.removeprefix("quota/"): amounts(use.charged)
            for account, use in state.account_usage.items()
            if account.startswith("quota/")
        }

    def judge(self, record: LogRecord[Any], decision: DecisionEvidence) -> str:
        """Return what is wrong with the order of a proposal; empty: nothing, or not certain."""
        if decision.in_flight or seq_of(decision.view) != self._seq:
            return ""
        turns = [turn for one in decision.passes if (turn := self._turn(one, record)) is not None]
        spent: dict[str, Amounts] = {}
        for number, turn in enumerate(turns):
            for later in turns[number + 1 :]:
                if later.priority == turn.priority and (why := self._passed(turn, later, spent)):
                    return why
            grow(spent.setdefault(turn.tenant, {}), turn.taken)
        return ""

    def _turn(self, one: SchedulingPass, record: LogRecord[Any]) -> _Turn | None:
        requests = [(uid, one.template) for uid, _ in one.requests]
        if any(self._log.assignments[uid].deadline or (uid, one.template) not in self._since for uid, _ in requests):
            return None
        first = self._log.assignments[requests[0][0]]
        equal = [since for key, since in self._since.items() if key[1] == one.template]
        need, taken = amounts(self._log.templates[one.template].need), dict[str, int]()
        for event in _placed(record, requests):
            for _ in event.placements:
                grow(taken, need)
        own = min(self._since[key] for key in requests)
        return _Turn(self._log.priorities.get(first.priority_class, 0), first.tenant, min(equal), own, taken)

    def _passed(self, turn: _Turn, later: _Turn, spent: dict[str, Amounts]) -> str:
        """Return why the later one should certainly have come first; empty: not certain."""
        if turn.tenant == later.tenant:
            waits = turn.earliest - later.latest
            return f"a request of {turn.tenant} came before one that waits for {waits} ms longer" if waits > 0 else ""
        mine, most = self._charged.get(turn.tenant, {}), dict(self._charged.get(later.tenant, {}))
        grow(most, spent.get(later.tenant, {}))
        has, less = self._share(mine), self._share(most)
        told = f"{turn.tenant}, with {has} millionths of the region, came before {later.tenant}, with {less} at most"
        return told if has > less else ""

    def _share(self, used: Amounts) -> int:
        parts = [amount * WHOLE // self._whole[name] for name, amount in used.items() if self._whole.get(name)]
        return max(parts, default=0)


def _placed(record: LogRecord[Any], requests: list[tuple[Revision, str]]) -> Iterator[SlotsPlaced]:
    for event in record.events:
        if isinstance(event, SlotsPlaced) and (event.assignment, event.template) in requests:
            yield event
