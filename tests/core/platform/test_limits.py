"""Limits of the platform at exactly their value, and one beyond."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.records.region_reports import (
    Failing,
    Nodes,
    RegionSummary,
    TemplateCounts,
    Trouble,
    Waiting,
    WorkloadReport,
)
from holdfast.core.model.values.limits import TEXT_MAX
from holdfast.core.model.values.resources import AMOUNT_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.limits import COUNTS_MAX, ISSUES_MAX, MESSAGE_MAX, NODES_MAX, PRIORITY_MAX, TOKEN_LIFE_MAX
from tests.support.ledgers.platform import (
    ROOT,
    T0,
    PlatformBench,
    a_class,
    a_pool,
    a_quota,
    a_region,
    a_tenant,
    a_token,
    a_workload,
    a_world,
    cpu,
)


@pytest.mark.parametrize(
    ("thing", "is_taken"),
    [
        (a_class("edge", PRIORITY_MAX), True),
        (a_class("edge", -PRIORITY_MAX), True),
        (a_class("edge", PRIORITY_MAX + 1), False),
        (a_class("edge", -PRIORITY_MAX - 1), False),
        (a_quota("acme", cpu(9_999), reclaimable=0), True),
        (a_quota("acme", cpu(10_000), reclaimable=100), True),
        (a_quota("acme", cpu(10_000), reclaimable=-1), False),
        (a_quota("acme", cpu(10_000), reclaimable=101), False),
        (a_quota("acme", cpu(10_000), cpu(10_000)), True),
        (a_quota("acme", cpu(10_000), cpu(10_001)), False),
        (a_tenant("edge", most=0, pending_max=0, submits_per_minute=0), True),
        (a_tenant("edge", most=-1), False),
        (a_tenant("edge", pending_max=-1), False),
        (a_tenant("edge", submits_per_minute=-1), False),
        (a_region("edge", eu=0), True),
        (a_region("edge", eu=-1), False),
        (a_pool("edge", minimum=0, maximum=0, cost=0), True),
        (a_pool("edge", minimum=7, maximum=7), True),
        (a_pool("edge", minimum=7, maximum=6), False),
        (a_pool("edge", minimum=-1), False),
        (a_pool("edge", cost=-1), False),
    ],
)
def test_an_object_is_taken_at_its_limit_and_refused_one_beyond(thing: Any, is_taken: bool) -> None:
    assert isinstance(a_world().send(ROOT, c.Put(thing)), Committed if is_taken else Refused)


@pytest.mark.parametrize(
    ("life", "is_taken"), [(0, False), (1, True), (TOKEN_LIFE_MAX, True), (TOKEN_LIFE_MAX + 1, False)]
)
def test_a_token_ends_after_now_and_within_its_greatest_life(life: int, is_taken: bool) -> None:
    bench = a_world()
    token = a_token("edge", expires=bench.at + life)
    assert isinstance(bench.send(ROOT, c.Put(token)), Committed if is_taken else Refused)


def a_placed_workload() -> tuple[PlatformBench, int]:
    bench = a_world()
    web = bench.put(a_workload())
    bench.assign(web, "eu", 3)
    return bench, web


def counted(number: int) -> tuple[TemplateCounts, ...]:
    return tuple(TemplateCounts(f"t{index}", 1, 1, 1) for index in range(number))


def said(number: int, length: int = 1) -> tuple[Waiting, ...]:
    return tuple(Waiting("capacity", 1, T0, "x" * length) for _ in range(number))


def failing(number: int, **fields: Any) -> tuple[Failing, ...]:
    return (replace(Failing("exit", 1, "n1", "x"), **fields),) * number


def noded(number: int) -> RegionSummary:
    return RegionSummary(nodes=(Nodes("small", (), (), (), (), 1, cpu(1), cpu(1), (cpu(1),), (cpu(1),)),) * number)


def troubled(number: int, length: int = 1) -> RegionSummary:
    return RegionSummary(troubles=(Trouble("silent", 1, T0, "x" * length),) * number)


REPORTS: dict[str, tuple[Any, Any]] = {
    "counts": ({"counts": counted(COUNTS_MAX)}, {"counts": counted(COUNTS_MAX + 1)}),
    "reasons": ({"waiting": said(COUNTS_MAX)}, {"waiting": said(COUNTS_MAX + 1)}),
    "failures": ({"failing": failing(COUNTS_MAX)}, {"failing": failing(COUNTS_MAX + 1)}),
    "how many are bound": (
        {"counts": (TemplateCounts("t", AMOUNT_MAX, 0, 0),)}, {"counts": (TemplateCounts("t", AMOUNT_MAX + 1, 0, 0),)},
    ),
    "fewer than none": ({"counts": (TemplateCounts("t", 0, 0, 0),)}, {"counts": (TemplateCounts("t", 0, -1, 0),)}),
    "a reason": ({"waiting": said(1, MESSAGE_MAX)}, {"waiting": said(1, MESSAGE_MAX + 1)}),
    "a code": ({"failing": failing(1, code="x" * TEXT_MAX)}, {"failing": failing(1, code="x" * (TEXT_MAX + 1))}),
    "a node": ({"failing": failing(1, node="x" * TEXT_MAX)}, {"failing": failing(1, node="x" * (TEXT_MAX + 1))}),
    "a detail": (
        {"failing": failing(1, detail="x" * MESSAGE_MAX)}, {"failing": failing(1, detail="x" * (MESSAGE_MAX + 1))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REPORTS)
def test_a_report_of_a_workload_is_taken_at_its_limit_and_refused_one_beyond(what: str) -> None:
    for fields, answer in zip(REPORTS[what], (Committed, Refused), strict=True):
        bench, web = a_placed_workload()
        report = c.Report("eu", 1, (WorkloadReport(**{"workload": web, "generation": 1, "counts": (), **fields}),))
        assert isinstance(bench.send("region/eu", report), answer)


@pytest.mark.parametrize(
    ("summary", "is_taken"),
    [
        (noded(NODES_MAX), True),
        (noded(NODES_MAX + 1), False),
        (troubled(ISSUES_MAX), True),
        (troubled(ISSUES_MAX + 1), False),
        (troubled(1, MESSAGE_MAX), True),
        (troubled(1, MESSAGE_MAX + 1), False),
    ],
    ids=["nodes", "nodes more", "troubles", "troubles more", "a trouble", "a longer trouble"],
)
def test_a_summary_is_taken_at_its_limit_and_refused_one_beyond(summary: RegionSummary, is_taken: bool) -> None:
    bench, _ = a_placed_workload()
    answer = bench.send("region/eu", c.Report("eu", 1, (), summary))
    assert isinstance(answer, Committed if is_taken else Refused)


@pytest.mark.parametrize(
    ("count", "length", "is_taken"),
    [(0, 1, False), (1, 1, True), (3, 1, True), (4, 1, False), (3, MESSAGE_MAX, True), (3, MESSAGE_MAX + 1, False)],
)
def test_between_one_and_all_replicas_are_offered_back_with_a_short_message(
    count: int, length: int, is_taken: bool
) -> None:
    bench, web = a_placed_workload()
    (assignment,) = bench.assignments(web)
    answer = bench.send("region/eu", c.OfferBack(assignment.uid, count, "x" * length))
    assert isinstance(answer, Committed if is_taken else Refused)
