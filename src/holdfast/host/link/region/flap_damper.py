"""Recent reports about workloads with failing replicas, so that equal ones are not repeated.

    up, crashed, up, crashed ...      ──▶      one report: some fail, by exit; another one later, if it differs

A replica that restarts repeatedly changes phase every few seconds, and each change would be a record of the platform's
log. So a report about such a workload has a shape: generation, templates, failures and pending reasons, without
numbers. A report with a recent shape waits, unless a number is outside the range reported with it.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.records.region_reports import WorkloadReport
from holdfast.core.model.values.structs import Revision

#: After this time a shape is reported again.
REPEAT_MS = 30_000

Shape = tuple[object, ...]
#: Numbers of replicas that are bound, ready, serving, and failing.
Sums = tuple[int, ...]


class _Reported(NamedTuple):
    """When a shape was first reported, and the range of each number since then."""

    since: int
    least: Sums
    most: Sums


class FlapDamper:
    """Recent reports by workload. Times are of the boot clock."""

    def __init__(self) -> None:
        self._told: dict[Revision, dict[Shape, _Reported]] = {}

    def waits_until(self, seen: WorkloadReport, known: WorkloadReport | None, now: int) -> int:
        """Return when to send the report; 0: now. `known` is the last report sent; None: none."""
        if known is None or not (seen.failing or known.failing):
            return 0
        reported = self._told.get(seen.workload, {}).get(_shape(seen))
        if reported is None or now >= reported.since + REPEAT_MS:
            return 0
        sums = zip(reported.least, _sums(seen), reported.most, strict=True)
        return reported.since + REPEAT_MS if all(least <= one <= most for least, one, most in sums) else 0

    def report(self, seen: WorkloadReport, now: int) -> None:
        """Record a report that is sent."""
        reported = {
            shape: one for shape, one in self._told.pop(seen.workload, {}).items() if now < one.since + REPEAT_MS
        }
        if not seen.failing and not reported:
            return
        shape, sums = _shape(seen), _sums(seen)
        known = reported.get(shape, _Reported(now, sums, sums))
        least = tuple(min(pair) for pair in zip(known.least, sums, strict=True))
        most = tuple(max(pair) for pair in zip(known.most, sums, strict=True))
        reported[shape] = _Reported(known.since, least, most)
        self._told[seen.workload] = reported

    def forget(self, now: int) -> None:
        """Drop reports that are no longer recent."""
        for workload, reported in list(self._told.items()):
            if all(now >= one.since + REPEAT_MS for one in reported.values()):
                del self._told[workload]


def _shape(seen: WorkloadReport) -> Shape:
    return (
        seen.generation,
        tuple(count.template for count in seen.counts),
        tuple(one.code for one in seen.failing),
        tuple(one.code for one in seen.waiting),
    )


def _sums(seen: WorkloadReport) -> Sums:
    counts = seen.counts
    return (
        sum(one.bound for one in counts), sum(one.ready for one in counts), sum(one.serving for one in counts),
        sum(one.count for one in seen.failing),
    )  # fmt: skip
