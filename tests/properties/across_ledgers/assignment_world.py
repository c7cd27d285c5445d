"""A platform with simple regions beside it: they hear, start, report and release, when they are told to and not before.

The regions know nothing of the controller. What runs is counted by them alone.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, Waiting, WorkloadReport
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.resources import ZERO, times
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from tests.support.ledgers.platform import DIGEST, PlatformBench, a_world, cpu

REGIONS = ("eu", "us", "us2")
#: So many looks in a row may have something to say before all is said.
ROUNDS_MAX = 12


class SimpleRegion:
    """What runs of one workload in one region: the last it heard, how many start, how many are ready."""

    def __init__(self) -> None:
        self.told: list[Assignment] = []
        self.starting = self.ready = 0
        self.running: list[int] = []

    def hear(self, told: list[Assignment]) -> None:
        """Do as the newest assignment says: what is not ready goes first."""
        self.told = told
        live = [one for one in told if one.stage is AssignmentStage.ACTIVE]
        count = sum(share.count for one in live for share in one.shares)
        self.running = [ordinal for one in live for ordinal in numbers(one.ordinals)]
        self.ready = min(self.ready, count)
        self.starting = count - self.ready

    def progress(self, count: int) -> None:
        """So many of those that start get ready."""
        count = min(count, self.starting)
        self.starting, self.ready = self.starting - count, self.ready + count

    def crash(self) -> None:
        """One that was ready starts again."""
        if self.ready:
            self.starting, self.ready = self.starting + 1, self.ready - 1


class Assigned:
    """One workload on a platform, and its regions."""

    def __init__(self, workload: Workload) -> None:
        self.bench: PlatformBench = a_world()
        self.bench.checked = False
        self.uid = self.bench.put(workload)
        self.regions = {name: SimpleRegion() for name in REGIONS}
        self.position = 0
        self.looks = 0

    @property
    def workload(self) -> Workload:
        return self.bench.state.workloads[self.uid]

    def health(self, region: str) -> RegionHealth:
        return self.bench.state.regions[region].status.health

    def settle(self) -> None:
        """Look and send until there is nothing to say. Nothing may be refused: the view is never behind here."""
        said: list[Any] = []
        for _ in range(ROUNDS_MAX):
            outcome = AssignmentReconciler().reconcile(self.bench.state, self.uid, self.bench.at)
            assert outcome.requeue_at is None or outcome.requeue_at > self.bench.at
            if not outcome.commands:
                return
            for wanted in outcome.commands:
                said.append(wanted.command)
                self.looks += 1
                answer = self.bench.send(ASSIGNMENT, wanted.command)
                assert not isinstance(answer, Refused), (wanted.command, answer)
        raise AssertionError(f"not quiet after {ROUNDS_MAX} looks: {said[-9:]}")

    # What regions do

    def hear(self, name: str) -> None:
        """A region catches up with the platform's log, and acknowledges."""
        mine = [one for one in self.bench.assignments(self.uid) if one.region == name]
        self.regions[name].hear(mine)
        self._say(
            name,
            c.Acknowledge(
                name, f"log-{name}", self._next(), pack_revision(self.bench.state.info.seq, INDEX_MAX), DIGEST
            ),
        )

    def report(self, name: str, *, unpaid: bool = False) -> None:
        """A region says how far it is, and that what is not ready waits for quota, or nothing of why."""
        one = self.regions[name]
        live = [a for a in one.told if a.stage is AssignmentStage.ACTIVE and a.shares]
        template = live[0].shares[0].template if live else "none"
        count = one.ready + one.starting
        counts = (TemplateCounts(template, count, one.ready, one.ready),) if count else ()
        waiting = (Waiting("over-grant", one.starting, self.bench.at),) if unpaid and one.starting else ()
        generation = max((a.generation for a in one.told), default=0)
        self._say(name, c.Report(name, self._next(), (WorkloadReport(self.uid, generation, counts, waiting),)))

    def summarise(self, name: str, milli: int, free: int) -> None:
        """A region says that it has four nodes of that size, and so many of them empty."""
        each = cpu(milli)
        largest_free = (each,) if free else (ZERO,)
        nodes = Nodes("small", (), (), (), (), 4, times(each, 4), times(each, free), (each,), largest_free)
        self._say(name, c.Report(name, self._next(), (), RegionSummary((nodes,))))

    def release(self, name: str) -> None:
        """A region gives back what it was asked for and removes what has ended."""
        for assignment in self.regions[name].told:
            if assignment.stage is AssignmentStage.ENDED:
                self._say(name, c.RemoveAssignment(assignment.uid))
                continue
            ended = tuple(
                ordinal for ordinal in numbers(assignment.returning) if ordinal not in self.regions[name].running
            )
            if ended:
                self._say(name, c.ReleaseRights(self.uid, ended, assignment.revision))

    def _next(self) -> int:
        self.position += 1
        return pack_revision(self.position, 0)

    def _say(self, name: str, command: Any) -> None:
        self.bench.later(1)
        self.bench.send(f"region/{name}", command)

    # What is so

    def heal(self) -> None:
        """Every region is heard again and has room."""
        for name in REGIONS:
            self.summarise(name, 10_000, 4)
            if self.health(name) is RegionHealth.LOST:
                self.hear(name)
            if self.health(name) in (RegionHealth.LOST, RegionHealth.SUSPECT):
                self.bench.judge(name, RegionHealth.HEALTHY)

    def finish(self, rounds: int = 40) -> None:
        """Everything that can happen happens, again and again, until nothing changes any more."""
        for _ in range(rounds):
            before, looks = self.bench.assignments(self.uid), self.looks
            for name in REGIONS:
                self.hear(name)
                self.regions[name].progress(100)
                self.report(name)
                self.release(name)
                self.settle()
            self.bench.later(1_000)
            self.settle()
            if (self.bench.assignments(self.uid), self.looks) == (before, looks):
                return
        raise AssertionError(f"it never rests: {self.counts()}")

    def counts(self) -> dict[str, int]:
        """How many are assigned to each region."""
        live = [one for one in self.bench.assignments(self.uid) if one.stage is AssignmentStage.ACTIVE]
        return {one.region: sum(share.count for share in one.shares) for one in live}

    def ready(self) -> int:
        """How many are ready where the platform can count on it."""
        heard = [name for name in REGIONS if self.health(name) is not RegionHealth.LOST]
        return sum(self.regions[name].ready for name in heard)
