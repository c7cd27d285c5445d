"""Reports are as large as one may be, and no larger: in workloads and in bytes."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.codec import encode
from holdfast.core.model.records.region_reports import Failing, WorkloadReport
from holdfast.core.platform.commands import Report
from holdfast.host.link.region.reports import SEEN_BYTES, SEEN_MAX, LinkWorkloadReport, reports


def told(*seen: WorkloadReport) -> list[tuple[WorkloadReport, ...]]:
    """What each report says."""
    words = list(reports("eu", 7, 9, [LinkWorkloadReport(one, ()) for one in seen]))
    found: list[tuple[WorkloadReport, ...]] = []
    for word in words:
        assert isinstance(word.command, Report)
        found.append(word.command.seen)
    return found


@pytest.mark.parametrize(
    ("count", "parts"), [(0, []), (SEEN_MAX, [SEEN_MAX]), (SEEN_MAX + 1, [SEEN_MAX, 1]), (2 * SEEN_MAX, [SEEN_MAX] * 2)]
)
def test_a_report_names_as_many_workloads_as_the_platform_takes(count: int, parts: list[int]) -> None:
    assert [len(part) for part in told(*(WorkloadReport(uid, 1) for uid in range(count)))] == parts


def test_a_report_is_as_large_as_one_may_be_and_each_workload_is_in_one() -> None:
    large = [WorkloadReport(uid, 1, failing=(Failing("exit", 1, "n1", "x" * 3_000),)) for uid in range(100)]
    parts = told(*large)
    assert [one for part in parts for one in part] == large
    sizes = [sum(len(encode(one)) for one in part) for part in parts]
    assert max(sizes) <= SEEN_BYTES
    assert all(size + len(encode(large[0])) > SEEN_BYTES for size in sizes[:-1])


def test_a_report_may_be_full_to_the_byte() -> None:
    def seen(uid: int, more: int) -> WorkloadReport:
        return WorkloadReport(uid, 1, failing=(Failing("exit", 1, "n1", "x" * (4_000 + more)),))

    rest = SEEN_BYTES // 32 - len(encode(seen(1, 0)))
    assert [len(part) for part in told(*(seen(uid, rest) for uid in range(33)))] == [32, 1]


def test_what_is_larger_than_a_report_may_be_has_one_of_its_own() -> None:
    huge = WorkloadReport(1, 1, failing=(Failing("exit", 1, "n1", "x" * (SEEN_BYTES + 1)),))
    assert told(WorkloadReport(0, 1), huge, WorkloadReport(2, 1)) == [
        (WorkloadReport(0, 1),),
        (huge,),
        (WorkloadReport(2, 1),),
    ]
