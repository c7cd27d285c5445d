"""One subscriber's stream of changes.

    since TOKEN ──▶ behind: reads the log ──▶ at the head: live, hears from the hub ──▶ ...
                          ▲                                              │
                          └────── too much waits: nothing is dropped ◀───┘

Joining happens in one turn of the loop, at the head and nowhere else: no gap, and nothing twice. A subscriber that does
not keep up costs the ledger nothing: what waits for it is bounded, and beyond that it reads the log instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from msgspec import Struct

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.revision import RevisionToken
from holdfast.host.ports.store import LogStore
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.watch.changes import ChangeBatch, WatchFilter, matching
from holdfast.host.watch.log_reader import LogReader, ReadAhead, check_not_ahead


class SubscriptionLimits(Struct, frozen=True):
    """How much waits for one subscriber, and how often one that hears of nothing gets a bookmark.

    One batch is always taken; what waits behind it is counted.
    """

    waiting_batches: int = 256
    waiting_bytes: int = 1 << 20
    read_bytes: int = 1 << 20
    #: What all of them together have read of the log and not handed out; beyond it they read batch by batch.
    ahead_bytes: int = 64 << 20
    bookmark_batches: int = 256
    touched_keys: int = 100_000


class SubscriptionSource(Protocol):
    """The hub as its subscribers see it."""

    definition: LedgerDefinition[Any]
    log: LogStore
    metrics: Metrics
    window: SubscriptionLimits
    #: The newest batch that is published. A subscriber that reads the log stops there.
    head: RevisionToken
    #: What all of them have read of the log and not handed out.
    ahead: ReadAhead

    def join(self, subscription: Subscription) -> None:
        """Offer it what it is interested in, from the next batch on."""

    def leave(self, subscription: Subscription) -> None:
        """Offer it nothing more."""

    def closed(self, subscription: Subscription) -> None:
        """It is over."""


class Subscription:
    """An async iterator of `ChangeBatch`: every matching batch once, in order, and bookmarks now and then.

    It raises `ListAgain`: `Diverged` when its place is not in this log any more, `Gone` when the log was trimmed past
    it. `StoreError` means that the log could not be read now: asking again goes on where it was. It ends by itself
    only when it is closed. One task reads it.
    """

    def __init__(self, source: SubscriptionSource, interest: WatchFilter, since: RevisionToken) -> None:
        self.interest = interest
        #: Of what was handed out last: where to resume from.
        self.token = since
        self._source = source
        self._waiting: deque[tuple[ChangeBatch, int]] = deque()
        self._waiting_bytes = 0
        self._bookmark: RevisionToken | None = None
        self._is_nudged = False
        self._wake = asyncio.Event()
        self._is_over = False
        #: What it reads the log with while it is behind; None while it is live.
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
        """End it; whoever waits for it is told so."""
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
        """Whether it hears from the hub, rather than reading the log."""
        return self._backlog is None and not self._is_over

    @property
    def has_told_all(self) -> bool:
        """Whether everything that was published is handed out: the state holds nothing of interest that is newer."""
        return self.is_live and not self._waiting

    async def begin(self) -> None:
        """Find the place to begin from in the log, or raise `ListAgain`; at the head it is live at once."""
        if self._backlog is not None and not self._joins(self._backlog):
            await self._backlog.verify()

    def offer(self, changes: ChangeBatch, before: RevisionToken) -> None:
        """Take a batch that was published after `before`; or let it be read from the log later."""
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
        """Nothing is missed up to here, once what waits is handed out."""
        self._bookmark = head
        self._wake.set()

    def request_bookmark(self) -> None:
        """Hand out a bookmark soon, though nothing has changed: whoever reads it knows that the stream lives."""
        self._is_nudged = True
        self._wake.set()

    def fall_behind(self, token: RevisionToken) -> None:
        """Read the log after `place`, up to which everything was offered."""
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
        """What the next batch in the log holds for it; nothing, after a batch without interest or on joining."""
        if self._joins(backlog):
            return None
        batch = await backlog.next()
        found = matching(self._source.definition, batch, self.interest)
        if found or backlog.resume_at.seq - self.token.seq >= self._source.window.bookmark_batches:
            return ChangeBatch(backlog.resume_at, found)
        await asyncio.sleep(0)  # the log may be long: others get their turn
        return None

    def _joins(self, backlog: LogReader) -> bool:
        """Become live if the head is reached. In one turn: what is published from here on is offered."""
        place, head = backlog.resume_at, self._source.head
        if place == head:
            backlog.drop()
            self._backlog = None
            self._bookmark = head
            self._source.join(self)
            return True
        check_not_ahead(place, head)
        return False
