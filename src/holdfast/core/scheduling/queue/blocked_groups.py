"""Who sleeps, and whom a change may cure: found by cause and by account, so that a change touches nobody else.

asked in turn     those who wait for nodes, a gate or a newer view, in a line: the longest unasked first. What is
                  heard begins a new round, and is no walk along the line
by account        those whose proposal was refused, under each account that pays for them
by scope          those who wait for nodes and whose rules count slots over domains, under what they count
by time           everybody, in a heap: whose time is first is known without a walk. What holds no more (its group was
                  woken, left, or sleeps anew) stays there until its turn comes, or until most are such
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from holdfast.core.scheduling.queue.request_groups import GroupKey

if TYPE_CHECKING:
    from holdfast.core.model.values.structs import Instant
    from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup

#: So many times that hold no more are left in the heap, beside as many as do.
STALE_MAX = 64

_ASKED = frozenset(("nodes", "gate", "behind"))
_REFUSED = "refused"


def _accounts(key: GroupKey) -> tuple[str, ...]:
    return key[4]


class BlockedIndex(dict[GroupKey, "BlockedGroup"]):
    """By group: why it sleeps, and until when."""

    def __init__(self) -> None:
        super().__init__()
        self._round = 0
        #: In which round each was asked last; whoever fell asleep since is asked in the next.
        self._line: OrderedDict[GroupKey, int] = OrderedDict()
        self._refused: dict[str, dict[GroupKey, None]] = {}
        self._counting: dict[str, dict[GroupKey, None]] = {}
        #: Until when each sleeps, with a number that no other has; and how many there were.
        self._times: list[tuple[Instant, int, GroupKey, BlockedGroup]] = []
        self._number = 0
        #: Those whom something may cure that may cure anything, and who were not woken for it yet.
        self._called: Iterator[GroupKey] = iter(())

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

    def _compact(self) -> None:
        """Leave out the times that hold no more, once they are most of them."""
        if len(self._times) > 2 * len(self) + STALE_MAX:
            self._times = [time for time in self._times if self.get(time[2]) is time[3]] if self else []
            heapify(self._times)

    def call_all(self) -> None:
        """Everybody's time has come, whenever it was to."""
        self._called = iter(list(self))

    def next_due(self) -> Instant | None:
        """The first time at which somebody is to be looked at whatever happens."""
        self._compact()
        while self._times and self.get(self._times[0][2]) is not self._times[0][3]:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def take_due(self, now: Instant) -> tuple[GroupKey, BlockedGroup] | None:
        """Whose time has come, the first of them, who sleeps no more; None: nobody's has."""
        for key in self._called:
            if key in self:
                return key, self.pop(key)
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key, blocked = heappop(self._times)
        self.pop(key)
        return key, blocked

    def refused_by(self, account: str) -> Iterable[GroupKey]:
        """Those who were refused and for whom this account pays, among others."""
        return list(self._refused.get(account, ()))

    def begin_round(self) -> None:
        """Something was heard: all in line are to be asked."""
        self._round += 1

    def ask_counting(self, scopes: Iterable[str]) -> None:
        """One slot more is counted under these: whoever counts it is to be asked, and if some are unasked anyway,
        everybody in turn, so that nobody is asked again and again before them."""
        found = {key: None for scope in scopes for key in self._counting.get(scope, ())}
        if found and self.has_unasked():
            self.begin_round()
            return
        for key in found:
            self._line[key] = self._round - 1
            self._line.move_to_end(key, last=False)

    def has_unasked(self) -> bool:
        """Whether somebody in line was not asked in this round."""
        return bool(self._line) and next(iter(self._line.values())) < self._round

    def next_asked(self) -> GroupKey | None:
        """The longest unasked, who goes to the end of the line; None: all were asked in this round."""
        if not self.has_unasked():
            return None
        key = next(iter(self._line))
        self._line.move_to_end(key)
        self._line[key] = self._round
        return key


def _drop_under(found: dict[str, dict[GroupKey, None]], names: Iterable[str], key: GroupKey) -> None:
    for name in names:
        mine = found.get(name)
        if mine is not None:
            mine.pop(key, None)
            if not mine:
                del found[name]
