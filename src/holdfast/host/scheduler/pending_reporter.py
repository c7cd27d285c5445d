"""Why requests wait, as the ledger is told: when it has changed, a few at a time, and not of what is placed soon.

    look ──▶ kept, the latest of each request ──▶ its time has come, and it still waits ──▶ ReportPending

A request that has just come is given a moment: most are placed within it, and nobody needs to hear that they waited.
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
from holdfast.core.scheduling.cycle import SchedulerView, UnplacedRequest
from holdfast.core.scheduling.queue.request_groups import RequestKey
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.host.errors import Unavailable
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.clock_event import ClockEvent
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.region_client import RegionClient

#: A request that has waited for less is not spoken of.
SOON_MS = 2_000
#: The same reasons with other counts are told this often.
REPORT_AGAIN_MS = 30_000
#: So many are told of at a time.
REPORTS_IN_FLIGHT_MAX = 16
#: While nothing can be told, it is tried again after so long.
RETRY_MS = 500


class _Unreported(Struct, frozen=True):
    """What is to be told of a request, and on which view it was found."""

    waits: UnplacedRequest
    generation: int
    view: Revision


class PendingReporter:
    """What a scheduler has to tell. `run` it beside the scheduler."""

    def __init__(
        self, region: RegionClient, scheduler: Scheduler, clock: Clock, metrics: Metrics, logger: Logger
    ) -> None:
        self._region = region
        self._scheduler = scheduler
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._untold: dict[RequestKey, _Unreported] = {}
        #: By request: when its reasons were last told.
        self._told_at: dict[RequestKey, int] = {}
        self._wake = ClockEvent()

    def note(self, sight: SchedulerView, waits: Sequence[UnplacedRequest]) -> None:
        """Keep what a look found, as far as it is news."""
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
        """Tell for ever."""
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
        """Whose time has come, a few; and how long nobody's does, None: until something is noted. Who waits no more is
        let go."""
        view = self._region.view()
        if view is None:
            return [], RETRY_MS if self._untold else None
        queue, due, gone, wait_ms = self._scheduler.queue, list[RequestKey](), list[RequestKey](), None
        for key in self._untold:
            entry = queue.entry(key)
            if entry is None or entry.open <= 0:
                gone.append(key)  # a look that finds it waiting once more says so
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
        # Each request has a report of its own: the others that were looked at with it are in theirs.
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
    """How long it is not told yet; 0 or less: its time has come."""
    return 0 if known else since + SOON_MS - now


def _shape(reasons: tuple[PendingReason, ...]) -> tuple[Any, ...]:
    """Which reasons there are, whatever their counts."""
    return tuple((reason.code, _shape(reason.below)) for reason in reasons)
