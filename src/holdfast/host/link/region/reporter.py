"""What a region tells the platform by itself: facts of its own durable state, each once, soon after they are so.

    batches of the region ──▶ which workloads and accounts changed ──▶ compared with what was told ──▶ words ──▶ told
                                                                        (grants settled, rights and assignments
                                                                         released, offers back, reports, how far it is)

One task says everything, in one order. It listens, it looks, it speaks; what changes meanwhile is said next time.

- That replicas came further is told at once; what else changes after 100 ms, with what follows from it. After a report
  the next look waits 10 ms for each workload that it named: not less than 20 ms, not more than a second. One that had
  nothing to tell does not hold up the next: mostly it saw how something began that will be told. Whatever changes, no
  more than half of the time goes into looking.
- Of a workload whose replicas fail the same is told once in 30 s, however they come and go (`flap_damper`). What takes
  too long is told when it does.
- A summary comes at most once a second; offers back are looked for as often. How far the region is: 100 ms after a
  step, with what was reported of it; now and then without one.

What was told is remembered for as long as this server leads and the platform's log is the same and did not go back.
Nothing is said before the platform was heard in this session, and while its log is not the one that this region has.

Size: one task, from what is due to what is said; what was noticed and what is news are apart already.
"""

from __future__ import annotations

import asyncio

from holdfast.core.ledger.commit.watch import BREACH
from holdfast.core.ledger.revision import INDEX_MAX, format_digest, pack_revision
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import commands as p
from holdfast.core.region.queries.region_summary import SummarisedNodes, summary_steps
from holdfast.core.region.queries.workload_report import workload_report_steps
from holdfast.core.region.state.lookups import assignments_here
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import ASSIGNMENT, CURSOR, GRANT, NODE, WORKLOAD
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region import reports
from holdfast.host.link.region.dirty_set import CALM_MS, SUMMARY, DirtyObjects
from holdfast.host.link.region.flap_damper import FlapDamper
from holdfast.host.link.region.follower import PlatformView
from holdfast.host.link.region.report_sender import ReportSender
from holdfast.host.link.region.reports import ReportCommand, ReportedState
from holdfast.host.runtime.deadlines import run_in_steps
from holdfast.host.watch.hub import WatchHub

#: Between two looks, when something was told: at least, for each workload that was reported, and at most.
POLL_MS, POLL_EACH_MS, POLL_MAX_MS = 20, 10, 1_000
#: When there was nothing to tell: at least.
POLL_AGAIN_MS = 2
#: How many workloads are looked at before what was found is said, and how many without a stop.
EXAMINED_MAX, EXAMINE_CHUNK = 5_000, 100
SUMMARY_MS = 1_000
#: An acknowledgement comes so long after a step; and while none comes but the region's own log goes on.
ACKNOWLEDGE_MS, ACKNOWLEDGE_IDLE_MS = 100, 5_000
#: Everything is looked at again so often, in case a change was not heard of.
RESYNC_MS = 60_000
#: What the platform did not judge, for a reason that lies with the sender, is said again after so long.
NO_CONTACT_MS = 5_000
IDLE_MS = 5_000

_KINDS = (WORKLOAD, ASSIGNMENT, NODE, GRANT, CURSOR, BREACH)


class Reporter:
    """Of one session. `listen` and `speak` run side by side."""

    def __init__(
        self,
        leader: Leader[RegionState],
        hub: WatchHub,
        outlook: PlatformView,
        reported: ReportedState,
        saying: ReportSender,
        region: str,
    ) -> None:
        self._leader = leader
        self._clock = leader.term.clock
        self._hub = hub
        self._outlook = outlook
        self._told = reported
        self._saying = saying
        self._region = region
        #: The platform's last word before this session.
        self._before = outlook.last_contact
        self._noticed = DirtyObjects()
        self._wavering = FlapDamper()
        #: Accounts that are charged above their target, and assignments that wait for room.
        self._above: dict[str, None] = {}
        self._crowded: dict[Revision, None] = {}
        self._pieces: SummarisedNodes = {}
        #: By the even clock: when to look, to summarise, and to look at everything again; when it was acknowledged.
        self._look_at = self._summary_at = self._acknowledged_at = 0
        self._resync_at = self._clock.boot() + RESYNC_MS
        #: Since when a step is not acknowledged; None: there is none.
        self._stepped_at: int | None = None
        reported.of.pop(reports.PLACE, None)

    @property
    def _state(self) -> RegionState:
        return self._leader.term.durable.state

    # Listening

    async def listen(self) -> None:
        """Note what changes in the region. Whatever was left out is made up for by looking at everything."""
        while True:
            touches = self._hub.touched(_KINDS)
            self._everything()
            async for touched in touches:
                self._noticed.on_change(self._state, touched.keys, self._clock.boot())
                self._outlook.wake.set()

    def _everything(self) -> None:
        self._noticed.everything(self._state)
        self._outlook.wake.set()

    # Speaking

    async def speak(self) -> None:
        """Say what is due, again and again. Raises when the session is over."""
        while True:
            wait_ms = self._wait_ms() if self._may_speak() else IDLE_MS
            if wait_ms > 0:
                await self._outlook.wake.within(self._clock, wait_ms)
            self._outlook.wake.clear()
            if self._may_speak():
                reported = self._told.of
                words = await self._due()
                if words and not await self._saying.submit(words, reported):
                    await self._clock.sleep(NO_CONTACT_MS)
                    self._everything()
            await self._clock.sleep(POLL_AGAIN_MS)

    def _may_speak(self) -> bool:
        """Whether the platform was heard in this session, in the log that this region has a copy of."""
        heard = self._outlook.last_contact
        if heard is None or heard is self._before or heard.token.log_id != self._state.region.platform_log:
            return False
        if self._told.on_change(heard.token):
            self._everything()
        return True

    def _wait_ms(self) -> int:
        """How long nothing is due, unless something happens."""
        at = [self._clock.boot() + IDLE_MS]
        rested_at = self._noticed.rested_at()
        if self._noticed or rested_at is not None:
            at.append(max(self._look_at, 0 if self._noticed else rested_at or 0))
        if self._noticed.is_summary_old:
            at.append(self._summary_at)
        if self._place() != self._told_place():
            at.append(self._acknowledge_at())
        return min(at) - self._clock.boot()

    def _acknowledge_at(self) -> int:
        """When to say how far this region is, which is further than was told."""
        if self._place()[1] == self._told_place()[1]:
            return self._acknowledged_at + ACKNOWLEDGE_IDLE_MS
        if self._stepped_at is None:
            self._stepped_at = self._clock.boot()
        return self._stepped_at + ACKNOWLEDGE_MS

    async def _due(self) -> list[ReportCommand]:
        now, words = self._clock.boot(), []
        self._leader.term.metrics.count("reporting_caught", self._noticed.take_caught(now))
        if now >= self._resync_at:
            self._resync_at = now + RESYNC_MS
            self._noticed.resync(self._state, self._above)
            self._wavering.forget(now)
            await run_in_steps(reports.forget_deleted(self._state, self._told.of))
        if now >= self._look_at:
            self._noticed.wake(now)
            words += await self._look(now) if self._noticed else []
        if now >= self._summary_at:
            self._summary_at = now + SUMMARY_MS
            words += [*self._offers(), *(await self._summary() if self._noticed.is_summary_old else ())]
        return words + self._acknowledgement()

    async def _look(self, began: int) -> list[ReportCommand]:
        """Whatever is news of the workloads and accounts that changed."""
        reported, position, at = self._told.of, self._position(), self._leader.term.now()
        accounts = dict.fromkeys((*self._noticed.accounts, *self._above))
        workloads, self._noticed.accounts = self._noticed.take(EXAMINED_MAX), {}
        words: list[ReportCommand] = []
        for account in accounts:
            settled = list(reports.settled_grants(self._state, (account,), reported))
            self._noticed.looked_at(GRANT, account, began, is_news=bool(settled))
            words += settled
        self._above = {account: None for account in accounts if reports.is_above_target(self._state, account)}
        seen: list[reports.LinkWorkloadReport] = []
        for number, (workload, since) in enumerate(workloads, 1):
            released = list(reports.released(self._state, workload, reported))
            words += released
            self._note_crowded(workload)
            view = await run_in_steps(workload_report_steps(self._state, workload, at))
            if view.until:
                self._noticed.look_again(workload, self._clock.boot() + view.until - at)
            sighting = reports.workload_report(self._state, view.seen, reported)
            self._noticed.looked_at(WORKLOAD, workload, began, is_news=bool(released or sighting))
            is_recent = self._clock.boot() < since + CALM_MS
            if sighting is not None and is_recent and not reports.is_progress(sighting, reported):
                self._noticed.let_rest(workload, since)
            elif sighting is not None and self._is_due(sighting):
                seen.append(sighting)
            if number % EXAMINE_CHUNK == 0:
                await asyncio.sleep(0)
        words += reports.reports(self._region, position, at, seen)
        rest_ms = min(POLL_MAX_MS, max(POLL_MS, POLL_EACH_MS * len(seen))) if words else POLL_AGAIN_MS
        ended = self._clock.boot()
        self._look_at = ended + max(rest_ms, ended - began)
        return words

    def _is_due(self, sighting: reports.LinkWorkloadReport) -> bool:
        """Whether it is to be told now; otherwise it is looked at again when it is."""
        now, seen = self._clock.boot(), sighting.seen
        waits_until = self._wavering.waits_until(seen, reports.last_reported(seen.workload, self._told.of), now)
        if waits_until:
            self._noticed.look_again(seen.workload, waits_until)
        else:
            self._wavering.report(seen, now)
        return not waits_until

    def _note_crowded(self, workload: Revision) -> None:
        for assignment in assignments_here(self._state, workload):
            if reports.waiting_for_room(self._state, assignment):
                self._crowded[assignment.uid] = None
            else:
                self._crowded.pop(assignment.uid, None)

    def _offers(self) -> list[ReportCommand]:
        state, now = self._state, self._leader.term.now()
        self._crowded = {uid: None for uid in sorted(self._crowded) if uid in state.assignments}
        return list(filter(None, (reports.offered_back(state, uid, now, self._told.of) for uid in self._crowded)))

    async def _summary(self) -> list[ReportCommand]:
        reported, position = self._told.of, self._position()
        self._noticed.is_summary_old = False
        summary = await run_in_steps(summary_steps(self._state, self._pieces))
        self._noticed.looked_at(*SUMMARY, self._clock.boot(), is_news=reported.get(reports.SUMMARY) != summary)
        if reported.get(reports.SUMMARY) == summary:
            return []
        return [ReportCommand(p.Report(self._region, position, (), summary), ((reports.SUMMARY, summary),))]

    def _acknowledgement(self) -> list[ReportCommand]:
        """How far this region's log is, and the platform's in it."""
        place, now = self._place(), self._clock.boot()
        if place == self._told_place() or now < self._acknowledge_at():
            return []
        self._acknowledged_at, self._stepped_at = now, None
        own = self._state.info
        command = p.Acknowledge(self._region, own.log_id, *place, format_digest(own.digest))
        return [ReportCommand(command, ((reports.PLACE, place),))]

    def _place(self) -> tuple[Revision, Revision]:
        return self._position(), self._state.region.cursor

    def _told_place(self) -> tuple[Revision, Revision]:
        found: tuple[Revision, Revision] = self._told.of.get(reports.PLACE, (0, 0))
        return found

    def _position(self) -> Revision:
        return pack_revision(self._state.info.seq, INDEX_MAX)
