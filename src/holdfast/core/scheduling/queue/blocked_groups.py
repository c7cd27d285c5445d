"""Blocked groups, indexed so that a change touches only groups that it may cure.

in line      groups that wait for nodes, a gate or a newer view: least recently checked first. A change starts a
             new round, without a walk along the line
by account   refused groups, under each account that pays for them
by scope     groups that wait for nodes and have domain rules, under the scopes that they count
by priority  groups that are left to other schedulers
by time      all groups, in a heap. A stale entry (its group was unblocked, left, or was blocked again) stays
             until its turn, or until most entries are stale
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.scheduling.queue.request_groups import GroupKey

if TYPE_CHECKING:
    from holdfast.core.model.values.structs import Instant
    from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup

K = TypeVar("K")

#: Stale heap entries, beyond the number of valid ones.
STALE_MAX = 64

_ASKED = frozenset(("nodes", "gate", "behind"))
_REFUSED = "refused"
_PEERS = "peers"


def _accounts(key: GroupKey) -> tuple[str, ...]:
    return key[4]


def _urgency(key: GroupKey) -> int:
    return key[0]


class BlockedIndex(dict[GroupKey, "BlockedGroup"]):
    """By group: why it is blocked, and until when."""

    def __init__(self) -> None:
        super().__init__()
        self._round = 0
        #: Round of each group's last check. A group blocked in this round is checked in the next.
        self._line: OrderedDict[GroupKey, int] = OrderedDict()
        self._refused: dict[str, dict[GroupKey, None]] = {}
        self._counting: dict[str, dict[GroupKey, None]] = {}
        #: Groups left to other schedulers, by negated priority.
        self._left: dict[int, OrderedDict[GroupKey, None]] = {}
        #: Heap of due times with unique numbers; and the last number.
        self._times: list[tuple[Instant, int, GroupKey, BlockedGroup]] = []
        self._number = 0
        #: Groups not yet unblocked for a change that may cure any group.
        self._called: deque[GroupKey] = deque()

    def __setitem__(self, key: GroupKey, blocked: BlockedGroup) -> None:
        self._unlist(key)
        super().__setitem__(key, blocked)
        self._number += 1
        heappush(self._times, (blocked.until, self._number, key, blocked))
        self._compact()
        if blocked.why.value in _ASKED:
            self._line[key] = self._round
        elif blocked.why.value == _REFUSED:
            for account in _accounts(key):
                self._refused.setdefault(account, {})[key] = None
        elif blocked.why.value == _PEERS:
            self._left.setdefault(_urgency(key), OrderedDict())[key] = None
        for scope in blocked.scopes:
            self._counting.setdefault(scope, {})[key] = None

    def __delitem__(self, key: GroupKey) -> None:
        self._unlist(key)
        super().__delitem__(key)

    def pop(self, key: GroupKey, *default: Any) -> Any:
        self._unlist(key)
        return super().pop(key, *default)

    def _unlist(self, key: GroupKey) -> None:
        self._line.pop(key, None)
        if self._refused:
            _drop_under(self._refused, _accounts(key), key)
        if self._counting:
            known = self.get(key)
            _drop_under(self._counting, known.scopes if known is not None else (), key)
        if self._left:
            _drop_under(self._left, (_urgency(key),), key)

    def _compact(self) -> None:
        """Drop stale heap entries once they are most of the heap."""
        if len(self._times) > 2 * len(self) + STALE_MAX:
            self._times = [time for time in self._times if self.get(time[2]) is time[3]] if self else []
            heapify(self._times)

    def call_all(self) -> None:
        """Make all groups due now."""
        self._called = deque(self)

    def call_left(self) -> None:
        """Make all groups due now that are left to other schedulers."""
        for left in self._left.values():
            self._called.extend(left)
        if len(self._called) > 2 * len(self) + STALE_MAX:
            self._called = deque(dict.fromkeys(key for key in self._called if key in self))

    def next_due(self) -> Instant | None:
        """Return the first time at which a group becomes due."""
        self._compact()
        while self._times and self.get(self._times[0][2]) is not self._times[0][3]:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def take_due(self, now: Instant) -> tuple[GroupKey, BlockedGroup] | None:
        """Remove and return the first group that is due; None if none is."""
        while self._called:
            key = self._called.popleft()
            if key in self:
                return key, self.pop(key)
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key, blocked = heappop(self._times)
        self.pop(key)
        return key, blocked

    def is_left(self, key: GroupKey) -> bool:
        """Whether a group is left to other schedulers."""
        blocked = self.get(key)
        return blocked is not None and blocked.why.value == _PEERS

    def most_urgent_left(self) -> GroupKey | None:
        """Return a group of the highest priority among those that are left to other schedulers."""
        return next(iter(self._left[min(self._left)])) if self._left else None

    def refused_by(self, account: str) -> Iterable[GroupKey]:
        """Return the refused groups for which this account pays."""
        return list(self._refused.get(account, ()))

    def begin_round(self) -> None:
        """Start a round: all groups in line are due for a check."""
        self._round += 1

    def ask_counting(self, scopes: Iterable[str]) -> None:
        """Make groups that count these scopes due for a check; all, if a round is unfinished, so that none starves."""
        found = {key: None for scope in scopes for key in self._counting.get(scope, ())}
        if found and self.has_unasked():
            self.begin_round()
            return
        for key in found:
            self._line[key] = self._round - 1
            self._line.move_to_end(key, last=False)

    def has_unasked(self) -> bool:
        """Whether a group in line was not checked in this round."""
        return bool(self._line) and next(iter(self._line.values())) < self._round

    def next_asked(self) -> GroupKey | None:
        """Move the least recently checked group to the end of the line and return it; None if the round is done."""
        if not self.has_unasked():
            return None
        key = next(iter(self._line))
        self._line.move_to_end(key)
        self._line[key] = self._round
        return key


def _drop_under(found: dict[K, Any], names: Iterable[K], key: GroupKey) -> None:
    for name in names:
        mine = found.get(name)
        if mine is not None:
            mine.pop(key, None)
            if not mine:
                del found[name]
