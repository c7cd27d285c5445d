"""ReportStatus: a report is of a generation."""

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import ROOT, PlatformBench, a_workload, a_world

STATUS = "controller/status"


def progressing(message: str = "", status: ConditionStatus = ConditionStatus.TRUE) -> Condition:
    return Condition(type="Progressing", status=status, reason=ConditionReason.PROGRESSING, message=message, since=7)


def since(bench: PlatformBench, workload: int, type: str) -> int:
    return next(one.since for one in bench.state.workloads[workload].status.conditions if one.type == type)


def test_a_report_is_kept_with_the_generation_it_looked_at() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 3, 2, 1, (progressing(),)))
    status = bench.state.workloads[web].status
    assert (status.observed_generation, status.bound, status.ready, status.serving) == (1, 3, 2, 1)
    assert {one.type: one.since for one in status.conditions} == {"Fits": bench.at, "Progressing": bench.at}


def test_a_condition_holds_since_its_status_is_what_it_is() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 0, 0, 0, (progressing("1 of 3"),)))
    began = bench.at
    bench.later(10)
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0, (progressing("2 of 3"),)))
    assert since(bench, web, "Progressing") == began
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0, (progressing(status=ConditionStatus.FALSE),)))
    assert since(bench, web, "Progressing") == bench.at


def test_a_report_leaves_the_conditions_that_it_does_not_name() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.accept(STATUS, c.ReportStatus(web, 1, 0, 0, 0, (progressing(),)))
    before = bench.state.workloads[web].status.conditions
    bench.later(10)
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0))
    assert bench.state.workloads[web].status.conditions == before
    fits = Condition(
        type="Fits", status=ConditionStatus.FALSE, reason=ConditionReason.NEVER_FITS, observed_generation=1
    )
    bench.accept(STATUS, c.ReportStatus(web, 1, 1, 0, 0, (fits,)))
    assert bench.state.workloads[web].status.conditions == (replace(fits, since=bench.at), before[1])


def test_of_a_new_workload_it_is_not_known_whether_it_fits() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    (fits,) = bench.state.workloads[web].status.conditions
    assert (fits.type, fits.status, fits.reason) == ("Fits", ConditionStatus.UNKNOWN, ConditionReason.NOT_YET_KNOWN)
    assert (fits.message, fits.since, fits.observed_generation) == (
        "",
        bench.at,
        1,
    )
    bench.later(10)
    bench.put(a_workload(replicas=5))
    assert bench.state.workloads[web].status.conditions == (replace(fits, observed_generation=2),)


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
