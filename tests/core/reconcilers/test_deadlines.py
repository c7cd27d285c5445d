"""What becomes of batch work whose deadline passes: said once and for good, and then its own rule applies."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.objects.workloads import OnDeadline
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, Waiting, WorkloadReport
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, STATUS
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.platform.status import PATIENCE_MS, StatusReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from tests.support.ledgers.assignment_world import AssignmentWorld, stopped, withdrawn
from tests.support.ledgers.platform import HOUR, a_workload, a_world, cpu

MINUTE = 60_000


class Story:
    """A job of three pieces in region eu, due in a minute, with the status and assignment controllers beside it."""

    def __init__(self, rule: OnDeadline = OnDeadline.BEST_EFFORT, **fields: Any) -> None:
        self.bench = a_world()
        job = {"batch": True, "deadline": MINUTE, "on_deadline": rule, "regions": ("eu",), **fields}
        self.uid = self.bench.put(a_workload("job", **job))
        self.due = self.bench.at + job["deadline"]
        self.position = 0
        self.assigns()

    def assigns(self) -> list[Any]:
        """The assignment controller looks, and what it sends is taken."""
        outcome = AssignmentReconciler().reconcile(self.bench.state, self.uid, self.bench.at)
        for wanted in outcome.commands:
            self.bench.accept(ASSIGNMENT, wanted.command)
        return [wanted.command for wanted in outcome.commands]

    def look(self) -> ReconcileResult:
        return StatusReconciler().reconcile(self.bench.state, self.uid, self.bench.at)

    def tells(self) -> Condition:
        """The status controller looks, what it sends is taken, and then it rests; what is known of the deadline."""
        for wanted in self.look().commands:
            self.bench.accept(STATUS, wanted.command)
        assert self.look().commands == ()
        return self.condition("OnTime")

    def condition(self, type: str) -> Condition:
        status = self.bench.state.workloads[self.uid].status
        return next(one for one in status.conditions if one.type == type)

    def says(self, bound: int = 0, done: int = 0, waiting: int = 0, code: str = "deadline-missed") -> None:
        self.position += 1
        digest = template_digest(self.bench.state.workloads[self.uid].spec.template)
        reasons = (Waiting(code, waiting, self.bench.at),) if waiting else ()
        seen = WorkloadReport(self.uid, 1, (TemplateCounts(digest, bound, 0, 0, done),), reasons)
        self.bench.accept("region/eu", c.Report("eu", self.position, (seen,)))

    def change(self, **fields: Any) -> None:
        known = self.bench.state.workloads[self.uid]
        self.bench.put(replace(known, spec=replace(known.spec, **fields)))

    def stages(self) -> list[AssignmentStage]:
        return [one.stage for one in self.bench.assignments(self.uid)]


# What is said


def test_it_is_looked_again_when_the_work_is_due() -> None:
    job = Story()
    job.says(3)
    assert job.tells().reason is ConditionReason.PROGRESSING
    assert job.look().requeue_at is not None
    job.bench.later(MINUTE - 1)
    assert job.look().requeue_at == job.due


def test_a_deadline_is_missed_from_the_moment_on_at_which_not_all_was_done() -> None:
    job = Story()
    job.says(2, done=1)
    job.bench.later(MINUTE - 1)
    assert job.tells().status is ConditionStatus.TRUE
    job.bench.later(1)
    found = job.tells()
    assert (found.status, found.reason, found.since) == (
        ConditionStatus.FALSE,
        ConditionReason.DEADLINE_MISSED,
        job.due,
    )
    assert found.message == "1 of 3 were done by its deadline"


def test_a_fresh_workload_that_nobody_has_spoken_of_is_not_silent_past_its_deadline() -> None:
    job = Story(deadline=1_000)
    assert job.look() == ReconcileResult((), job.due)
    job.bench.later(1_000)
    assert job.due < job.bench.at + PATIENCE_MS
    assert job.tells().reason is ConditionReason.DEADLINE_MISSED


def test_what_is_done_late_was_not_done_by_then() -> None:
    job = Story()
    job.says(3)
    job.bench.later(MINUTE)
    missed = job.tells()
    job.says(done=3)
    assert job.tells() == missed


def test_what_was_done_in_time_stays_so_when_its_room_is_free_again() -> None:
    job = Story()
    job.says(done=3)
    assert job.tells().reason is ConditionReason.AS_DESIRED
    job.says()
    job.bench.later(HOUR)
    found = job.tells()
    assert (found.status, found.reason) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)


def test_what_turns_out_to_fit_nowhere_is_said_to_be_late_before_it_is() -> None:
    job = Story()
    job.says(waiting=3, code="capacity")
    assert job.tells().status is ConditionStatus.TRUE
    size = cpu(100)
    row = Nodes("small", (), (), (), (), 1, size, size, (size,), (size,))
    job.position += 1
    job.bench.accept("region/eu", c.Report("eu", job.position, (), RegionSummary(nodes=(row,))))
    job.bench.later(PATIENCE_MS)
    found = job.tells()
    assert (found.status, found.reason) == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    assert job.assigns() == []


# What is done about it


def test_best_effort_goes_on() -> None:
    job = Story(OnDeadline.BEST_EFFORT)
    job.says(3)
    job.bench.later(MINUTE)
    job.tells()
    assert job.assigns() == []
    assert job.stages() == [AssignmentStage.ACTIVE]


def test_what_is_to_fail_is_ended_everywhere_once_and_never_assigned_again() -> None:
    job = Story(OnDeadline.FAIL)
    job.says(2, done=1)
    job.bench.later(MINUTE)
    assert job.assigns() == []  # not before it is on record how many were done
    job.tells()
    (mine,) = job.bench.assignments(job.uid)
    assert job.assigns() == [c.EndAssignment(mine.uid)]
    assert job.assigns() == []
    job.bench.accept("region/eu", c.RemoveAssignment(mine.uid))
    assert job.assigns() == []
    assert job.tells().message == "1 of 3 were done by its deadline"
    said = "0 of 3 are assigned: it was to fail at its deadline"
    for type in ("Assigned", "Placed"):
        found = job.condition(type)
        assert (found.reason, found.message) == (ConditionReason.DEADLINE_MISSED, said), type


@pytest.mark.parametrize("fields", [{"deadline": HOUR}, {"on_deadline": OnDeadline.BEST_EFFORT}])
def test_what_was_given_up_is_assigned_again_when_its_tenant_wants_it_after_all(fields: dict[str, Any]) -> None:
    job = Story(OnDeadline.FAIL)
    job.says(2)
    job.bench.later(MINUTE)
    job.tells()
    job.assigns()
    job.bench.accept("region/eu", c.RemoveAssignment(job.bench.assignments(job.uid)[0].uid))
    job.change(**fields)
    assert [type(command) for command in job.assigns()] == [c.Assign]


def test_what_waits_in_a_region_for_its_deadline_is_said_so() -> None:
    job = Story(OnDeadline.FAIL)
    job.says(1, waiting=2)
    job.bench.later(MINUTE)
    job.tells()
    assert job.condition("Placed").reason is ConditionReason.DEADLINE_MISSED


# In a region


def a_job(**fields: Any) -> AssignmentWorld:
    """Three pieces that are to be done in a second: one is done, one runs and one waits."""
    job = AssignmentWorld()
    job.ask({"one": 3}, batch=True, deadline=job.bench.at + 1_000, **fields)
    job.settle(ReplicaReconciler())
    job.work([1, 2], Phase.RUNNING)
    job.move(2, Phase.SUCCEEDED, "completed")
    return job


@pytest.mark.parametrize("fails", [False, True])
def test_a_region_stops_nothing_by_itself_when_a_deadline_passes(fails: bool) -> None:
    job = a_job(fails_late=fails)
    job.bench.at += 1_000
    assert job.look(ReplicaReconciler()) == NO_CHANGES


def test_what_was_given_up_is_withdrawn_and_stopped_for_that_and_what_is_done_stays() -> None:
    job = a_job(fails_late=True)
    job.bench.at += 1_000
    job.ask({}, batch=True, fails_late=True, deadline=job.bench.at, stage=AssignmentStage.ENDED)
    assert job.settle(ReplicaReconciler()) == [withdrawn(0), stopped(1, cause="deadline-missed")]
    assert job.phases() == {1: "terminating", 2: "succeeded"}


def test_what_was_deleted_before_its_deadline_is_stopped_for_that() -> None:
    job = a_job(fails_late=True)
    job.ask({}, batch=True, fails_late=True, deadline=job.bench.at + 1_000, stage=AssignmentStage.ENDED)
    assert stopped(1, cause="deleted") in job.settle(ReplicaReconciler())
