"""A queue of keys to work on: each queued at most once, none worked on twice at a time, none lost.

    add ──────────▶ queued ─┐                            ┌──▶ done
    resync ───────▶ resync ─┴──▶ take ──▶ being worked on ┤
    add_after, retry ▶ due ──▶ queued                     └──▶ queued again, if it was added meanwhile

A key only says that something needs work, not why: one entry is enough for any number of reasons. Changed keys come
first, in order. Keys of a resync (a full listing) have a guaranteed share.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush

from msgspec import Struct

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import TokenBucket, exponential, jittered
from holdfast.host.runtime.deadlines import ClockEvent

Key = Hashable

#: At least one key in this many is from a resync: a busy queue still finds missed changes.
RESYNC_SHARE = 8
#: A key that is due within this time, the interval of a resync, needs no resync.
SOON_MS = 60_000
#: Obsolete alarms beyond this and the number of valid ones are removed.
STALE_MAX = 64


class QueueOptions(Struct, frozen=True):
    """The rate of a queue, and the back-off of failed keys."""

    backoff_first_ms: int = 100
    backoff_max_ms: int = 60_000
    per_second: int = 1_000
    burst: int = 1_000


class WorkItem(Struct, frozen=True):
    """A key to work on now.

    With `is_resync`, only a resync has added it since it was last taken, and it was not due soon.
    """

    key: Key
    waited_ms: int
    is_resync: bool


class WorkQueue:
    """The keys of one controller. Name and seed determine the jitter."""

    def __init__(self, clock: Clock, name: str, *, seed: int = 0, options: QueueOptions | None = None) -> None:
        self._clock = clock
        self._identity = (seed, name)
        self._options = options or QueueOptions()
        self._turns = TokenBucket(clock, self._options.per_second, self._options.burst)
        #: Added keys, in order, and since when each waits. No plain dict: to find its first key passes all removed
        #: ones.
        self._wanted: OrderedDict[Key, int] = OrderedDict()
        #: Keys that only a resync added, in order. No key is in both.
        self._patrol: OrderedDict[Key, int] = OrderedDict()
        #: Keys being worked on. None of them is queued.
        self._working: set[Key] = set()
        #: Keys added while being worked on: since when, and whether only by a resync.
        self._dirty: dict[Key, tuple[int, bool]] = {}
        #: Keys that are queued at a later time. An alarm with another time is obsolete.
        self._due: dict[Key, int] = {}
        self._alarms: list[tuple[int, int, Key]] = []
        self._alarms_set = 0
        self._attempts: dict[Key, int] = {}
        self._taken = 0
        self._changed = ClockEvent()
        #: Only one taker waits for changes: many would all wake at each.
        self._taking = asyncio.Lock()

    def add(self, key: Key) -> None:
        """Queue the key; if it is being worked on, once more afterwards."""
        self._want(key, self._clock.boot())

    def add_resync(self, key: Key) -> None:
        """Queue the key with the priority of a resync."""
        now = self._clock.boot()
        if key in self._working:
            self._dirty.setdefault(key, (now, True))
        elif key not in self._wanted:
            self._patrol.setdefault(key, now)
            self._changed.set()

    def add_after(self, key: Key, delay_ms: int) -> None:
        """Queue the key after the delay. An earlier time that is already set wins."""
        self._call_due()  # A time that has passed is no earlier time to come.
        due = self._clock.boot() + max(0, delay_ms)
        if due >= self._due.get(key, due + 1):
            return
        self._due[key] = due
        self._alarms_set += 1
        heappush(self._alarms, (due, self._alarms_set, key))
        if len(self._alarms) > 2 * len(self._due) + STALE_MAX:
            self._alarms = [alarm for alarm in self._alarms if self._due.get(alarm[2]) == alarm[0]]
            heapify(self._alarms)
        self._changed.set()

    def retry(self, key: Key) -> int:
        """Queue a failed key again with back-off; return the delay in milliseconds."""
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        most = exponential(self._options.backoff_first_ms, self._options.backoff_max_ms, attempt)
        delay = jittered(most, *self._identity, key, attempt)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """Reset the back-off of a key that succeeded."""
        self._attempts.pop(key, None)

    def attempts(self, key: Key) -> int:
        """Return how often the key has failed in a row."""
        return self._attempts.get(key, 0)

    async def take(self) -> WorkItem:
        """Return the next key, once the rate allows it. The caller reports it as `done`."""
        async with self._taking:
            while True:
                self._changed.clear()
                self._call_due()
                pause = self._turns.take() if self._wanted or self._patrol else self._until_due()
                if pause == 0:
                    return self._next()
                await self._pause(pause)

    def has_next(self) -> bool:
        """Whether a key is queued now."""
        return bool(self._wanted or self._patrol)

    def done(self, key: Key) -> None:
        """The key is no longer being worked on."""
        assert key in self._working, f"{key!r} was not taken"
        self._working.discard(key)
        since, by_patrol = self._dirty.pop(key, (None, False))
        if since is not None:
            (self._patrol if by_patrol else self._wanted)[key] = since
            self._changed.set()

    def is_idle(self) -> bool:
        """Whether no key is queued or due."""
        waiting = self._wanted or self._patrol or self._dirty
        return not waiting and (not self._alarms or self._alarms[0][0] > self._clock.boot())

    def lag_ms(self) -> int:
        """Return how long the first changed key has waited."""
        self._call_due()
        first = next(iter(self._wanted.values()), None)
        dirty = next((since for since, by_patrol in self._dirty.values() if not by_patrol), None)
        waiting = [since for since in (first, dirty) if since is not None]
        return self._clock.boot() - min(waiting) if waiting else 0

    def depth(self) -> int:
        """Return how many changed keys wait."""
        self._call_due()
        return len(self._wanted) + sum(not by_patrol for _, by_patrol in self._dirty.values())

    def patrol_depth(self) -> int:
        """Return how many keys wait only for a resync."""
        return len(self._patrol)

    def _want(self, key: Key, since: int) -> None:
        if key in self._working:
            before, by_patrol = self._dirty.get(key, (since, True))
            self._dirty[key] = (since if by_patrol else before, False)
        elif key not in self._wanted:
            self._patrol.pop(key, None)
            self._wanted[key] = since
            self._changed.set()

    def _next(self) -> WorkItem:
        self._taken += 1
        patrol = not self._wanted or (bool(self._patrol) and self._taken % RESYNC_SHARE == 0)
        line = self._patrol if patrol else self._wanted
        key, since = line.popitem(last=False)
        self._working.add(key)
        now = self._clock.boot()
        return WorkItem(key, now - since, patrol and self._due.get(key, now + SOON_MS) >= now + SOON_MS)

    def _call_due(self) -> None:
        """Queue the keys that are due, in the order of their times."""
        now = self._clock.boot()
        while self._alarms and self._alarms[0][0] <= now:
            due, _, key = heappop(self._alarms)
            if self._due.get(key) == due:
                del self._due[key]
                self._want(key, due)

    def _until_due(self) -> int | None:
        while self._alarms and self._due.get(self._alarms[0][2]) != self._alarms[0][0]:
            heappop(self._alarms)
        return max(1, self._alarms[0][0] - self._clock.boot()) if self._alarms else None

    async def _pause(self, pause_ms: int | None) -> None:
        """Wait for a change, for at most this time."""
        if pause_ms is None:
            await self._changed.wait()
        else:
            await self._changed.within(self._clock, pause_ms)
