"""Objects of a region that may differ from what was reported, and since when: noticed from the region's own changes.

    a change is received ──▶ noticed ──▶ examined
    the resync: everything ──▶ examined; news without a notice ──▶ a change within a second? if not: a resync hit

The state may be ahead of the received changes, so a change that arrives a little later was not missed.

Recent reports about workloads with failing replicas, so that equal ones are not repeated.

    up, crashed, up, crashed ...      ──▶      one report: some fail, by exit; another one later, if it differs

A replica that restarts repeatedly changes phase every few seconds, and each change would be a record of the platform's
log. So a report about such a workload has a shape: generation, templates, failures and pending reasons, without
numbers. A report with a recent shape waits, unless a number is outside the range reported with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from itertools import islice
from typing import NamedTuple

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.model.records.region_reports import WorkloadReport
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import ASSIGNMENT, CURSOR, GRANT, WORKLOAD

#: A change without progress is reported this long after it was first noticed: mostly another change follows.
CALM_MS = 100
#: Within this time the change of everything in the state is received.
CHANGES_MS = 1_000
#: Kind and key of the summary among the examined objects.
SUMMARY = ("summary", "")
#: After this time a shape is reported again.
REPEAT_MS = 30_000


class DirtyObjects:
    """Workloads and accounts to examine, and whether the summary is outdated. Times are of the boot clock."""

    def __init__(self) -> None:
        self.accounts: dict[str, None] = {}
        self.is_summary_old = True
        #: Workloads to examine, and examined ones that wait for further changes; since when.
        self._fresh: OrderedDict[Revision, int] = OrderedDict()
        self._calm: dict[Revision, int] = {}
        #: Workloads to examine again in any case; when.
        self._due: dict[Revision, int] = {}
        #: Objects examined for the resync alone, by kind and key; and those of them with news, since when.
        self._unprompted: dict[WatchKey, None] = {}
        self._suspects: dict[WatchKey, int] = {}

    def __bool__(self) -> bool:
        """Return whether there is something to examine now."""
        return bool(self._fresh or self.accounts)

    def on_change(self, state: RegionState, keys: Iterable[WatchKey], now: int) -> None:
        """Note the objects that a batch touched."""
        for kind, key in keys:
            if kind == WORKLOAD:
                self._note(key, now)  # type: ignore[arg-type]
            elif kind == GRANT:
                self.accounts[str(key)] = None
                self._heard(GRANT, str(key))
            elif kind == ASSIGNMENT and (assignment := state.assignments.get(key)) is not None:  # type: ignore[arg-type]
                self._note(assignment.workload, now)
            if kind != CURSOR:
                self.is_summary_old = True
                self._heard(*SUMMARY)

    def _note(self, workload: Revision, now: int) -> None:
        self._fresh.setdefault(workload, self._calm.pop(workload, now))
        self._heard(WORKLOAD, workload)

    def _heard(self, kind: str, key: Revision | str) -> None:
        self._unprompted.pop((kind, key), None)
        self._suspects.pop((kind, key), None)

    def resync(self, state: RegionState, above: Container[str]) -> None:
        """Examine everything, and remember the objects that were not noticed. Accounts charged above their target are
        examined in any case."""
        workloads = {*self._fresh, *self._calm, *self._due}
        accounts = [one for one, _ in state.accepted_grants.items() if one not in self.accounts and one not in above]
        unprompted: dict[WatchKey, None] = dict.fromkeys((GRANT, account) for account in accounts)
        unprompted.update({(WORKLOAD, uid): None for uid, _ in state.assignments_of.items() if uid not in workloads})
        if not self.is_summary_old:
            unprompted[SUMMARY] = None
        self.everything(state)
        self._unprompted = unprompted

    def looked_at(self, kind: str, key: Revision | str, now: int, *, is_news: bool) -> None:
        """Record that an object was examined, and whether it differed from what was reported."""
        if (kind, key) in self._unprompted:
            del self._unprompted[kind, key]
            if is_news:
                self._suspects[kind, key] = now

    def take_caught(self, now: int) -> int:
        """Return the number of resync hits: news without a change in all that time."""
        caught = [key for key, since in self._suspects.items() if since + CHANGES_MS <= now]
        for key in caught:
            del self._suspects[key]
        return len(caught)

    def everything(self, state: RegionState) -> None:
        """Mark everything as possibly different."""
        self._unprompted = {}
        self._fresh = OrderedDict.fromkeys(state.assignments_of.keys(), 0)
        self._calm = {}
        self.accounts = dict.fromkeys(account for account, _ in state.accepted_grants.items())
        self.is_summary_old = True

    def rested_at(self) -> int | None:
        """Return when the first waiting workload is due; None: none waits."""
        return min([*(since + CALM_MS for since in self._calm.values()), *self._due.values()], default=None)

    def wake(self, now: int) -> None:
        """Move the waiting workloads that are due back to those to examine."""
        rested = [workload for workload, since in self._calm.items() if since + CALM_MS <= now]
        for workload in reversed(rested):
            self._fresh[workload] = self._calm.pop(workload)
            self._fresh.move_to_end(workload, last=False)
        for workload in [workload for workload, at in self._due.items() if at <= now]:
            self._fresh.setdefault(workload, self._due.pop(workload))

    def take(self, most: int) -> list[tuple[Revision, int]]:
        """Return the next workloads to examine, up to a limit, and since when; they are no longer noticed."""
        found = list(islice(self._fresh.items(), most))
        for workload, _ in found:
            del self._fresh[workload]
            self._due.pop(workload, None)
        return found

    def let_rest(self, workload: Revision, since: int) -> None:
        """Examine the workload once more after its wait."""
        self._calm.setdefault(workload, since)

    def look_again(self, workload: Revision, at: int) -> None:
        """Examine the workload then in any case, or before."""
        self._due[workload] = min(at, self._due.get(workload, at))


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
