"""Deadlines: counted from when a workload was created, told at submit where they cannot be met, and told to regions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.workloads import OnDeadline, Workload
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, WorkloadReport
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import STATUS
from holdfast.core.platform.queries.completion import is_abandoned
from tests.support.ledgers.platform import ACME, HOUR, PlatformBench, a_template, a_workload, a_world, cpu

MINUTE = 60_000
FAIL = OnDeadline.FAIL


def a_job(**fields: Any) -> Workload:
    """Two pieces that are to be done within a minute."""
    return a_workload("job", **{"batch": True, "replicas": 2, "deadline": MINUTE, **fields})


def put(bench: PlatformBench, **fields: Any) -> None:
    """Change what is wanted of the job."""
    known = bench.workload("job")
    bench.put(replace(known, spec=replace(known.spec, **fields)))


def on_time(bench: PlatformBench) -> Condition:
    return next(one for one in bench.workload("job").status.conditions if one.type == "OnTime")


def says(bench: PlatformBench, done: int, position: int = 1) -> None:
    """The region that has the job says how many are done."""
    job = bench.workload("job")
    counts = (TemplateCounts(template_digest(job.spec.template), 0, 0, 0, done), TemplateCounts("other", 0, 0, 0, 9))
    bench.accept("region/eu", c.Report("eu", position, (WorkloadReport(job.meta.uid, 1, counts),)))


def tell(bench: PlatformBench, region: str, milli: int, position: int = 1) -> None:
    row = Nodes("small", (), (), (), (), 1, cpu(milli), cpu(milli), (cpu(milli),), (cpu(milli),))
    bench.accept(f"region/{region}", c.Report(region, position, (), RegionSummary(nodes=(row,))))


def test_of_a_deadline_that_is_ahead_nothing_is_known_against_it() -> None:
    bench = a_world()
    bench.put(a_job())
    assert on_time(bench) == Condition(
        type="OnTime",
        status=ConditionStatus.TRUE,
        reason=ConditionReason.PROGRESSING,
        since=bench.at,
        observed_generation=1,
    )


def test_of_a_workload_without_a_deadline_nothing_is_said() -> None:
    bench = a_world()
    bench.put(a_job(deadline=0))
    assert [one.type for one in bench.workload("job").status.conditions] == ["Fits"]


def test_what_fits_nowhere_is_told_at_submit_that_it_cannot_be_in_time() -> None:
    bench = a_world()
    for region in ("eu", "us", "us2"):
        tell(bench, region, 8_000)
    bench.put(a_job(template=a_template(64_000)))
    assert (on_time(bench).status, on_time(bench).reason) == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    put(bench, template=a_template(500))
    assert (on_time(bench).status, on_time(bench).reason) == (ConditionStatus.TRUE, ConditionReason.PROGRESSING)


def test_a_deadline_that_has_passed_already_is_told_at_submit() -> None:
    bench = a_world()
    bench.put(a_job(deadline=10 * MINUTE))
    bench.later(MINUTE)
    put(bench, deadline=MINUTE)
    found = on_time(bench)
    assert (found.status, found.reason) == (ConditionStatus.FALSE, ConditionReason.DEADLINE_MISSED)
    assert found.message == "0 of 2 were done by its deadline"
    assert found.since == bench.at


def test_a_deadline_that_is_raised_in_time_is_ahead_again() -> None:
    bench = a_world()
    bench.put(a_job())
    bench.later(MINUTE)
    put(bench, replicas=3)
    assert on_time(bench).reason is ConditionReason.DEADLINE_MISSED
    put(bench, deadline=2 * MINUTE)
    assert (on_time(bench).status, on_time(bench).reason) == (ConditionStatus.TRUE, ConditionReason.PROGRESSING)


def test_a_deadline_that_is_taken_away_is_told_to_be_gone() -> None:
    bench = a_world()
    bench.put(a_job())
    bench.later(MINUTE)
    put(bench, deadline=0)
    found = on_time(bench)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
    assert found.message == "it no longer has a deadline"


def test_only_what_is_done_of_the_present_template_counts() -> None:
    bench = a_world()
    bench.put(a_job())
    bench.assign(bench.workload("job").meta.uid, "eu", 2)
    says(bench, done=1)
    bench.later(MINUTE)
    put(bench, disruption_max=2)
    assert on_time(bench).message == "1 of 2 were done by its deadline"
    says(bench, done=2, position=2)
    put(bench, disruption_max=3)
    assert (on_time(bench).status, on_time(bench).reason) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)


def test_what_is_said_of_an_older_generation_gives_nothing_up() -> None:
    bench = a_world()
    uid = bench.put(a_job(on_deadline=FAIL))
    missed = Condition(
        type="OnTime", status=ConditionStatus.FALSE, reason=ConditionReason.DEADLINE_MISSED, observed_generation=1
    )
    bench.accept(STATUS, c.ReportStatus(uid, 0, 0, 0, 0, (missed,)))
    assert is_abandoned(bench.workload("job"))
    put(bench, deadline=HOUR)
    bench.accept(STATUS, c.ReportStatus(uid, 0, 0, 0, 0, (missed,)))  # sent before, and late
    assert on_time(bench).reason is ConditionReason.DEADLINE_MISSED
    assert not is_abandoned(bench.workload("job"))


@pytest.mark.parametrize("rule", OnDeadline)
def test_a_region_is_told_when_the_work_is_due_and_whether_it_is_given_up_then(rule: OnDeadline) -> None:
    bench = a_world()
    uid, created = bench.put(a_job(on_deadline=rule)), bench.at
    bench.later(5_000)
    found = bench.state.assignments[bench.assign(uid, "eu", 2)]
    assert (found.deadline, found.fails_late) == (created + MINUTE, rule is FAIL)
    bench.later(5_000)
    put(bench, deadline=HOUR)
    bench.assign(uid, "eu", 2)
    assert bench.assignments(uid)[0].deadline == created + HOUR


def test_a_region_is_told_of_no_deadline_where_there_is_none() -> None:
    bench = a_world()
    uid = bench.put(a_job(deadline=0))
    found = bench.state.assignments[bench.assign(uid, "eu", 2)]
    assert (found.deadline, found.fails_late) == (0, False)


@pytest.mark.parametrize("fields", [{"batch": False}, {"deadline": 0, "on_deadline": FAIL}, {"deadline": -1}])
def test_a_deadline_of_a_service_and_a_failure_without_one_are_contradictions(fields: dict[str, Any]) -> None:
    a_world().refuse(Code.CONTRADICTORY, ACME, c.PutWorkload(a_job(**fields)))
