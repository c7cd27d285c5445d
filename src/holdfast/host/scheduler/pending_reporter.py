"""Reports of pending reasons to the ledger: on change, a few at a time, and not for requests that are placed soon.

    cycle ──▶ latest reasons per request ──▶ due, and the request still waits ──▶ ReportPending

A new request is reported only after a moment, since most are placed within it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.commands import ReportPending
from holdfast.core.scheduling.queue.request_groups import RequestKey
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView, UnplacedRequest
from holdfast.host.errors import Unavailable
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.region_client import RegionClient

#: Waiting time before a request's first report.
SOON_MS = 2_000
#: Period of reports in which only counts changed.
REPORT_AGAIN_MS = 30_000
#: Largest number of reports in flight.
REPORTS_IN_FLIGHT_MAX = 16
#: Wait after a report that could not be sent.
RETRY_MS = 500


class _Unreported(Struct, frozen=True):
    """Unreported reasons of a request, and the view that they were found on."""

    waits: UnplacedRequest
    generation: int
    view: Revision


class PendingReporter:
    """The pending reports of a scheduler. `run` it next to the scheduler."""

    def __init__(
        self, region: RegionClient, scheduler: Scheduler, clock: Clock, metrics: Metrics, logger: Logger
    ) -> None:
        self._region = region
        self._scheduler = scheduler
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._untold: dict[RequestKey, _Unreported] = {}
        #: By request: the time of the last report.
        self._told_at: dict[RequestKey, int] = {}
        self._wake = ClockEvent()

    def note(self, sight: SchedulerView, waits: Sequence[UnplacedRequest]) -> None:
        """Store the reasons that a cycle found, if they differ from those reported."""
        boot, view = self._clock.boot(), self._scheduler.table.revision
        for one in waits:
            key, known = one.entry.key, one.entry.request.reasons
            same = _shape(known) == _shape(one.reasons)
            if same and (known == one.reasons or boot < self._told_at.get(key, 0) + REPORT_AGAIN_MS):
                self._untold.pop(key, None)
            else:
                self._untold[key] = _Unreported(one, sight.state.assignments[key[0]].generation, view)
        self._wake.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            due, wait_ms = self._due()
            if due:
                await asyncio.gather(*(self._tell(key, self._untold.pop(key)) for key in due))
                continue
            self._wake.clear()
            if wait_ms is None:
                await self._wake.wait()
            else:
                await self._wake.within(self._clock, wait_ms)

    def _due(self) -> tuple[list[RequestKey], int | None]:
        """Return some due requests, and the wait for the next, if any. Requests that no longer wait are dropped."""
        view = self._region.view()
        if view is None:
            return [], RETRY_MS if self._untold else None
        queue, due, gone, wait_ms = self._scheduler.queue, list[RequestKey](), list[RequestKey](), None
        for key in self._untold:
            entry = queue.entry(key)
            if entry is None or entry.open <= 0:
                gone.append(key)  # if it waits again, a later cycle notes it
                continue
            left_ms = _left_ms(entry.request.since, entry.request.reasons, view.now)
            if left_ms > 0:
                wait_ms = min(left_ms, wait_ms or left_ms)
                continue
            due.append(key)
            if len(due) == REPORTS_IN_FLIGHT_MAX:
                break
        for key in gone:
            del self._untold[key]
        if len(self._told_at) > 2 * len(queue) + 1_000:
            self._told_at = {key: at for key, at in self._told_at.items() if queue.entry(key) is not None}
        return due, wait_ms

    async def _tell(self, key: RequestKey, untold: _Unreported) -> None:
        waits, view = untold.waits, untold.view
        # Each request has its own report, so the evidence names only this one.
        found = replace(waits.found, requests=((key[0], untold.generation),))
        decision = DecisionEvidence(view, waits.policy, (found,))
        try:
            answer = await self._region.submit(ReportPending(*key, view, waits.reasons), view, 0, encode(decision))
        except Unavailable as error:
            self._logger.warning("not-told", why=error)
            await self._clock.sleep(RETRY_MS)
            self._untold.setdefault(key, untold)
            return
        self._told_at[key] = self._clock.boot()
        result = answer.code.value if isinstance(answer, Refused) else "told"
        self._metrics.count("scheduler_reports", result=result)


def _left_ms(since: Instant, known: tuple[PendingReason, ...], now: Instant) -> int:
    """Return the time until a first report is due; 0 or less if it is."""
    return 0 if known else since + SOON_MS - now


def _shape(reasons: tuple[PendingReason, ...]) -> tuple[Any, ...]:
    """Return the codes of the reasons without their counts."""
    return tuple((reason.code, _shape(reason.below)) for reason in reasons)
