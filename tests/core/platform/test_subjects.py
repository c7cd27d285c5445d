"""Whom an event of the platform concerns, and what an expectation is about, told from names alone."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.rules import Subject
from holdfast.core.ledger.commit.watch import breach
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.region_reports import RegionSummary, WorkloadReport
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as c
from holdfast.core.platform import events as e
from holdfast.core.platform.queries.accounts import percent_of
from holdfast.core.platform.subjects import of_rollback, of_validity
from holdfast.core.platform.watch import (
    ACCOUNT,
    OBSERVED,
    QUOTA,
    REGION,
    REGION_STATE,
    SUMMARY,
    TENANT,
    WATCH_KEYS,
    WORKLOAD,
    _breached,
)
from tests.support.ledgers.platform import a_principal, a_world

ESCROW, OTHER = "platform.escrow", "platform.right"


@pytest.mark.parametrize(
    ("kind", "concerned"),
    [
        ("Region", {(REGION, "x"), (REGION_STATE, "x")}),
        ("Quota", {(QUOTA, "x"), (TENANT, "x")}),
        ("Tenant", {(TENANT, "x")}),
    ],
)
def test_an_object_that_goes_concerns_itself_and_whom_it_is_for(kind: str, concerned: set[tuple[str, str]]) -> None:
    assert {*WATCH_KEYS[e.ObjectRemoved](e.ObjectRemoved(kind, "x"), 1)} == concerned


def test_a_report_concerns_a_region_s_summary_only_if_it_has_one() -> None:
    seen = (WorkloadReport(7, 1, ()),)
    for summary, more in ((None, ()), (RegionSummary(), ((SUMMARY, "eu"),))):
        assert WATCH_KEYS[e.RegionReported](e.RegionReported("eu", 1, seen, summary), 1) == ((OBSERVED, 7), *more)


def test_broken_escrow_concerns_an_account_and_everything_else_a_workload() -> None:
    assert _breached(ESCROW, "quota/acme|eu/cpu") == (breach(ESCROW, "quota/acme|eu/cpu"), (ACCOUNT, "quota/acme"))
    assert _breached(OTHER, "7") == (breach(OTHER, "7"), (WORKLOAD, 7))


def test_an_expectation_of_what_is_not_there_is_of_nothing() -> None:
    state = a_world().state
    assert of_validity(state, c.ActivatePolicy(7, "eu", "acme")) == Subject("validity/eu|acme", 0)
    assert of_rollback(state, c.RollBackPolicy(7, 0, "worse")) == Subject("SchedulerPolicy/7", 0)


def test_a_share_of_extended_resources_is_rounded_down_and_left_out_where_it_is_none() -> None:
    whole = Resources(1_000, 10, 0, 0, (("fpga", 5), ("licence", 1)))
    assert percent_of(whole, 50) == Resources(500, 5, 0, 0, (("fpga", 2),))


@pytest.mark.parametrize(
    ("kind", "scope", "code"),
    [
        ("Tenant", {"region": "eu"}, Code.WRONG_SCOPE),
        ("Tenant", {}, Code.NOT_FOUND),
        ("Region", {"region": "eu"}, Code.NOT_FOUND),
        ("NodePool", {"region": "eu"}, Code.NOT_FOUND),
        ("Region", {"tenant": "acme"}, Code.WRONG_SCOPE),
        ("Region", {"node": "n1"}, Code.WRONG_SCOPE),
    ],
)
def test_whoever_may_not_end_an_object_is_not_told_whether_it_is_there(
    kind: str, scope: dict[str, str], code: Code
) -> None:
    bench = a_world()
    bench.put(a_principal("person/narrow", *Permission, **scope))
    bench.refuse(code, "person/narrow", c.Delete(kind, "nobody"))
