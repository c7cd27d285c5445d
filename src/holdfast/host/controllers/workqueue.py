"""A queue of keys to work on: each queued at most once, none worked on twice at a time, none lost.

    add ──────────▶ wanted ─┐                            ┌──▶ done
    patrol ───────▶ patrol ─┴──▶ take ──▶ being worked on ┤
    add_after, retry ▶ due ──▶ wanted                     └──▶ wanted again, if it was added meanwhile

A key says only that something should be looked at, never what happened to it: that is why one place in the queue is
enough for any number of reasons. Keys that somebody asked for come first, in the order in which they were asked for;
those of a patrol (a resync of everything) fill the gaps, with a share of their own so that they do come.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush

from msgspec import Struct

from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import TokenBucket, exponential, jittered
from holdfast.host.runtime.clock_event import ClockEvent

Key = Hashable

#: Of so many keys taken, at least one is from the patrol, if it has any: a busy queue still finds what was missed.
RESYNC_SHARE = 8
#: A key whose own time comes within this, as far apart as patrols are, would have been looked at without one.
SOON_MS = 60_000
#: So many alarms that are out of date are kept, beside as many as are not.
STALE_MAX = 64


class QueueOptions(Struct, frozen=True):
    """How fast a queue gives out keys, and how long a key that failed waits."""

    backoff_first_ms: int = 100
    backoff_max_ms: int = 60_000
    per_second: int = 1_000
    burst: int = 1_000


class WorkItem(Struct, frozen=True):
    """A key to work on now. `patrol`: nobody asked for it since it was last taken, except a patrol, and its own time
    would not have come soon."""

    key: Key
    waited_ms: int
    is_resync: bool


class WorkQueue:
    """The keys of one controller. Its name and the seed decide the jitter of its back-off."""

    def __init__(self, clock: Clock, name: str, *, seed: int = 0, options: QueueOptions | None = None) -> None:
        self._clock = clock
        self._identity = (seed, name)
        self._options = options or QueueOptions()
        self._turns = TokenBucket(clock, self._options.per_second, self._options.burst)
        #: Keys that somebody asked for, in order, with the time since which each waits. Not plain dicts: the first of
        #: one of those is found by passing all that were taken before it.
        self._wanted: OrderedDict[Key, int] = OrderedDict()
        #: Keys that only a patrol asked for, in order. A key is in one of the two at most.
        self._patrol: OrderedDict[Key, int] = OrderedDict()
        #: Keys being worked on. None of them is in a line.
        self._working: set[Key] = set()
        #: Keys added while being worked on: since when, and whether by a patrol only.
        self._dirty: dict[Key, tuple[int, bool]] = {}
        #: Keys that become wanted at a time. An alarm whose time is not the key's is out of date and ignored.
        self._due: dict[Key, int] = {}
        self._alarms: list[tuple[int, int, Key]] = []
        self._alarms_set = 0
        self._attempts: dict[Key, int] = {}
        self._taken = 0
        self._changed = ClockEvent()
        #: Of all who want a key one waits for the queue to change: woken by every change, many would do nothing else.
        self._taking = asyncio.Lock()

    def add(self, key: Key) -> None:
        """Have the key worked on, after this call; if it is being worked on now, then once more afterwards."""
        self._want(key, self._clock.boot())

    def add_resync(self, key: Key) -> None:
        """Have the key worked on when there is time. Asked for by anybody else meanwhile, it is wanted as usual."""
        now = self._clock.boot()
        if key in self._working:
            self._dirty.setdefault(key, (now, True))
        elif key not in self._wanted:
            self._patrol.setdefault(key, now)
            self._changed.set()

    def add_after(self, key: Key, delay_ms: int) -> None:
        """Have the key worked on after the delay. Of two times the earlier counts and the later is forgotten: whoever
        looks at the key then may ask for another."""
        self._call_due()  # a time that has come is not an earlier time to come
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
        """Have a key that failed worked on again, later each time; returns how much later, in milliseconds."""
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        most = exponential(self._options.backoff_first_ms, self._options.backoff_max_ms, attempt)
        delay = jittered(most, *self._identity, key, attempt)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """The key is well: its next failure is its first."""
        self._attempts.pop(key, None)

    def attempts(self, key: Key) -> int:
        """How often the key has failed in a row."""
        return self._attempts.get(key, 0)

    async def take(self) -> WorkItem:
        """The next key, once there is one and the pace allows it. Whoever takes it says when it is `done`."""
        async with self._taking:
            while True:
                self._changed.clear()
                self._call_due()
                pause = self._turns.take() if self._wanted or self._patrol else self._until_due()
                if pause == 0:
                    return self._next()
                await self._pause(pause)

    def has_next(self) -> bool:
        """Whether there is a key in line: otherwise whoever takes the next one waits for it."""
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
        """Whether no key waits to be worked on: none in line, none due, none to be worked on once more."""
        waiting = self._wanted or self._patrol or self._dirty
        return not waiting and (not self._alarms or self._alarms[0][0] > self._clock.boot())

    def lag_ms(self) -> int:
        """How long the wanted key next in line, or one added while it is being worked on, has waited."""
        self._call_due()
        first = next(iter(self._wanted.values()), None)
        dirty = next((since for since, by_patrol in self._dirty.values() if not by_patrol), None)
        waiting = [since for since in (first, dirty) if since is not None]
        return self._clock.boot() - min(waiting) if waiting else 0

    def depth(self) -> int:
        """How many keys are wanted, those to be worked on once more included."""
        self._call_due()
        return len(self._wanted) + sum(not by_patrol for _, by_patrol in self._dirty.values())

    def patrol_depth(self) -> int:
        """How many keys wait for the patrol alone."""
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
        """Move the keys whose time has come to the line, in the order of their times."""
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
        """Wait for a change, and at most this long."""
        if pause_ms is None:
            await self._changed.wait()
        else:
            await self._changed.within(self._clock, pause_ms)
