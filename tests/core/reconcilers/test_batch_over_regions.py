"""Batch work over several regions: what is done is done wherever it was, and only the rest is run and paid for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import OnDeadline, Placement
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.region_reports import TemplateCounts, WorkloadReport
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, STATUS
from holdfast.core.platform.queries.accounts import quota_demand
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.platform.status import StatusReconciler
from tests.support.ledgers.platform import HOUR, a_template, a_workload, a_world, cpu

BOTH = ("eu", "us")


class Job:
    """A batch of twelve in regions eu and us, and what is said of it there."""

    def __init__(self, regions: tuple[str, ...] = BOTH, replicas: int = 12, **fields: Any) -> None:
        self.bench = a_world()
        self.uid = self.bench.put(a_workload("job", batch=True, regions=regions, replicas=replicas, **fields))
        self.position = 0
        self.assigns()

    def assigns(self) -> list[Any]:
        """The assignment controller looks until it has nothing to send; what it sent."""
        sent: list[Any] = []
        for _ in range(6):
            now = [
                one.command
                for one in AssignmentReconciler().reconcile(self.bench.state, self.uid, self.bench.at).commands
            ]
            for command in now:
                self.bench.accept(ASSIGNMENT, command)
            if not now:
                return sent
            sent += now
        raise AssertionError(f"not quiet: {sent[-3:]}")

    def says(self, region: str, bound: int = 0, done: int = 0, failed: int = 0, why: str = "exit") -> None:
        self.position += 1
        digest = template_digest(self.bench.state.workloads[self.uid].spec.template)
        seen = WorkloadReport(self.uid, 1, (TemplateCounts(digest, bound, 0, 0, done, failed, why if failed else ""),))
        self.bench.accept(f"region/{region}", c.Report(region, self.position, (seen,)))

    def counts(self) -> dict[str, int]:
        """How many are assigned to each region."""
        live = [one for one in self.bench.assignments(self.uid) if one.stage is AssignmentStage.ACTIVE]
        return {one.region: sum(share.count for share in one.shares) for one in live}

    def change(self, **fields: Any) -> None:
        known = self.bench.state.workloads[self.uid]
        self.bench.put(replace(known, spec=replace(known.spec, **fields)))

    def remove(self, region: str, done: int = 0) -> None:
        """A region has released what it had, and says what of it was done."""
        digest = template_digest(self.bench.state.workloads[self.uid].spec.template)
        uid = next(one.uid for one in self.bench.assignments(self.uid) if one.region == region)
        self.bench.accept(f"region/{region}", c.RemoveAssignment(uid, ((digest, done),) if done else ()))

    def tells(self) -> dict[str, Condition]:
        """The status controller looks, and what it says is taken; the conditions by type."""
        for wanted in StatusReconciler().reconcile(self.bench.state, self.uid, self.bench.at).commands:
            self.bench.accept(STATUS, wanted.command)
        status = self.bench.state.workloads[self.uid].status
        return {one.type: one for one in status.conditions}

    def status(self) -> tuple[int, int]:
        """How many have succeeded, and how many have failed."""
        status = self.bench.state.workloads[self.uid].status
        return status.succeeded, status.failed


# Where it is done


def test_what_cannot_be_placed_moves_and_what_is_done_stays() -> None:
    job = Job(("eu",))
    job.change(placement=Placement(regions=BOTH))
    job.says("eu", bound=1, done=8)
    mine = next(one.uid for one in job.bench.assignments(job.uid) if one.region == "eu")
    job.bench.accept("region/eu", c.OfferBack(mine, 3, "no node has room"))
    job.assigns()
    assert job.counts() == {"eu": 9, "us": 3}


def test_what_runs_is_not_moved_for_balance() -> None:
    job = Job(("eu",))
    job.says("eu", bound=4, done=8)
    job.change(placement=Placement(regions=BOTH))
    job.assigns()
    assert job.counts() == {"eu": 12}


def test_a_region_that_has_done_its_part_is_given_no_more_for_that() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", bound=3, done=3)
    assert job.assigns() == []
    assert job.counts() == {"eu": 6, "us": 6}


def test_what_is_done_counts_for_the_part_that_a_region_has_of_what_may_be_disrupted() -> None:
    job = Job(disruption_max=4)
    job.says("eu", 1, done=5)
    job.says("us", 6)
    assert job.assigns() == []
    assert [one.disruption for one in job.bench.assignments(job.uid)] == [2, 2]


def test_what_is_scaled_up_is_split_beside_what_is_done() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", done=6)
    job.change(replicas=16)
    job.assigns()
    assert job.counts() == {"eu": 8, "us": 8}


def test_what_is_scaled_down_below_what_is_done_stays_done() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", bound=2, done=4)
    job.change(replicas=5)
    job.assigns()
    assert job.counts() == {"eu": 6, "us": 4}
    job.says("us", done=4)
    found = job.tells()
    assert found["Assigned"].status is ConditionStatus.TRUE
    assert found["Complete"].status is ConditionStatus.TRUE


def test_what_a_lost_region_has_done_is_not_done_again_elsewhere() -> None:
    job = Job()
    job.says("eu", bound=2, done=4)
    job.says("us", bound=6)
    job.bench.lose("eu")
    job.assigns()
    assert job.counts() == {"eu": 6, "us": 8}


def test_what_was_done_where_it_may_not_be_any_more_is_not_done_again() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", bound=6)
    job.change(placement=Placement(regions=("us",)))
    job.assigns()
    assert job.counts() == {"us": 6}
    job.remove("eu", done=6)
    assert job.assigns() == []
    assert job.counts() == {"us": 6}


def test_what_a_retired_region_had_done_is_not_done_again() -> None:
    job = Job()
    job.says("eu", bound=2, done=4)
    job.says("us", bound=6)
    job.bench.retire("eu")
    job.assigns()
    assert job.counts() == {"us": 8}
    job.tells()
    assert job.status() == (4, 0)


def test_another_template_is_done_anew() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", done=6)
    job.change(template=a_template(2_000))
    job.assigns()
    assert job.counts() == {"eu": 6, "us": 6}
    found = job.tells()
    assert (found["Complete"].status, found["Complete"].message) == (ConditionStatus.FALSE, "0 of 12 are done")


def test_work_that_was_given_up_at_its_deadline_goes_on_with_the_rest() -> None:
    job = Job(("eu",), deadline=60_000, on_deadline=OnDeadline.FAIL)
    job.says("eu", bound=7, done=5)
    job.bench.later(60_000)
    job.tells()
    job.assigns()
    job.remove("eu", done=6)
    job.tells()
    assert job.status() == (6, 0)
    job.change(deadline=HOUR)
    job.assigns()
    assert job.counts() == {"eu": 6}


# What it costs


def test_what_is_over_asks_for_no_quota() -> None:
    job = Job(("eu",), template=a_template(1_000))
    assert quota_demand(job.bench.state, "acme", "eu") == cpu(12_000)
    job.says("eu", bound=3, done=8, failed=1)
    assert quota_demand(job.bench.state, "acme", "eu") == cpu(3_000)
    job.says("eu", done=11, failed=1)
    assert quota_demand(job.bench.state, "acme", "eu") == cpu(0)


def test_what_is_over_is_not_waited_for() -> None:
    job = Job(("eu",))
    assert job.bench.state.pending_of["acme"] == 12
    job.says("eu", bound=2, done=8, failed=1)
    job.tells()
    assert job.bench.state.pending_of["acme"] == 1


# What is said


def test_it_is_complete_once_all_are_done() -> None:
    job = Job()
    job.says("eu", bound=1, done=5)
    job.says("us", done=6)
    found = job.tells()["Complete"]
    assert (found.status, found.reason, found.message) == (
        ConditionStatus.FALSE,
        ConditionReason.PROGRESSING,
        "11 of 12 are done",
    )
    job.says("eu", done=6)
    found = job.tells()["Complete"]
    assert (found.status, found.reason, found.message) == (
        ConditionStatus.TRUE,
        ConditionReason.AS_DESIRED,
        "12 of 12 are done",
    )
    assert job.status() == (12, 0)


def test_what_is_done_needs_no_node() -> None:
    job = Job()
    job.says("eu", done=6)
    job.says("us", done=6)
    assert job.tells()["Placed"].status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("exit", ConditionReason.CRASHED),
        ("cannot-start", ConditionReason.CANNOT_START),
        ("probe-failed", ConditionReason.PROBE_FAILED),
    ],
)
def test_a_job_that_always_fails_has_failed_and_says_why(why: str, reason: ConditionReason) -> None:
    job = Job(("eu",), replicas=3)
    job.says("eu", bound=1, failed=2, why=why)
    found = job.tells()
    assert (found["Failed"].status, found["Failed"].reason) == (ConditionStatus.TRUE, reason)
    assert found["Failed"].message == f"2 have failed for good, the last for: {why}"
    assert found["Complete"].reason is ConditionReason.PROGRESSING
    job.says("eu", done=1, failed=2, why=why)
    found = job.tells()
    assert (found["Complete"].status, found["Complete"].reason) == (ConditionStatus.FALSE, reason)
    assert found["Complete"].message == "1 of 3 are done, 2 have failed for good"
    assert job.status() == (1, 2)
    assert job.assigns() == []


def test_that_nothing_has_failed_is_said_only_where_something_had() -> None:
    job = Job(("eu",), replicas=1)
    job.says("eu", bound=1)
    assert "Failed" not in job.tells()
    job.says("eu", failed=1)
    assert job.tells()["Failed"].status is ConditionStatus.TRUE
    job.change(template=a_template(2_000))
    job.says("eu", bound=1)
    found = job.tells()["Failed"]
    assert (found.status, found.message) == (ConditionStatus.FALSE, "none has failed for good")


def test_the_deadline_of_what_is_done_is_met_though_its_region_is_lost() -> None:
    job = Job(("eu",), deadline=60_000)
    job.says("eu", done=12)
    job.bench.lose("eu")
    assert job.bench.state.regions["eu"].status.health is RegionHealth.LOST
    found = job.tells()["OnTime"]
    assert (found.status, found.reason) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
