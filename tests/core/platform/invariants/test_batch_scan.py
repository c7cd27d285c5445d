"""Each invariant of the platform finds what it is there to find near the batch that breaks it, as it does in full."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.state.ledger_state import KEY
from holdfast.core.model.objects.policies import PolicyStage
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from tests.core.platform.invariants.test_full_scan import CASES
from tests.support.ledgers.platform import a_full_platform, cpu
from tests.support.wrong_events import Wrong, found_both_ways, names, told


def change(state: PlatformState, table: str, key: Any, **fields: Any) -> None:
    state.table(table).put(key, replace(state.table(table)[key], **fields))


def lower_a_quota_and_owe_nothing(state: PlatformState) -> None:
    quota = state.quotas["acme"]
    state.quotas.put("acme", replace(quota, spec=replace(quota.spec, hard=cpu(1))))


def lend_recovery_where_there_is_none(state: PlatformState) -> None:
    budget = state.recovery_budgets["reserve"]
    state.recovery_budgets.put("reserve", replace(budget, spec=replace(budget.spec, regions=("us",))))


def end_a_workload_that_holds_rights(state: PlatformState) -> None:
    state.workloads.drop(state.rights.items()[0][0][0])


def lose_a_tenant(state: PlatformState) -> None:
    state.tenants.drop("acme")


def lose_a_tenant_and_one_that_had_nothing(state: PlatformState) -> None:
    assert "beta" not in state.workload_counts
    for name in ("acme", "beta"):
        state.tenants.drop(name)


def lose_a_region(state: PlatformState) -> None:
    state.regions.drop("eu")


def lose_a_template(state: PlatformState) -> None:
    state.templates.drop(state.templates.items()[0][0])


def withdraw_a_policy_that_is_valid(state: PlatformState) -> None:
    change(state, "policies", state.policies.items()[0][0], stage=PolicyStage.DRAFT)


def name_two_alike(state: PlatformState) -> None:
    (_, first), (uid, second), *_ = state.workloads.items()
    state.workloads.put(uid, replace(second, meta=replace(second.meta, name=first.meta.name)))


def serve_twice(state: PlatformState) -> None:
    uid, _ = next(row for row in state.assignments.items() if row[1].purpose is AssignmentPurpose.RECOVERY)
    change(state, "assignments", uid, purpose=AssignmentPurpose.SERVING, region="eu")


def come_under_another_law(state: PlatformState) -> None:
    region = state.regions["eu"]
    uid = state.assignments.items()[0][1].workload
    workload = state.workloads[uid]
    rules = replace(workload.spec.placement, jurisdictions=("US",))
    state.workloads.put(uid, replace(workload, spec=replace(workload.spec, placement=rules)))
    state.regions.put("eu", replace(region, spec=replace(region.spec, jurisdiction="CH")))


def retire_with_everything(state: PlatformState) -> None:
    region = state.regions["eu"]
    status = replace(region.status, health=RegionHealth.RETIRED, log_id="", session=0)
    state.regions.put("eu", replace(region, status=status))


def bury_a_log_that_speaks(state: PlatformState) -> None:
    state.tombstones.put(state.regions["eu"].status.log_id, "eu")


def lose_a_row_of(table: str) -> Wrong:
    def wrong(state: PlatformState) -> None:
        state.table(table).drop(state.table(table).items()[0][0])

    wrong.__name__ = f"lose_a_row_of_{table}"
    return wrong


def list_keys_out_of_order(state: PlatformState) -> None:
    actor, packed = next(row for row in state.idempotency_keys_by_actor.items() if len(row[1]) > KEY.size)
    state.idempotency_keys_by_actor.put(actor, packed[KEY.size :] + packed[: KEY.size])


DERIVED = [spec.name for spec in PlatformState.TABLES if spec.derived]

#: What full checks are shown to find, and what else can go wrong with rows that a batch did not write.
PLANTS: list[tuple[str, Wrong]] = [
    *CASES,
    ("platform.escrow", lower_a_quota_and_owe_nothing),
    ("platform.escrow", lend_recovery_where_there_is_none),
    ("platform.identity", end_a_workload_that_holds_rights),
    ("platform.identity", lose_a_region),
    ("platform.observed", lose_a_region),
    ("platform.references", lose_a_tenant),
    ("platform.references", lose_a_tenant_and_one_that_had_nothing),
    ("platform.references", lose_a_region),
    ("platform.references", lose_a_template),
    ("platform.policy", lose_a_region),
    ("platform.policy", withdraw_a_policy_that_is_valid),
    ("platform.one-each", name_two_alike),
    ("platform.one-each", serve_twice),
    ("platform.residency", come_under_another_law),
    ("platform.retired", retire_with_everything),
    ("platform.retired", bury_a_log_that_speaks),
    *(("platform.derived", lose_a_row_of(table)) for table in DERIVED),
    ("platform.derived", list_keys_out_of_order),
]


@pytest.mark.parametrize(("invariant", "wrong"), PLANTS, ids=[f"{name}:{w.__name__}" for name, w in PLANTS])
def test_what_is_wrong_is_found_near_its_batch_and_in_full(invariant: str, wrong: Wrong) -> None:
    near, full = found_both_ways(PLATFORM, a_full_platform().state, wrong)
    assert invariant in names(near)
    assert invariant in names(full)
    assert set(told(full)) <= set(names(near)), "what else is broken is found near, too"


def test_every_invariant_is_shown_to_find_something_near() -> None:
    assert {invariant for invariant, _ in PLANTS} == {invariant.id for invariant in PLATFORM.invariants}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found_both_ways(PLATFORM, a_full_platform().state, lambda _state: None) == ([], [])
