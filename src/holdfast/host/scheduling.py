"""A scheduler at work: it follows a region's log, looks when something changed, proposes, and hears what became of it.

    batches ──▶ hear ──▶ look ──▶ propose ──▶ answer ──▶ landed or lost ──▶ look again
                           └────▶ report why requests wait, when that has changed

Several proposals are under way at a time: while one is written the next is chosen, on a view from which the first is
deducted. A proposal whose answer did not come may have landed: it stays deducted until a view shows it, or until it
could land no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.model.evidence import Decision
from holdfast.core.model.placement import PendingReason
from holdfast.core.model.shapes import Revision
from holdfast.core.region.commands import ReportPending
from holdfast.core.region.unmet import Unmet
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.look import Sight, Waits
from holdfast.core.scheduling.scheduler import Attempt, Scheduler
from holdfast.host.clock import Clock
from holdfast.host.errors import Unavailable
from holdfast.host.journal import Journal
from holdfast.host.meters import Meters
from holdfast.host.proposing import Touched
from holdfast.host.scheduling_binding import Binding
from holdfast.host.scheduling_region import Region
from holdfast.host.waiting import DeadlinePassed, within

#: So many proposals are under way at a time.
UNDER_WAY = 3
#: Without anything to do, everybody who sleeps is looked at after so long.
IDLE_MS = 1_000
#: The same reasons with other counts are told this often.
TOLD_AGAIN_MS = 30_000

_unmet = msgspec.msgpack.Decoder(list[Unmet])


class Scheduling:
    """One scheduler. `run` it for as long as it is to schedule."""

    def __init__(self, region: Region, plugins: Plugins, clock: Clock, meters: Meters, journal: Journal) -> None:
        self._region = region
        self._clock = clock
        self._meters = meters
        self._journal = journal
        self.scheduler = Scheduler(plugins)
        self._binding = Binding(region, self.scheduler, plugins, meters, journal)
        self._wake = asyncio.Event()
        self._touched: list[Touched] = []
        #: Whether changes were left out: everything is to be taken anew. Nothing is known before the first time.
        self._missed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._proposals = 0
        #: By request: when its reasons were last told.
        self._told_at: dict[tuple[Revision, str], int] = {}

    async def run(self) -> None:
        """Schedule for ever."""
        self._start(self._listen())
        try:
            while True:
                sight = self._region.sight()
                if sight is not None:
                    self._hear(sight)
                if sight is not None and self._proposals < UNDER_WAY and self._look(sight):
                    await asyncio.sleep(0)
                else:
                    with suppress(DeadlinePassed):
                        await within(self._clock, self._idle_ms(sight), self._wake.wait())
                    self._wake.clear()
                if self._fault is not None:
                    raise self._fault
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
                await self._clock.sleep(IDLE_MS)  # it may go on like this

    def _hear(self, sight: Sight) -> None:
        """Take what changed since the last look."""
        if self._missed:
            self._missed = False
            self._touched = []
            self.scheduler.load(sight.state)
        elif self._touched:
            keys = dict.fromkeys(key for touched in self._touched for key in touched.keys)
            at, self._touched = self._touched[-1].revision, []
            self.scheduler.hear(sight.state, keys, at, sight.now)

    def _idle_ms(self, sight: Sight | None) -> int:
        due = self.scheduler.queue.next_due()
        if due is None or sight is None:
            return IDLE_MS
        return max(1, min(IDLE_MS, due - sight.now))

    def _look(self, sight: Sight) -> bool:
        """Propose what can be; whether there was something."""
        attempt, waits = self.scheduler.look(sight)
        self._tell_shunned()
        if waits:
            self._report(sight, waits)
        if attempt is None:
            return False
        self._proposals += 1
        self._start(self._propose(attempt))
        return True

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What is not expected of a task is a fault of ours, and ends all of it: whoever runs this starts it again."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
            self._wake.set()

    async def _propose(self, attempt: Attempt) -> None:
        slots = sum(len(group.placements) for group in attempt.command.groups)
        self._meters.count("scheduler_proposed", slots)
        try:
            answer = await self._region.say(attempt.command, attempt.view, attempt.policy, encode(attempt.decision))
            if isinstance(answer, Refused):
                self._lost(attempt, answer)
                return
            unmet = _unmet.decode(answer.answer) if answer.answer else []
            self._meters.count("scheduler_placed", slots - len(unmet))
            self._count_unmet(unmet)
            self.scheduler.landed(attempt, answer.revision, unmet)
            await self._binding.after(attempt, unmet)
        except Unavailable as error:
            self._meters.count("scheduler_unanswered")
            self._journal.warning("not-answered", slots=slots, why=error)
        finally:
            self._proposals -= 1
            self._wake.set()

    def _lost(self, attempt: Attempt, answer: Refused) -> None:
        parts = [Unmet(*one) for one in answer.facts.get("refused", ())]
        if parts:
            self._count_unmet(parts)
        else:
            self._meters.count("scheduler_refused", code=answer.code.value)
        self._journal.info("proposal-refused", code=answer.code.value, why=answer.message)
        behind = max([one.catch_up_to for one in parts], default=int(answer.facts.get("catch_up_to", 0)))
        self.scheduler.lost(attempt, answer.code, parts, behind)

    def _count_unmet(self, unmet: Sequence[Unmet]) -> None:
        for one in unmet:
            self._meters.count("scheduler_refused", code=one.code)

    def _tell_shunned(self) -> None:
        for shun in self.scheduler.shunned.take_news():
            self._meters.count("scheduler_shunned")
            self._journal.error(
                "node-shunned", node=shun.name, until=shun.until, ledger_says=shun.ledger, view_says=shun.view
            )

    # Why requests wait

    def _report(self, sight: Sight, waits: Sequence[Waits]) -> None:
        boot, view = self._clock.boot(), self.scheduler.table.revision
        assignments = sight.state.assignments
        for one in waits:
            key, known = one.entry.key, one.entry.request.reasons
            same = _shape(known) == _shape(one.reasons)
            if same and (known == one.reasons or boot < self._told_at.get(key, 0) + TOLD_AGAIN_MS):
                continue
            self._told_at[key] = boot
            # Each request has a report of its own: the others that were looked at with it are in theirs.
            own = (key[0], assignments[key[0]].generation)
            decision = Decision(view, 0, (replace(one.found, requests=(own,)),))
            self._start(self._tell(ReportPending(*key, view, one.reasons), decision))
        if len(self._told_at) > 2 * len(self.scheduler.queue) + 1_000:
            queue = self.scheduler.queue
            self._told_at = {key: at for key, at in self._told_at.items() if queue.entry(key) is not None}

    async def _tell(self, report: ReportPending, decision: Decision) -> None:
        try:
            answer = await self._region.say(report, report.examined, 0, encode(decision))
        except Unavailable as error:
            self._journal.warning("not-told", why=error)
            return
        result = answer.code.value if isinstance(answer, Refused) else "told"
        self._meters.count("scheduler_reports", result=result)


def _shape(reasons: tuple[PendingReason, ...]) -> tuple[Any, ...]:
    """Which reasons there are, whatever their counts."""
    return tuple((reason.code, _shape(reason.below)) for reason in reasons)
