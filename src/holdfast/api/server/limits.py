"""How much one server takes on: sizes, rates, and how many at a time.

The lanes of a leader keep important commands moving whatever comes (RULES 11). What is bounded here lies before them:
how fast one principal may write, how many lists and watches one server serves at a time, and how many requests it has
under way to regions. All of it is memory of this server, soft, and answered with 429 and when to come again.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.api.problems import Problem, problem
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.host.ports.clock import Clock

#: One principal has at most this part of all lists, watches and requests to regions.
PARTS = 4
#: Of so many principals the pace is remembered.
PRINCIPALS_MAX = 10_000


class ServerLimits(Struct, frozen=True):
    """What one server takes on. Machines' writes are bounded by their sessions' windows, not by a rate."""

    body_bytes: int = 1 << 20
    batch_items: int = 1_000
    writes_per_second: int = 50
    writes_burst: int = 500
    lists_at_a_time: int = 64
    list_items: int = 1_000
    watches: int = 20_000
    timeout_ms: int = 10_000
    timeout_most_ms: int = 60_000
    #: Under way to regions at a time, watches apart: each has a connection of ours, and an answer in our memory.
    to_regions: int = 256
    #: In one part of a full list for a region; 0: as many as the link sends.
    shipped_objects: int = 0


class RateLimiter:
    """How fast each principal has written lately: a bucket of so many writes that fills evenly."""

    def __init__(self, clock: Clock, limits: ServerLimits) -> None:
        self._clock = clock
        self._limits = limits
        #: By principal, or by tenant: what is left in its bucket, in thousandths of a write, and when that was so.
        self._left: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def refuse(self, actor: str, tenant_per_minute: int | None, count: int = 1) -> Problem | None:
        """Count writes of a person or a tenant; the problem when they come too fast.

        More at once than a bucket holds is let through by a full one, and is owed: the next ones wait for all of it.
        """
        per_minute = self._limits.writes_per_second * 60 if tenant_per_minute is None else tenant_per_minute
        burst = self._limits.writes_burst if tenant_per_minute is None else max(1, tenant_per_minute)
        now, most = self._clock.boot(), burst * 1_000
        left, then = self._left.get(actor, (most, now))
        left = min(most, left + (now - then) * per_minute // 60)
        self._left[actor] = (left, now)
        self._left.move_to_end(actor)
        if len(self._left) > PRINCIPALS_MAX:
            self._left.popitem(last=False)
        needed = min(count * 1_000, most)
        if left >= needed:
            self._left[actor] = (left - count * 1_000, now)
            return None
        wait_ms = 60_000 if not per_minute else (needed - left) * 60 // per_minute + 1
        facts = {"principal": actor, "perMinute": per_minute, "burst": burst}
        return problem("rate-limited", f"{actor} writes faster than {per_minute} a minute", facts=facts,
                       retry_after_ms=wait_ms, lane=CommandLane.OPERATORS.name.lower())  # fmt: skip


def overloaded(what: str) -> Problem:
    """So many are under way that no more are taken."""
    return problem("overloaded", f"{what} are under way already", lane=CommandLane.READS.name.lower())


class ConcurrencyLimiter:
    """So many at a time, of one principal at most a part, and no queue: who comes too many is told to come again."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._each = max(1, most // PARTS)
        self._what = what
        self._of: dict[str, int] = {}
        self.in_use = 0

    def acquire(self, actor: str) -> Problem | None:
        """Take a place; the problem when there is none."""
        own = self._of.get(actor, 0)
        if self.in_use >= self._most or own >= self._each:
            said = f"{own} {self._what} of {actor}" if own >= self._each else f"{self.in_use} {self._what}"
            return overloaded(said)
        self.in_use += 1
        self._of[actor] = own + 1
        return None

    def release(self, actor: str) -> None:
        """Give the place back."""
        self.in_use -= 1
        self._of[actor] -= 1
        if not self._of[actor]:
            del self._of[actor]
