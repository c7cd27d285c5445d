"""The scheduler loop: it follows a region's log, runs a cycle after changes, proposes, and processes answers.

    batches ──▶ observe ──▶ cycle ──▶ propose ──▶ answer ──▶ accepted or refused ──▶ cycle
                              └────▶ report pending reasons

Several proposals are in flight at once: while one is decided, the next is computed on a view from which the first is
deducted. A proposal without an answer may have committed: it stays deducted until a view shows it, or until it can no
longer commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.partial import RefusedPart, decode_refused_parts
from holdfast.core.ledger.revision import INDEX_MAX, format_revision, pack_revision
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.resync import PIECE, Found
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.core.scheduling.view import SchedulerView
from holdfast.host.errors import Unavailable
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.binder import Binder
from holdfast.host.scheduler.pending_reporter import PendingReporter
from holdfast.host.scheduler.region_client import RegionClient
from holdfast.host.watch.changes import ChangedKeys

#: Largest number of proposals in flight.
PROPOSALS_IN_FLIGHT_MAX = 3
#: Longest wait between two cycles without changes.
IDLE_MS = 1_000
#: Shortest pause before a cycle for each other scheduler in this process, and the longest pause.
GATHER_MS, GATHER_MAX_MS = 10, 100
#: Time within which all changes of the state are observed.
CHANGES_MS = 1_000


class SchedulerLoop:
    """One scheduler. `run` it while it is to schedule."""

    def __init__(self, region: RegionClient, plugins: Plugins, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._region = region
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self.scheduler = Scheduler(plugins)
        self._binding = Binder(region, self.scheduler, plugins, metrics, logger)
        self._telling = PendingReporter(region, self.scheduler, clock, metrics, logger)
        self._wake = ClockEvent()
        self._touched: list[ChangedKeys] = []
        #: Whether changes were missed, so that everything must be reloaded. Also before the first load.
        self._missed = False
        self._is_loading = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._cycled = clock.boot()
        #: How long the last observed changes and the cycle took.
        self._took_ms = 0
        self._proposals = 0

    def cycle_ms(self) -> int:
        """Return the time since the last cycle."""
        return self._clock.boot() - self._cycled

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._start(self._listen())
        self._start(self._telling.run())
        self._start(self._resync())
        try:
            while True:
                view = self._region.view()
                while view is not None and self._missed:
                    await self._load(view)
                    view = self._region.view()
                began = self._clock.boot()
                if view is not None:
                    self._on_change(view)
                if view is not None and self._proposals < PROPOSALS_IN_FLIGHT_MAX and self._look(view):
                    await asyncio.sleep(0)
                else:
                    self._took_ms = self._clock.boot() - began
                    await self._wake.within(self._clock, self._idle_ms(view))
                    self._wake.clear()
                    await self._gather(view)
                if self._fault is not None:
                    raise self._fault
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _gather(self, view: SchedulerView | None) -> None:
        """Let changes come together where other schedulers share this thread: each change wakes all of them.

        The pause is as long as the others need for what this one has just done, so that all together do not use more
        than a few times the processor time of one.
        """
        here = view.peers.here if view is not None else 0
        if here:
            await self._clock.sleep(min(GATHER_MAX_MS, here * max(GATHER_MS, self._took_ms)))

    async def _listen(self) -> None:
        while True:
            changes = self._region.changes()
            self._missed = True
            self._wake.set()
            heard = False
            async for touched in changes:
                heard = True
                self._touched.append(touched)
                self._wake.set()
            if not heard:
                await self._clock.sleep(IDLE_MS)  # the feed may keep ending at once

    async def _load(self, view: SchedulerView) -> None:
        """Reload everything, large states piece by piece. Changes meanwhile are observed afterwards."""
        self._missed, self._touched = False, []
        pieces = self.scheduler.pieces(view.state)
        piece, at = next(pieces, None), pack_revision(view.state.info.seq, INDEX_MAX)
        if piece is None:
            self.scheduler.load(view.state)
            return
        self._is_loading, now = True, self._region.view()
        while piece is not None and now is not None:
            self.scheduler.load_piece(now.state, piece)
            await asyncio.sleep(0)
            piece, now = next(pieces, None), self._region.view()
        self._is_loading = False
        if now is not None:
            self.scheduler.loaded(now.state, at)
        else:
            self._missed = True

    def _on_change(self, view: SchedulerView) -> bool:
        """Observe the changes since the last cycle. Return False while a reload is due."""
        if self._missed or self._is_loading:
            return False
        if self._touched:
            keys = dict.fromkeys(key for touched in self._touched for key in touched.keys)
            at, self._touched = self._touched[-1].revision, []
            self.scheduler.observe(view.state, keys, at, view.now)
        return True

    async def _resync(self) -> None:
        """Every `RESYNC_MS`, compare everything with the state, and load the keys whose changes were missed."""
        resync = self.scheduler.resync
        while True:
            await self._clock.sleep(RESYNC_MS)
            found: list[Found] = []
            view = self._region.view()
            for piece in resync.pieces(view.state) if view is not None else ():
                if (view := self._region.view()) is not None and self._on_change(view):
                    found += resync.differing(view.state, piece)
                await asyncio.sleep(0)
            if not found:
                continue
            await self._clock.sleep(CHANGES_MS)
            for number in range(0, len(found), PIECE):
                if (view := self._region.view()) is not None and self._on_change(view):
                    missed = resync.still(view.state, found[number : number + PIECE])
                    if missed:
                        self._logger.error("changes-missed", first=missed[0], count=len(missed))
                        self.scheduler.catch(view.state, missed, view.now)
                        self._wake.set()
                await asyncio.sleep(0)

    def _idle_ms(self, view: SchedulerView | None) -> int:
        due = self.scheduler.queue.next_unblock_at()
        if due is None or view is None:
            return IDLE_MS
        return max(1, min(IDLE_MS, due - view.now))

    def _look(self, view: SchedulerView) -> bool:
        """Run a cycle and send its proposal. Return whether there was one, or active groups are left."""
        attempt, waits = self.scheduler.run_cycle(view)
        self._cycled = self._clock.boot()
        self._metrics.count("scheduler_caught", self.scheduler.take_resync_hits())
        self._tell_shunned()
        if waits:
            self._telling.note(view, waits)
        if attempt is None:
            return self.scheduler.has_more
        self._proposals += 1
        self._start(self._propose(attempt))
        return True

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails ends the loop; the caller of `run` restarts it."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            self._wake.set()

    async def _propose(self, attempt: Proposal) -> None:
        slots = sum(len(group.placements) for group in attempt.command.groups)
        self._metrics.count("scheduler_proposed", slots)
        try:
            answer = await self._region.submit(attempt.command, attempt.view, attempt.policy, encode(attempt.decision))
            if isinstance(answer, Refused):
                self._lost(attempt, answer)
                return
            unmet = decode_refused_parts(answer.answer)
            self._metrics.count("scheduler_placed", slots - len(unmet))
            self._count_unmet(unmet)
            for rule, count in self.scheduler.preempted_by(attempt, unmet).items():
                self._metrics.count("scheduler_preempted", count, rule=rule)
                self._logger.info("preempted", slots=count, rule=rule, revision=format_revision(answer.revision))
            self.scheduler.on_accepted(attempt, answer.revision, unmet)
            await self._binding.after(attempt, unmet)
        except Unavailable as error:
            self._metrics.count("scheduler_unanswered")
            self._logger.warning("not-answered", slots=slots, why=error)
        finally:
            self._proposals -= 1
            self._wake.set()

    def _lost(self, attempt: Proposal, answer: Refused) -> None:
        parts = [RefusedPart(*one) for one in answer.facts.get("refused", ())]
        if parts:
            self._count_unmet(parts)
        else:
            self._metrics.count("scheduler_refused", code=answer.code.value)
        self._logger.info("proposal-refused", code=answer.code.value, why=answer.message)
        behind = max([one.catch_up_to for one in parts], default=int(answer.facts.get("catch_up_to", 0)))
        self.scheduler.on_refused(attempt, answer.code, parts, behind)

    def _count_unmet(self, unmet: Sequence[RefusedPart]) -> None:
        for one in unmet:
            self._metrics.count("scheduler_refused", code=one.code)

    def _tell_shunned(self) -> None:
        for shun in self.scheduler.quarantine.take_new_entries():
            self._metrics.count("scheduler_shunned")
            self._logger.error(
                "node-shunned", node=shun.name, until=shun.until, ledger_says=shun.ledger, view_says=shun.view
            )
