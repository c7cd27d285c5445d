"""A follower: folds the log as it grows, detects the absence of a leader, and decides when it becomes a candidate.

It becomes a candidate (RULES 5) after six proof intervals without a leader's heartbeat, if it could read the head in
that time: a server without the store is no candidate. The wait doubles with each term of the last ten minutes that was
not proven for a lease, so that servers stop deposing each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic

from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.values.settings import Settings
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Head, LogTrimmed, Store, StoreError
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.storage.durable_state import DurableState, check_forward
from holdfast.host.storage.load import FOLD_AT_ONCE, READ_BYTES, read_batch

#: Timeout of one read of batches.
READ_WITHIN_MS = 10_000
MISSED_PROOFS = 6
WAIT_MAX_MS = 120_000
REMEMBERED_MS = 600_000


class LeftBehind(Exception):
    """The log was trimmed past this state: it must be loaded from a snapshot."""


class Follower(Generic[S]):
    """One server while it does not lead."""

    def __init__(self, durable: DurableState[S], store: Store, clock: Clock, metrics: Metrics, terms: Election) -> None:
        self._durable = durable
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._terms = terms
        #: The head that this state has reached, and the newest head that was read.
        self._seen = self._read = Head()
        #: When the read of the reached head began, by the boot clock.
        self.caught_up: int | None = None
        self.last_error = ""

    async def run(self, may_stand: Callable[[], bool]) -> None:
        """Follow until this server should be a candidate and may be one."""
        while True:
            await self._look()
            if may_stand() and not self.last_error and self._terms.is_due(self._durable.state.info.settings):
                return

    async def _look(self) -> None:
        interval = self._durable.state.info.settings.proof_interval
        began = self._clock.boot()
        try:
            async with asyncio.timeout(interval * 4 / 1000):
                head = await self._store.wait(self._seen, interval)
        except (StoreError, TimeoutError) as error:
            self.last_error = str(error) or f"{self._store.name} does not answer"
            self._metrics.count("follower_reads_failed")
            await self._clock.sleep(interval)
            return
        check_forward(self._store.name, self._durable.head(), head)
        check_forward(self._store.name, self._read, head)
        self._read = head
        try:
            await self._catch_up(head)
        except (StoreError, TimeoutError) as error:
            self.last_error = str(error) or f"{self._store.name} does not answer"
            await self._clock.sleep(interval)
            return
        self.last_error = ""
        self._seen, self.caught_up = head, began
        self._terms.saw(head, self._durable.state.info.term, self._durable.state.info.settings, began)

    async def _catch_up(self, head: Head) -> None:
        durable = self._durable
        while (after := durable.state.info.seq) < head.seq:
            try:
                async with asyncio.timeout(READ_WITHIN_MS / 1000):
                    batches = await self._store.read(after + 1, READ_BYTES)
            except LogTrimmed as error:
                raise LeftBehind(str(error)) from error
            if not batches:
                raise StoreError(f"{self._store.name}: batch {after + 1} is below its head and cannot be read")
            for number, stored in enumerate(batches):
                durable.apply(read_batch(durable.definition, durable.state, stored, self._store.name), len(stored.raw))
                if number % FOLD_AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._metrics.gauge("follower_behind", head.seq - durable.state.info.seq)


class Election:
    """One server's observations of leaders, by its boot clock; it may be the store's only server."""

    def __init__(self, clock: Clock, *, alone: bool) -> None:
        self._clock = clock
        self._alone = alone
        self._head = Head()
        #: When the last heartbeat was seen, and when the newest read without one began. Its end does not count: after a
        #: pause the result is old.
        self._since = self._silent_until = clock.boot()
        self._term = 0
        self._began = self._since
        self._sign = self._since
        self._short: deque[int] = deque()
        self._deposed = False

    def saw(self, head: Head, term: int, settings: Settings, began: int) -> None:
        """Record a read of the head that began at `began`, and the newest term in the log up to it."""
        now = self._clock.boot()
        self._silent_until = began
        if term != self._term:
            self._next(term, settings.session_lease, now)
        if head != self._head:
            self._head, self._since, self._sign = head, now, now

    def led(self, term: int, proven_for: int, settings: Settings) -> None:
        """Record that this server led this term until now, and the time between its first and its last proof."""
        now = self._clock.boot()
        self._next(term, settings.session_lease, now)
        self._began = now - proven_for

    def _next(self, term: int, lease: int, now: int) -> None:
        if self._term and self._sign - self._began < lease:
            self._short.append(now)
        self._term, self._began, self._sign = term, now, now

    def stepped_down(self, *, deposed: bool) -> None:
        """Record that this server no longer leads; `deposed`: another one does."""
        self._deposed = self._deposed or deposed
        self._since = self._clock.boot()

    def wait(self, settings: Settings) -> int:
        """Return how long without a heartbeat makes this server a candidate."""
        now = self._clock.boot()
        while self._short and now - self._short[0] > REMEMBERED_MS:
            self._short.popleft()
        return min(MISSED_PROOFS * settings.proof_interval << min(len(self._short), 16), WAIT_MAX_MS)

    def is_due(self, settings: Settings) -> bool:
        """Whether this server should be a candidate now."""
        if self._alone and not self._deposed:
            return True
        return self._silent_until - self._since >= self.wait(settings)
