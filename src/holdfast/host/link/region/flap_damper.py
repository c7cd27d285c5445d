"""What was told of workloads some of whose replicas fail, so that the same is not told again and again.

    up, crashed, up, crashed ...   ──▶   told once: some fail, by exit; and again after a while, if it is otherwise

One that is started again and again has another phase every few seconds, and each would be a record of the platform's
log. So what is told of such a workload has a shape: its generation, its templates, what fails and what waits, without
numbers. News of a shape that was told lately waits, unless a number is higher or lower than any that was told with it.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.records.region_reports import WorkloadReport
from holdfast.core.model.values.structs import Revision

#: What was told lately of a shape is told anew after so long.
REPEAT_MS = 30_000

Shape = tuple[object, ...]
#: How many are given to agents, are ready, serve, and fail.
Sums = tuple[int, ...]


class _Reported(NamedTuple):
    """When something of a shape was told, and the least and most of each number since then."""

    since: int
    least: Sums
    most: Sums


class FlapDamper:
    """By workload what was told lately. Times are of the even clock."""

    def __init__(self) -> None:
        self._told: dict[Revision, dict[Shape, _Reported]] = {}

    def waits_until(self, seen: WorkloadReport, known: WorkloadReport | None, now: int) -> int:
        """When it is to be told; 0: now. `known` is what was told last, None: nothing."""
        if known is None or not (seen.failing or known.failing):
            return 0
        reported = self._told.get(seen.workload, {}).get(_shape(seen))
        if reported is None or now >= reported.since + REPEAT_MS:
            return 0
        sums = zip(reported.least, _sums(seen), reported.most, strict=True)
        return reported.since + REPEAT_MS if all(least <= one <= most for least, one, most in sums) else 0

    def report(self, seen: WorkloadReport, now: int) -> None:
        """This is told."""
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
        """Drop what was told long ago."""
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
