"""Whose reason may be true no more, though nothing that was heard lets them be placed: looked at again before long.

    a node came, changed or left ──▶ as many as bear out what was told of a group? would one hold what never fits?
    a gate opened, another is shut ──▶ is it the one that was told?           ──▶ doubted ──▶ looked at again

What is told of a group is found by asking every node, and there may be 50,000 of these and 10,000 groups. A code that
4,000 nodes bear out is still true when one of them has changed: it is doubted when as many have as bore it out. What is
doubted is looked at a second later, with what has changed by then, and not many at once.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from holdfast.core.model.values.structs import Instant
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue

#: What is doubted is looked at after so long; and so many at most in as long.
RECHECK_MS = 1_000
RECHECKED_MAX = 16
#: So many are known beside as many as sleep: who left, or was looked at, is let go once these are most.
STALE_MAX = 64


class Rechecks:
    """Groups of one queue, the longest doubted first."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        #: How each slept when it was doubted, and since when: one that was looked at since sleeps otherwise.
        self._doubted: OrderedDict[GroupKey, tuple[BlockedGroup, Instant]] = OrderedDict()
        #: When the next may be looked at.
        self._next: Instant = 0

    def note(self, key: GroupKey, now: Instant) -> None:
        """What is told of a group that sleeps may not be so. Of one that was refused nothing is told: it waits for its
        pause to end, or for a newer view, whatever else is so."""
        blocked = self._queue.blocked.get(key)
        if blocked is not None and blocked.why not in (BlockReason.REFUSED, BlockReason.BEHIND):
            known = self._doubted.get(key)
            if known is None or known[0] is not blocked:
                self._doubted.pop(key, None)
                self._doubted[key] = blocked, now
                if len(self._doubted) > 2 * len(self._queue.blocked) + STALE_MAX:
                    self._let_go()

    def _let_go(self) -> None:
        """Of who does not sleep as it did when it was doubted."""
        known, self._doubted = self._doubted, OrderedDict()
        for key, doubt in known.items():
            if self._queue.blocked.get(key) is doubt[0]:
                self._doubted[key] = doubt

    def look_again(self, now: Instant) -> None:
        """Let those be looked at who were doubted long enough ago."""
        if now < self._next:
            return
        for key, (blocked, since) in list(islice(self._doubted.items(), RECHECKED_MAX)):
            if since + RECHECK_MS > now:
                break
            del self._doubted[key]
            if self._queue.blocked.get(key) is blocked:
                self._queue.look_again(key)
                self._next = now + RECHECK_MS

    def go_back(self) -> None:
        """Time is lower than it was said to be, and whoever was doubted is looked at for that."""
        self._doubted.clear()
        self._next = 0
