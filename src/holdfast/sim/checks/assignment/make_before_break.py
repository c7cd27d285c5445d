"""Checks by the platform's log that moves between regions are make-before-break.

- moved-late: no assignment shrinks while too few replicas are ready without those it gives up
- few-at-once: identities cannot start before they end, so at most `disruptionMax` of them are returning at once

Readiness is taken from the reports of regions. Reports of a short time before the batch count too, since a decision may
be based on any of them. The wanted number has no such delay: the ledger refuses decisions based on an older one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import Batch
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import ACTIVE
from holdfast.core.model.values.ranges import Ranges, common, count_numbers, with_numbers, without
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState
from holdfast.sim.checks.assignment.surplus import serves
from holdfast.sim.checks.ledger_audit import Finding

#: How long a decision may be based on an older report of a workload.
SAID_MS = 3_000


class _Said(NamedTuple):
    """Reports about a workload at one time: ready replicas by region, replicas that wait for quota, and the wanted
    number."""

    at: int
    ready: dict[str, int]
    unpaid: int
    wanted: int


class _Identities(NamedTuple):
    """Identities of a workload that are returning after they were listed, and those that are listed."""

    back: Ranges = ()
    listed: Ranges = ()


class MakeBeforeBreakCheck:
    """Checks the platform's assignments. `state` is the audited state after each batch; `now` is the world's time."""

    def __init__(self, state: PlatformState, find: Callable[[Finding], None], now: Callable[[], int]) -> None:
        self._state = state
        self._find = find
        self._now = now
        self._said: dict[Revision, deque[_Said]] = {}
        #: By workload and region: the assigned counts; by workload: its identities.
        self._counts: dict[Revision, dict[str, int]] = {}
        self._identities: dict[Revision, _Identities] = {}

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        for uid, workload in self._state.workloads.items():
            said = self._hear(uid, workload)
            if workload.meta.deletion is None:
                if workload.spec.exclusive:
                    self._judge_identities(workload, said, batch.header.seq)
                elif not workload.spec.batch:
                    self._judge_counts(workload, said, batch.header.seq)

    def _hear(self, uid: Revision, workload: Workload) -> list[_Said]:
        seen = [(one.region, one.seen) for one in self._state.workload_reports.get(uid) or ()]
        ready = {region: sum(count.ready for count in what.counts) for region, what in seen}
        unpaid = [one.count for _, what in seen for one in what.waiting if one.code == Code.OVER_GRANT]
        known, now = self._said.setdefault(uid, deque()), self._now()
        known.append(_Said(now, ready, sum(unpaid), workload.spec.replicas))
        # The newest report before the span was valid at its start.
        while len(known) > 1 and known[1].at <= now - SAID_MS:
            known.popleft()
        return list(known)

    def _judge_counts(self, workload: Workload, said: list[_Said], seq: int) -> None:
        """Check the counts of one workload. Replicas in lost regions do not count."""
        mine = [one for one in self._state.assignments.values() if one.workload == workload.meta.uid]
        counts = {one.region: sum(s.count for s in one.shares) for one in mine if serves(one)}
        before, self._counts[workload.meta.uid] = self._counts.get(workload.meta.uid, {}), counts
        lost = {name for name, one in self._state.regions.items() if one.status.health is RegionHealth.LOST}
        heard = {name: count for name, count in before.items() if name not in lost}
        if all(counts.get(name, 0) >= count for name, count in heard.items()):
            return
        wanted = _wanted(said)
        if not all(self._is_short(workload, one, wanted, heard, counts) for one in said):
            return
        told = f"has {heard} and shall have {counts} of {workload.spec.replicas}, while {said[-1].ready} are ready"
        self._find(Finding("moved-late", f"platform batch {seq}: {workload.meta.name} {told}"))

    def _is_short(
        self, workload: Workload, said: _Said, wanted: int, before: dict[str, int], after: dict[str, int]
    ) -> bool:
        spec = workload.spec
        had = sum(min(said.ready.get(name, 0), count) for name, count in before.items())
        has = sum(min(said.ready.get(name, 0), count) for name, count in after.items())
        return has < min(had, wanted - min(spec.disruption_max, said.unpaid))

    def _judge_identities(self, workload: Workload, said: list[_Said], seq: int) -> None:
        """Check the identities of one workload that are still wanted and were listed. Those beyond the wanted number
        may all go at once; those never listed run nowhere."""
        spec, uid, most = workload.spec, workload.meta.uid, max(1, workload.spec.disruption_max)
        back: Ranges = ()
        listed: Ranges = ()
        for one in self._state.assignments.values():
            if one.workload == uid and one.stage is ACTIVE:
                back, listed = with_numbers(back, one.returning), with_numbers(listed, one.ordinals)
        known = self._identities.get(uid, _Identities())
        news = common(without(back, known.back), known.listed)
        moving = with_numbers(common(known.back, back), news)
        self._identities[uid] = _Identities(moving, listed)
        news, moving = (common(some, ((0, _wanted(said)),)) for some in (news, moving))
        if news and count_numbers(moving) > most:
            told = f"of {spec.replicas} identities {count_numbers(moving)} are returning, at most {most} may be down"
            self._find(Finding("few-at-once", f"platform batch {seq}: {workload.meta.name}: {told}"))


def _wanted(said: list[_Said]) -> int:
    """Return the fewest that were wanted during the last batch: it may contain an assignment and a later change of the
    number."""
    return min(one.wanted for one in said[-2:])
