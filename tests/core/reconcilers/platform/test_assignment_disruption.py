"""How a workload's disruption budget is shared: one for each region that has replicas, and the rest by how many."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.region_reports import TemplateCounts, WorkloadReport
from holdfast.core.reconcilers.platform.assignment_candidates import CandidateRegion
from holdfast.core.reconcilers.platform.assignment_disruption import BudgetHolder, budget_holder, budget_shares, due
from holdfast.core.reconcilers.platform.assignment_split import SplitRegion
from tests.support.ledgers.region import an_assignment

A, B, C = BudgetHolder("a", 6, 0), BudgetHolder("b", 3, 0), BudgetHolder("c", 0, 0)
LEFT = BudgetHolder("l", 9, 0, left=True)


@pytest.mark.parametrize(
    ("holders", "most", "shares"),
    [
        ((A, B, C), 0, {"a": 0, "b": 0, "c": 0}),
        ((A, B, C), 1, {"a": 1, "b": 0, "c": 0}),  # too few for each: the larger one
        ((A, B, C), 2, {"a": 1, "b": 1, "c": 0}),  # just one for each that has replicas
        ((A, B, C), 5, {"a": 3, "b": 2, "c": 0}),  # and the rest by how many they have
        ((A, LEFT), 2, {"a": 1, "l": 1}),  # enough for each, also for who is left
        ((A, B, LEFT), 2, {"a": 1, "b": 1, "l": 0}),
        ((LEFT,), 1, {"l": 1}),
        ((C,), 5, {"c": 0}),
        ((), 5, {}),
        ((A, BudgetHolder("r", 1, 0, is_rolling=True)), 1, {"a": 0, "r": 1}),  # who has begun goes on
        ((A, BudgetHolder("h", 1, 1)), 1, {"a": 0, "h": 1}),  # who has it keeps it
        ((BudgetHolder("x", 3, 0), B), 1, {"x": 0, "b": 1}),  # of equals the first by name
    ],
)
def test_a_budget_is_shared_by_whoever_has_replicas(
    holders: tuple[BudgetHolder, ...], most: int, shares: dict[str, int]
) -> None:
    assert due(holders, most) == shares


def a_site(old: Assignment | None = None, heard: int = 0, counts: Mapping[str, int] = {}) -> CandidateRegion:
    """A region that was told of an assignment, has heard so far, and says how many it has of each template."""
    status: Any = SimpleNamespace(cursor=heard, health=RegionHealth.HEALTHY)
    region: Any = SimpleNamespace(meta=SimpleNamespace(name="a"), status=status)
    seen = WorkloadReport(
        1, 1, tuple(TemplateCounts(template, bound, bound, bound) for template, bound in counts.items())
    )
    return CandidateRegion(
        region, old, SplitRegion("a"), seen if counts else None, allowed=True, counts=True, left=False
    )


@pytest.mark.parametrize(("heard", "is_settled"), [(199, False), (200, True)])
def test_a_region_has_settled_on_what_it_was_told_once_it_acknowledged_just_that(heard: int, is_settled: bool) -> None:
    old = replace(an_assignment(uid=100), revision=200)
    assert budget_holder(a_site(old, heard), 3, "new").is_settled is is_settled


def test_a_region_that_was_told_nothing_yet_has_nothing_to_settle_on() -> None:
    assert budget_holder(a_site(), 3, "new") == BudgetHolder("a", 3, 0)


@pytest.mark.parametrize(
    ("counts", "is_rolling"),
    [({}, False), ({"new": 2}, False), ({"old": 2}, True), ({"new": 2, "old": 1}, True), ({"new": 2, "old": 0}, False)],
)
def test_a_region_that_has_any_of_another_template_is_rolling(counts: dict[str, int], is_rolling: bool) -> None:
    assert budget_holder(a_site(counts=counts), 3, "new").is_rolling is is_rolling


@pytest.mark.parametrize(
    ("holders", "most", "told", "waits"),
    [
        ((BudgetHolder("a", 6, 0), BudgetHolder("b", 3, 0)), 3, {"a": 2, "b": 1}, False),
        (
            (BudgetHolder("a", 6, 3), BudgetHolder("b", 3, 0)),
            3,
            {"a": 2, "b": 0},
            False,
        ),  # less at once; more when it is free
        ((BudgetHolder("a", 6, 2), BudgetHolder("b", 3, 0)), 3, {"a": 2, "b": 1}, False),
        ((BudgetHolder("a", 6, 2, is_settled=False), BudgetHolder("b", 3, 0)), 3, {"a": 2, "b": 0}, True),
        (
            (BudgetHolder("a", 6, 2, is_settled=False, is_heard=False), BudgetHolder("b", 3, 0)),
            3,
            {"a": 2, "b": 0},
            False,
        ),
        ((BudgetHolder("a", 6, 0), BudgetHolder("b", 3, 1, is_settled=False)), 3, {"a": 0, "b": 1}, True),
        (
            (BudgetHolder("a", 6, 9), BudgetHolder("b", 3, 0)),
            3,
            {"a": 2, "b": 0},
            False,
        ),  # more was given than there is
        ((BudgetHolder("a", 6, 2), BudgetHolder("b", 3, 1)), 3, {"a": 2, "b": 1}, False),
        # nobody is to have more: nobody is waited for
        ((BudgetHolder("a", 6, 2), BudgetHolder("b", 3, 1, is_settled=False)), 3, {"a": 2, "b": 1}, False),
        # more waits for each of the others
        (
            (BudgetHolder("a", 6, 0), BudgetHolder("b", 3, 1, is_settled=False), BudgetHolder("c", 3, 0)),
            3,
            {"a": 0, "b": 1, "c": 0},
            True,
        ),
        # what one is given the next has not
        (
            (BudgetHolder("a", 6, 0), BudgetHolder("b", 3, 0), BudgetHolder("c", 3, 2)),
            3,
            {"a": 1, "b": 0, "c": 1},
            False,
        ),
    ],
)
def test_a_share_is_lowered_at_once_and_raised_only_by_what_nobody_can_still_act_on(
    holders: tuple[BudgetHolder, ...], most: int, told: dict[str, int], waits: bool
) -> None:
    found = budget_shares(holders, most)
    assert found == (told, waits)
