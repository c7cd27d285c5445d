"""ReportStatus: a report is of a generation."""

from holdfast.core.ledger.answers import Code
from holdfast.core.model.meta import Condition, Reason, Truth
from holdfast.core.platform import commands as c
from tests.support.platform import ROOT, a_workload, a_world

STATUS = "controller/status"


def progressing(message: str = "", status: Truth = Truth.TRUE) -> Condition:
    return Condition(type="Progressing", status=status, reason=Reason.PROGRESSING, message=message, since=7)


def test_a_report_is_kept_with_the_generation_it_looked_at() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 3, 2, 1, (progressing(),)))
    status = bench.state.workloads[web].status
    assert (status.observed_generation, status.bound, status.ready, status.serving) == (1, 3, 2, 1)
    assert status.conditions.conditions[0].since == bench.at


def test_a_condition_holds_since_its_status_is_what_it_is() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 0, 0, 0, (progressing("1 of 3"),)))
    began = bench.at
    bench.later(10)
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0, (progressing("2 of 3"),)))
    assert bench.state.workloads[web].status.conditions.conditions[0].since == began
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0, (progressing(status=Truth.FALSE),)))
    assert bench.state.workloads[web].status.conditions.conditions[0].since == bench.at
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0))
    assert bench.state.workloads[web].status.conditions.conditions == ()


def test_the_same_report_once_more_changes_nothing() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 3, 2, 1, (progressing(),)))
    bench.later(10)
    bench.refuse(Code.ALREADY, STATUS, c.ReportStatus(web, 1, 3, 2, 1, (progressing(),)))


def test_a_report_of_an_older_generation_is_stale() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.put(a_workload(replicas=5))
    bench.accept(STATUS, c.ReportStatus(web, 2, 3, 2, 1))
    bench.refuse(Code.STALE, STATUS, c.ReportStatus(web, 1, 3, 3, 3))


def test_a_report_of_a_generation_that_is_not_yet_is_malformed() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.refuse(Code.MALFORMED, STATUS, c.ReportStatus(web, 2, 0, 0, 0))


def test_a_report_counts_from_zero_and_names_each_condition_once() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.refuse(Code.MALFORMED, STATUS, c.ReportStatus(web, 1, -1, 0, 0))
    bench.refuse(Code.MALFORMED, STATUS, c.ReportStatus(web, 1, 0, 0, 0, (progressing(), progressing())))
    bench.refuse(Code.NOT_FOUND, STATUS, c.ReportStatus(99, 1, 0, 0, 0))
    bench.refuse(Code.NO_RIGHT, ROOT, c.ReportStatus(web, 1, 0, 0, 0))
