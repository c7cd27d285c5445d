"""One subscriber's stream of changes.

    since TOKEN ──▶ behind: reads the log ──▶ at the head: live, receives from the hub ──▶ ...
                          ▲                                              │
                          └────── queue full: nothing is dropped ◀───────┘

A stream becomes live in one turn of the loop, at the head only: without a gap or a duplicate. The queue of a slow
subscriber is bounded; beyond that it reads the log.

An idle stream receives bookmarks. One timer serves all of them, a few streams at a time: a timer per stream would cost
a leader more than the messages, and all streams at once would block the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from msgspec import Struct

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import RevisionToken
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import LogStore
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.watch.changes import ChangeBatch, WatchFilter, matching
from holdfast.host.watch.log_reader import LogReader, ReadAhead, check_not_ahead


class SubscriptionLimits(Struct, frozen=True):
    """Queue limits of one subscriber, and how often one without changes gets a bookmark.

    The first batch in the queue is not counted, so that any batch fits.
    """

    waiting_batches: int = 256
    waiting_bytes: int = 1 << 20
    read_bytes: int = 1 << 20
    #: Bytes that all subscribers may read ahead; beyond it they read batch by batch.
    ahead_bytes: int = 64 << 20
    bookmark_batches: int = 256
    touched_keys: int = 100_000


class SubscriptionSource(Protocol):
    """The hub as its subscribers use it."""

    definition: LedgerDefinition[Any]
    log: LogStore
    metrics: Metrics
    window: SubscriptionLimits
    #: The newest published batch. A subscriber that reads the log stops there.
    head: RevisionToken
    #: The bytes that all subscribers have read ahead.
    ahead: ReadAhead

    def join(self, subscription: Subscription) -> None:
        """Deliver matching changes from the next batch on."""

    def leave(self, subscription: Subscription) -> None:
        """Deliver no more changes."""

    def closed(self, subscription: Subscription) -> None:
        """The subscription has ended."""


class Subscription:
    """An async iterator of `ChangeBatch`: every matching batch once, in order, and bookmarks now and then.

    It raises `Diverged` if its token is not in this log any more, and `Gone` if it is trimmed. After `StoreError` the
    next call continues. It ends only when it is closed. One task reads it.
    """

    def __init__(self, source: SubscriptionSource, interest: WatchFilter, since: RevisionToken) -> None:
        self.interest = interest
        #: The token of the last item, to resume from.
        self.token = since
        self._source = source
        self._waiting: deque[tuple[ChangeBatch, int]] = deque()
        self._waiting_bytes = 0
        self._bookmark: RevisionToken | None = None
        self._is_nudged = False
        self._wake = asyncio.Event()
        self._is_over = False
        #: Reads the log while the subscription is behind; None while it is live.
        self._backlog: LogReader | None = self._after(since)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ChangeBatch:
        while True:
            if self._is_over:
                if self._backlog is not None:
                    self._backlog.drop()  # closed while it was reading
                raise StopAsyncIteration
            found = self._next_waiting()
            if found is None and self._backlog is not None:
                found = await self._read_on(self._backlog)
            elif found is None:
                self._wake.clear()
                await self._wake.wait()
            if found is not None and not self._is_over:
                self.token = found.token
                self._source.metrics.count("watch_delivered", len(found.changes))
                return found

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream, also for a waiting reader."""
        if not self._is_over:
            self._is_over = True
            self._source.leave(self)
            self._source.closed(self)
            self._waiting.clear()
            if self._backlog is not None:
                self._backlog.drop()
            self._wake.set()

    @property
    def is_live(self) -> bool:
        """Whether it receives from the hub, rather than reading the log."""
        return self._backlog is None and not self._is_over

    @property
    def has_told_all(self) -> bool:
        """Whether every published change has been delivered."""
        return self.is_live and not self._waiting

    async def begin(self) -> None:
        """Become live if the token is the head; otherwise verify it or raise `ListAgain`."""
        if self._backlog is not None and not self._joins(self._backlog):
            await self._backlog.verify()

    def offer(self, changes: ChangeBatch, before: RevisionToken) -> None:
        """Queue a batch published after `before`; with a full queue, read it from the log later."""
        size_bytes = 0
        if self._waiting:
            window, size_bytes = self._source.window, changes.size_bytes()
            full = len(self._waiting) >= window.waiting_batches
            if full or self._waiting_bytes + size_bytes > window.waiting_bytes:
                self._source.metrics.count("watch_overflowed")
                self.fall_behind(before)
                return
        self._waiting.append((changes, size_bytes))
        self._waiting_bytes += size_bytes
        self._wake.set()

    def bookmark(self, head: RevisionToken) -> None:
        """Deliver a bookmark for `head` after the queued batches."""
        self._bookmark = head
        self._wake.set()

    def request_bookmark(self) -> None:
        """Deliver a bookmark soon, to show that the stream is alive."""
        self._is_nudged = True
        self._wake.set()

    def fall_behind(self, token: RevisionToken) -> None:
        """Read the log after this token, up to which everything was offered."""
        self._source.leave(self)
        self._backlog = self._after(token)
        self._wake.set()

    def _after(self, token: RevisionToken) -> LogReader:
        source = self._source
        return LogReader(source.definition, source.log, token, source.window.read_bytes, source.ahead)

    def _next_waiting(self) -> ChangeBatch | None:
        if self._waiting:
            changes, size_bytes = self._waiting.popleft()
            self._waiting_bytes -= size_bytes
            return changes
        mark, self._bookmark = self._bookmark, None
        nudged, self._is_nudged = self._is_nudged, False
        if mark is not None and mark.seq > self.token.seq:
            return ChangeBatch(mark)
        return ChangeBatch(self.token) if nudged else None

    async def _read_on(self, backlog: LogReader) -> ChangeBatch | None:
        """Return the matches of the next batch in the log; None: none, or live now."""
        if self._joins(backlog):
            return None
        batch = await backlog.next()
        found = matching(self._source.definition, batch, self.interest)
        if found or backlog.resume_at.seq - self.token.seq >= self._source.window.bookmark_batches:
            return ChangeBatch(backlog.resume_at, found)
        await asyncio.sleep(0)  # the log may be long: other tasks get a turn
        return None

    def _joins(self, backlog: LogReader) -> bool:
        """Become live, in one turn, if the head is reached."""
        place, head = backlog.resume_at, self._source.head
        if place == head:
            backlog.drop()
            self._backlog = None
            self._bookmark = head
            self._source.join(self)
            return True
        check_not_ahead(place, head)
        return False


#: The length of a round, and so the longest silence on a stream.
ROUND_MS = 5_000
PARTS = 20


class KeepaliveRounds:
    """Requests bookmarks from subscriptions. Runs alongside them."""

    def __init__(self) -> None:
        self._parts: list[dict[Subscription, None]] = [{} for _ in range(PARTS)]
        self._part_of: dict[Subscription, int] = {}
        self._added = 0
        self._joined = ClockEvent()

    def __len__(self) -> int:
        return len(self._part_of)

    def add(self, subscription: Subscription) -> None:
        """Request bookmarks from now on, the first within a round."""
        self._added += 1
        self._part_of[subscription] = part = self._added % PARTS
        self._parts[part][subscription] = None
        self._joined.set()

    def leave(self, subscription: Subscription) -> None:
        """Request no more bookmarks."""
        part = self._part_of.pop(subscription, None)
        if part is not None:
            del self._parts[part][subscription]

    async def run(self, clock: Clock) -> None:
        """Run rounds until cancelled; without subscriptions, wait for one."""
        while True:
            for part in self._parts:
                self._joined.clear()
                if not self._part_of:
                    await self._joined.wait()
                await clock.sleep(ROUND_MS // PARTS)
                for subscription in part:
                    subscription.request_bookmark()
