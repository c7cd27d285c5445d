"""Limits of one server: sizes, rates and concurrency.

The lanes of a leader keep important commands moving under any load (RULES 11). These limits come before the lanes: the
write rate of a principal, concurrent lists and watches, and concurrent requests to regions. They are soft state in
memory of this server. A request above a limit gets status 429 and a time to retry.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.api.problems import Problem, problem
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.host.ports.clock import Clock

#: One principal may use at most 1/PARTS of all lists, watches and requests to regions.
PARTS = 4
#: Largest number of principals whose rate is tracked.
PRINCIPALS_MAX = 10_000


class ServerLimits(Struct, frozen=True):
    """The limits of one server. Writes of machines are limited by the windows of their sessions, not by a rate."""

    body_bytes: int = 1 << 20
    batch_items: int = 1_000
    writes_per_second: int = 50
    writes_burst: int = 500
    lists_at_a_time: int = 64
    list_items: int = 1_000
    watches: int = 20_000
    timeout_ms: int = 10_000
    timeout_most_ms: int = 60_000
    #: Concurrent requests to regions, without watches: each has a connection and a reply in memory.
    to_regions: int = 256
    #: Objects in one part of a full list for a region; 0: as many as the link sends.
    shipped_objects: int = 0


class RateLimiter:
    """The write rate of each principal: a token bucket that refills evenly."""

    def __init__(self, clock: Clock, limits: ServerLimits) -> None:
        self._clock = clock
        self._limits = limits
        #: By principal or tenant: content of its bucket in thousandths of a write, and the time of that value.
        self._left: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def refuse(self, actor: str, tenant_per_minute: int | None, count: int = 1) -> Problem | None:
        """Count writes of a person or tenant; return the problem if they exceed the rate.

        A full bucket admits a request larger than itself; the difference delays the next requests.
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
        return problem("rate-limited", f"{actor} exceeds {per_minute} writes per minute", facts=facts,
                       retry_after_ms=wait_ms, lane=CommandLane.OPERATORS.name.lower())  # fmt: skip


def overloaded(what: str) -> Problem:
    """Return the problem of a concurrency limit that is reached."""
    return problem("overloaded", f"{what} are in progress already", lane=CommandLane.READS.name.lower())


class ConcurrencyLimiter:
    """Limits concurrent requests in total and of each principal. There is no queue: a request above the limit is
    rejected."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._each = max(1, most // PARTS)
        self._what = what
        self._of: dict[str, int] = {}
        self.in_use = 0

    def acquire(self, actor: str) -> Problem | None:
        """Take a slot; return the problem if none is free."""
        own = self._of.get(actor, 0)
        if self.in_use >= self._most or own >= self._each:
            said = f"{own} {self._what} of {actor}" if own >= self._each else f"{self.in_use} {self._what}"
            return overloaded(said)
        self.in_use += 1
        self._of[actor] = own + 1
        return None

    def release(self, actor: str) -> None:
        self.in_use -= 1
        self._of[actor] -= 1
        if not self._of[actor]:
            del self._of[actor]
