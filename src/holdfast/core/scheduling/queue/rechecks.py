"""Rechecks: blocked groups whose reported reason may be out of date are tried again soon, though nothing cures them.

    a node came, changed or left ──▶ as many as support the reason? would one hold what never fits?
    another gate is closed now   ──▶ is it the reported one?               ──▶ recheck ──▶ tried again

A reason takes a check of every node, and there may be 50,000 nodes and 10,000 groups. A reason that 4,000 nodes support
is still true when one of them changes. A recheck is due when as many nodes have changed as support it. It runs a second
later, with all changes until then, at a limited rate.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from holdfast.core.model.values.structs import Instant
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue

#: Delay of a recheck; at most `RECHECKED_MAX` run per delay.
RECHECK_MS = 1_000
RECHECKED_MAX = 16
#: Outdated entries, beyond the number of blocked groups.
STALE_MAX = 64


class Rechecks:
    """The groups of one queue that are due for a recheck, oldest first."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        #: Each group's block when its recheck was noted, and since when. A later block outdates the entry.
        self._doubted: OrderedDict[GroupKey, tuple[BlockedGroup, Instant]] = OrderedDict()
        #: Earliest time of the next rechecks.
        self._next: Instant = 0

    def note(self, key: GroupKey, now: Instant) -> None:
        """Note that a group's reason may be out of date. Groups that were refused, are behind or left to others have no
        reported reason: they wait in any case."""
        blocked = self._queue.blocked.get(key)
        if blocked is not None and blocked.why not in (BlockReason.REFUSED, BlockReason.BEHIND, BlockReason.PEERS):
            known = self._doubted.get(key)
            if known is None or known[0] is not blocked:
                self._doubted.pop(key, None)
                self._doubted[key] = blocked, now
                if len(self._doubted) > 2 * len(self._queue.blocked) + STALE_MAX:
                    self._let_go()

    def _let_go(self) -> None:
        """Drop outdated entries."""
        known, self._doubted = self._doubted, OrderedDict()
        for key, doubt in known.items():
            if self._queue.blocked.get(key) is doubt[0]:
                self._doubted[key] = doubt

    def look_again(self, now: Instant) -> None:
        """Unblock groups whose recheck is due."""
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
        """Forget all after ledger time went back: blocked groups are tried for that."""
        self._doubted.clear()
        self._next = 0
