"""A region's reports to the platform: facts of its durable state, each once, soon after a change.

    batches of the region ──▶ changed workloads and accounts ──▶ compared with earlier reports ──▶ commands ──▶ sent
                                           (grants settled, rights and assignments released, offers back,
                                            reports, acknowledgements)

One task sends everything, in one order; changes in the meantime are sent next time.

- Progress of replicas is reported at once, another change after 100 ms, with those that follow from it. After a report
  the next examination waits 10 ms per reported workload, from 20 ms to 1 s. One without news does not delay the next:
  mostly it saw the start of a change. At most half of the time is spent on examining.
- Equal reports about a workload with failing replicas are sent at most every 30 s (`dirty_set`). A slow replica is
  reported once it is slow.
- Summaries and offers back are computed at most once per second. An acknowledgement follows 100 ms after a step, with
  its reports, and is sent at intervals without one.

Reports are remembered while this server leads and the platform's log is the same and did not go back. Nothing is sent
before a message of the platform in this session, nor while its log is not the one that this region follows.

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
from holdfast.host.link.region.dirty_set import CALM_MS, SUMMARY, DirtyObjects, FlapDamper
from holdfast.host.link.region.follower import PlatformView
from holdfast.host.link.region.report_sender import ReportSender
from holdfast.host.link.region.reports import ReportCommand, ReportedState
from holdfast.host.runtime.deadlines import run_in_steps
from holdfast.host.watch.hub import WatchHub

#: Wait between two examinations with news: at least, for each reported workload, and at most.
POLL_MS, POLL_EACH_MS, POLL_MAX_MS = 20, 10, 1_000
#: Wait after an examination without news: at least.
POLL_AGAIN_MS = 2
#: Workloads examined before the results are sent, and without a pause.
EXAMINED_MAX, EXAMINE_CHUNK = 5_000, 100
SUMMARY_MS = 1_000
#: Wait of an acknowledgement after a step; and without a step, while the region's own log grows.
ACKNOWLEDGE_MS, ACKNOWLEDGE_IDLE_MS = 100, 5_000
#: Everything is examined again at this interval, in case a change was missed.
RESYNC_MS = 60_000
#: Wait before a report is sent again that the platform did not decide, for a reason on the sender's side.
NO_CONTACT_MS = 5_000
IDLE_MS = 5_000

_KINDS = (WORKLOAD, ASSIGNMENT, NODE, GRANT, CURSOR, BREACH)


class Reporter:
    """The reports of one session. One task notes changes, another sends reports."""

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
        #: The platform's last message before this session.
        self._before = outlook.last_contact
        self._noticed = DirtyObjects()
        self._wavering = FlapDamper()
        #: Accounts charged above their target, and assignments that wait for capacity.
        self._above: dict[str, None] = {}
        self._crowded: dict[Revision, None] = {}
        self._pieces: SummarisedNodes = {}
        #: By the boot clock: when to examine, summarise and resync next; when the last acknowledgement was sent.
        self._look_at = self._summary_at = self._acknowledged_at = 0
        self._resync_at = self._clock.boot() + RESYNC_MS
        #: Since when a step is not acknowledged; None: there is none.
        self._stepped_at: int | None = None
        reported.of.pop(reports.PLACE, None)

    @property
    def _state(self) -> RegionState:
        return self._leader.term.durable.state

    # Changes

    async def listen(self) -> None:
        """Note the region's changes. A gap in them is repaired by an examination of everything."""
        while True:
            touches = self._hub.touched(_KINDS)
            self._everything()
            async for touched in touches:
                self._noticed.on_change(self._state, touched.keys, self._clock.boot())
                self._outlook.wake.set()

    def _everything(self) -> None:
        self._noticed.everything(self._state)
        self._outlook.wake.set()

    # Reports

    async def speak(self) -> None:
        """Send what is due, again and again. Raise once the session has ended."""
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
        """Return whether the platform was received in this session, with the log that this region follows."""
        heard = self._outlook.last_contact
        if heard is None or heard is self._before or heard.token.log_id != self._state.region.platform_log:
            return False
        if self._told.on_change(heard.token):
            self._everything()
        return True

    def _wait_ms(self) -> int:
        """Return how long nothing is due, unless something changes."""
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
        """Return when to acknowledge a position beyond the reported one."""
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
        """Return the news of changed workloads and accounts."""
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
        """Return whether to send the report now; otherwise the workload is examined again when it is due."""
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
        """Return the acknowledgement: this region's log position and its cursor in the platform's log."""
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
