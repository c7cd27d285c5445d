"""One running controller: its queue, its workers and its failing keys.

    take a key ──▶ view ──▶ reconcile ──▶ send ──▶ committed: healthy, and requeued for the reconciler's time
                                  └────────┴─────▶ raised, refused, failed, late: failing, and requeued with back-off

A failure of one key never stops the others. It is counted and retried until it succeeds, at last every
`backoff_max_ms`. After a missing answer the next reconciliation sees the resulting state.

Size: one key's way, from what wakes it to what becomes of it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from enum import Enum
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.core.ledger.reconciler import ReconcileKey, Reconciler, ReconcileResult, keys_to_wake
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.controllers import ledger_client
from holdfast.host.controllers.worker_pool import WorkerPool
from holdfast.host.controllers.workqueue import QueueOptions, WorkItem, WorkQueue
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.backoff import exponential, jittered
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.watch.changes import ChangedKeys

S = TypeVar("S")

#: Keys of a listing that are queued per turn of the loop (RULES 22).
LIST_CHUNK = 5_000

#: The measurements of a healthy, idle controller.
_NOTHING = (0, 0, 0, 0)


class ControllerOptions(Struct, frozen=True):
    """Limits of one controller: its rate, and at most `workers` keys in work.

    It lists all keys every `resync_ms` and waits at most `submit_ms` for an answer. Reconciliations longer than
    `slow_ms` are logged; requeued keys wait at least `soonest_ms`.
    """

    queue: QueueOptions = QueueOptions()
    workers: int = 1
    resync_ms: int = 60_000
    submit_ms: int = 10_000
    slow_ms: int = 100
    soonest_ms: int = 10
    measure_ms: int = 1_000


class FailingKey(Struct, frozen=True):
    """A key that fails: why, and since when, in ledger time."""

    controller: str
    key: ReconcileKey
    error: str
    since: Instant


class ResyncKey(Enum):
    """The key of a listing. No key of a reconciler equals it."""

    ALL = "all keys"

    def __repr__(self) -> str:
        return self.value


RESYNC = ResyncKey.ALL


class Controller(Generic[S]):
    """A reconciler with its work queue. Several keys may be in work at a time."""

    def __init__(
        self,
        reconciler: Reconciler[S],
        ledger: ledger_client.LedgerClient[S],
        clock: Clock,
        metrics: Metrics,
        seed: int,
        options: ControllerOptions,
    ) -> None:
        self.name = reconciler.name
        self.watches = reconciler.watches
        self._reconciler = reconciler
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._logger = Logger("reconcile", controller=self.name)
        self._seed = seed
        self._options = options
        self._queue = WorkQueue(clock, self.name, seed=seed, options=options.queue)
        self._proposer = ledger_client.Proposer(self.name, ledger, clock, metrics, options.submit_ms)
        self._failing: dict[ReconcileKey, FailingKey] = {}
        #: Keys refused for a stale view: the revision that each waits for, and the end of its back-off.
        self._behind: dict[ReconcileKey, tuple[Revision, int]] = {}
        self._cures: list[tuple[Revision, int, ReconcileKey]] = []
        self._cures_awaited = 0
        #: The revision up to which changes have been received.
        self._heard: Revision = 0
        #: Whether changes were missed for a known reason: then the next listing is no resync.
        self._missed = False
        #: How often `keys_to_wake` has raised since the last regular listing.
        self._deaf = 0
        self._listings = 0
        #: The gauges as last set: unchanged values are not set again.
        self._measured: tuple[int, ...] = ()
        self._now: Instant = clock.wall()

    def start_over(self, heard: Revision) -> None:
        """Queue everything: changes up to this revision may have been missed."""
        self._heard = max(self._heard, heard)
        self._missed = True
        self._queue.add(RESYNC)

    def on_change(self, state: S, change: ChangedKeys) -> None:
        """Queue the keys of a batch. If the reconciler raises, list all keys after a back-off."""
        self._heard = change.revision
        try:
            for key in keys_to_wake(self._reconciler, state, change.keys):
                self._queue.add(key)
        except Exception as error:
            self._name_error("wake-raised", error)
            self._missed = True
            self._deaf += 1
            pace = self._options.queue
            self._queue.add_after(RESYNC, exponential(pace.backoff_first_ms, pace.backoff_max_ms, self._deaf))
        while self._cures and self._cures[0][0] <= change.revision:
            revision, _, key = heappop(self._cures)
            if self._behind.get(key, (0, 0))[0] == revision:
                self._queue.add(key)

    async def work(self) -> None:
        """Work on keys until cancelled. No key is lost at the end."""
        await WorkerPool(self._clock, self._queue, self._options.workers, self._handle).run()

    def failing(self) -> list[FailingKey]:
        """Return the failing keys, the longest failing first."""
        return sorted(self._failing.values(), key=lambda one: (one.since, repr(one.key)))

    def measure(self) -> None:
        """Set the gauges of the queue. The manager calls this, since the workers may be stuck."""
        queue = self._queue
        if queue.is_idle() and not self._failing and self._measured == _NOTHING:
            return
        found = lag_ms, depth, patrol, failing = queue.lag_ms(), queue.depth(), queue.patrol_depth(), len(self._failing)
        if found != self._measured:
            self._measured = found
            self._metrics.gauge("reconcile_lag_ms", lag_ms, controller=self.name)
            self._metrics.gauge("reconcile_depth", depth, controller=self.name)
            self._metrics.gauge("reconcile_patrol_depth", patrol, controller=self.name)
            self._metrics.gauge("reconcile_failing", failing, controller=self.name)

    def _handle(self, taken: WorkItem) -> Coroutine[Any, Any, None] | None:
        """Reconcile a key. The returned coroutine sends commands or lists keys."""
        if self._waits_for_a_newer_view(taken.key):
            return None
        if taken.key is RESYNC:
            return self._named(RESYNC, self._list())
        view = self._ledger.view()
        self._now = view.now
        # Until all changes up to this view are received, one of them may still queue the key.
        unasked = taken.is_resync and self._heard >= view.revision
        try:
            outcome = self._reconcile(view, taken.key)
        except Exception as error:
            self._settle(taken.key, self._raised(taken.key, error))
            return None
        if outcome.commands:
            return self._named(taken.key, self._send(taken.key, view, outcome, unasked=unasked))
        self._metrics.count("reconcile_total", controller=self.name, result="quiet")
        self._look_again(taken.key, view.now, outcome.requeue_at, failed=False)
        self._settle(taken.key, None)
        return None

    async def _named(self, key: ReconcileKey, work: Coroutine[Any, Any, ledger_client.SendFailure | None]) -> None:
        """Settle a key with the result of the work, or its error."""
        try:
            problem = await work
        except Exception as error:
            problem = self._raised(key, error)
        self._settle(key, problem)

    def _raised(self, key: ReconcileKey, error: Exception) -> ledger_client.SendFailure:
        self._name_error("reconcile-raised", error, key=key)
        self._metrics.count("reconcile_total", controller=self.name, result="raised")
        return ledger_client.SendFailure("raised", ledger_client.one_line_error(error))

    async def _send(
        self, key: ReconcileKey, view: ledger_client.LedgerView[S], outcome: ReconcileResult, *, unasked: bool
    ) -> ledger_client.SendFailure | None:
        sent = await self._proposer.send(view, outcome.commands)
        if unasked and None in sent:
            self._metrics.count("reconcile_caught", controller=self.name)
            self._logger.warning("resync-caught", key=key)
        problem = ledger_client.worst_failure([problem for problem in sent if problem is not None])
        self._metrics.count("reconcile_total", controller=self.name, result=problem.result if problem else "sent")
        self._look_again(key, view.now, outcome.requeue_at, failed=problem is not None)
        return problem

    def _look_again(self, key: ReconcileKey, now: Instant, again_at: Instant | None, *, failed: bool) -> None:
        """Requeue the key for `again_at`. A change after the view queues it sooner, so none is missed.

        For a failed key a past time adds nothing to its back-off.
        """
        if again_at is not None and not (failed and again_at <= now):
            soonest = self._options.queue.backoff_first_ms if failed else self._options.soonest_ms
            self._queue.add_after(key, max(again_at - now, soonest))

    def _reconcile(self, view: ledger_client.LedgerView[S], key: ReconcileKey) -> ReconcileResult:
        began = self._clock.boot()
        try:
            return self._reconciler.reconcile(view.state, key, view.now)
        finally:
            took = self._clock.boot() - began
            self._metrics.time("reconcile_ms", took, controller=self.name)
            if took > self._options.slow_ms:
                self._metrics.count("reconcile_slow", controller=self.name)
                self._logger.warning("reconcile-slow", key=key, took_ms=took)

    async def _list(self) -> None:
        """Queue every key, and the next listing. A resync skips keys in back-off."""
        missed, self._missed = self._missed, False
        try:
            keys = list(self._reconciler.keys(self._ledger.view().state))
        except Exception:
            self._missed = missed
            raise
        if not missed:
            self._deaf = 0
        self._listings += 1
        self._queue.add_after(
            RESYNC, jittered(self._options.resync_ms, self._seed, self.name, "resync", self._listings)
        )
        for number, key in enumerate(keys, start=1):
            if missed:
                self._queue.add(key)
            elif not self._queue.attempts(key):
                self._queue.add_resync(key)
            if number % LIST_CHUNK == 0:
                await self._clock.sleep(0)

    def _settle(self, key: ReconcileKey, problem: ledger_client.SendFailure | None) -> None:
        self._behind.pop(key, None)
        if problem is None:
            self._queue.forget(key)
            self._failing.pop(key, None)
            return
        since = self._failing[key].since if key in self._failing else self._now
        self._failing[key] = FailingKey(self.name, key, problem.error, since)
        delay = self._queue.retry(key)
        if problem.catch_up_to > self._heard:
            self._behind[key] = (problem.catch_up_to, self._clock.boot() + delay)
            self._cures_awaited += 1
            heappush(self._cures, (problem.catch_up_to, self._cures_awaited, key))

    def _waits_for_a_newer_view(self, key: ReconcileKey) -> bool:
        """Whether this key would be refused again. The awaited change or the end of its back-off requeues it."""
        revision, until = self._behind.get(key, (0, 0))
        left = until - self._clock.boot()
        if left <= 0 or self._heard >= revision:
            return False
        self._queue.add_after(key, left)
        return True

    def _name_error(self, event: str, error: Exception, **fields: Any) -> None:
        self._metrics.count("reconcile_errors", controller=self.name, error=type(error).__name__)
        self._logger.error(event, error, **fields)
