"""Assign: how much of a workload a region has."""

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.resources import ZERO
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER
from tests.support.ledgers.platform import (
    ACME,
    HOUR,
    ROOT,
    PlatformBench,
    a_budget,
    a_template,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)

RECOVERY: dict[str, Any] = {"purpose": AssignmentPurpose.RECOVERY, "stage": AssignmentStage.STANDBY}


def with_web(**fields: Any) -> tuple[PlatformBench, int]:
    bench = a_world()
    return bench, bench.put(a_workload(**fields))


def test_an_assignment_carries_all_that_a_region_must_know() -> None:
    bench, web = with_web(jurisdictions=("EU",), disruption_max=2)
    uid = bench.assign(web, "eu", 3, disruption=2)
    found = bench.state.assignments[uid]
    assert (found.workload, found.workload_name, found.tenant, found.generation) == (web, "web", "acme", 1)
    assert found.shares == (Share(template_digest(a_template()), 3),)
    assert (found.accounts, found.priority_class, found.jurisdictions) == (("quota/acme",), "normal", ("EU",))
    assert (found.disruption, found.exclusive, found.batch, found.right_until) == (2, False, False, 0)


def test_there_is_one_assignment_for_each_workload_region_and_purpose() -> None:
    bench, web = with_web(budget="reserve")
    first = bench.assign(web, "eu", 3)
    assert bench.assign(web, "eu", 5) == first
    assert bench.assign(web, "us", 5) != first
    assert bench.assign(web, "eu", 1, **RECOVERY) != first
    assert len(bench.assignments(web)) == 3


def test_the_same_once_more_changes_nothing() -> None:
    bench, web = with_web()
    bench.assign(web, "eu", 3)
    bench.refuse(Code.ALREADY, ASSIGNMENT, bench.assignment(web, "eu", 3))


def test_a_new_generation_is_worth_telling_the_region() -> None:
    bench, web = with_web()
    uid = bench.assign(web, "eu", 3)
    bench.put(a_workload(replicas=9))
    bench.assign(web, "eu", 3)
    assert bench.state.assignments[uid].generation == 2


def test_shares_are_kept_in_order_and_without_zeros() -> None:
    bench, web = with_web()
    old = template_digest(a_template())
    bench.put(a_workload(template=a_template(command="v2")))
    new = template_digest(a_template(command="v2"))
    both = (Share(max(old, new), 1), Share(min(old, new), 2))
    uid = bench.assign(web, shares=both)
    assert bench.state.assignments[uid].shares == both[::-1]
    bench.assign(web, shares=(Share(old, 0), Share(new, 3)))
    assert bench.state.assignments[uid].shares == (Share(new, 3),)


def test_an_older_template_of_the_workload_can_be_assigned_again() -> None:
    bench, web = with_web()
    old = template_digest(a_template())
    bench.put(a_workload(template=a_template(command="v2")))
    bench.assign(web, "eu", 3)
    bench.assign(web, shares=(Share(old, 3),))


@pytest.mark.parametrize("sender", ["controller/assignment", "controller/rollout", "controller/failover"])
def test_three_controllers_assign(sender: str) -> None:
    bench, web = with_web()
    bench.accept(sender, bench.assignment(web, "eu", 1))


def test_nobody_else_assigns() -> None:
    bench, web = with_web()
    for sender in (ROOT, ACME, "region/eu", "controller/grant"):
        bench.refuse(Code.NO_RIGHT, sender, bench.assignment(web, "eu", 1))


def test_what_is_not_there_cannot_be_assigned() -> None:
    bench, web = with_web()
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, c.Assign(99, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, ()))
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, bench.assignment(web, "ap", 1))
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, bench.assignment(web, shares=(Share("00", 1),)))


def test_a_template_of_another_tenant_is_not_found() -> None:
    bench, web = with_web()
    bench.put(a_workload("api", "beta", template=a_template(command="other")))
    foreign = (Share(template_digest(a_template(command="other")), 1),)
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, bench.assignment(web, shares=foreign))


DIGEST = template_digest(a_template())
MALFORMED: list[dict[str, Any]] = [
    {"shares": (Share(DIGEST, -1),)},
    {"shares": (Share(DIGEST, 1), Share(DIGEST, 2))},
    {"shares": (Share(DIGEST, 100_001),)},
    {"disruption": -1},
    {"stage": AssignmentStage.ENDED},
]


@pytest.mark.parametrize("fields", MALFORMED, ids=str)
def test_counts_and_stages_are_what_they_should_be(fields: dict[str, Any]) -> None:
    bench, web = with_web()
    bench.refuse(Code.MALFORMED, ASSIGNMENT, bench.assignment(web, "eu", **fields))


def test_a_workload_that_is_being_deleted_is_not_assigned() -> None:
    bench, web = with_web()
    bench.assign(web, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    bench.refuse(Code.WRONG_PHASE, ASSIGNMENT, bench.assignment(web, "us", 1))


def test_an_ended_assignment_is_released_before_there_is_another() -> None:
    bench, web = with_web()
    uid = bench.assign(web, "eu", 1)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.refuse(Code.WRONG_PHASE, ASSIGNMENT, bench.assignment(web, "eu", 1))
    bench.accept("region/eu", c.RemoveAssignment(uid))
    assert bench.assign(web, "eu", 1) > uid


@pytest.mark.parametrize("health", [RegionHealth.SUSPECT, RegionHealth.LOST])
def test_nothing_new_or_more_goes_to_a_region_that_is_not_heard(health: RegionHealth) -> None:
    bench, web = with_web()
    bench.assign(web, "eu", 2)
    bench.judge("eu", *((RegionHealth.SUSPECT, RegionHealth.LOST)[: 1 + (health is RegionHealth.LOST)]))
    refused = bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(web, "eu", 3))
    assert refused.facts["health"] == health.value
    bench.assign(web, "eu", 1)
    other = bench.put(a_workload("api"))
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(other, "eu", 1))


def test_no_identity_is_added_in_a_region_that_is_not_heard() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    bench.accept(ASSIGNMENT, c.GrantRight(db, 1, "eu"))
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(db, "eu", 1, ordinals=(0, 1)))


def test_a_region_can_always_be_asked_for_rights_that_it_was_never_told_of() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "eu"))
    bench.put(an_exclusive(regions=("us",)))
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0,)))
    uid = bench.assign(db, "eu")
    assert bench.state.assignments[uid].returning == ((0, 1),)
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(bench.put(a_workload()), "eu"))


def test_a_retired_region_gets_nothing() -> None:
    bench, web = with_web()
    bench.retire("eu")
    bench.refuse(Code.REGION_UNAVAILABLE, ASSIGNMENT, bench.assignment(web, "eu", 1))


def test_residency_and_placement_hold_at_commit_whatever_the_controller_saw() -> None:
    bench, web = with_web(jurisdictions=("EU",))
    bench.refuse(Code.RESIDENCY, ASSIGNMENT, bench.assignment(web, "us", 1))
    named = bench.put(a_workload("api", regions=("us",)))
    bench.refuse(Code.RESIDENCY, ASSIGNMENT, bench.assignment(named, "us2", 1))
    bench.assign(named, "us", 1)


def test_shares_of_the_disruption_budget_add_up_to_the_budget() -> None:
    bench, web = with_web(disruption_max=3)
    bench.assign(web, "eu", 3, disruption=2)
    refused = bench.refuse(Code.DISRUPTION, ASSIGNMENT, bench.assignment(web, "us", 3, disruption=2))
    assert (refused.facts["shared"], refused.facts["most"]) == (4, 3)
    bench.assign(web, "us", 3, disruption=1)
    bench.assign(web, "eu", 3, disruption=1)
    bench.assign(web, "us", 3, disruption=2)


def test_an_ended_assignment_gives_its_share_of_the_disruption_budget_back() -> None:
    bench, web = with_web(disruption_max=1)
    uid = bench.assign(web, "eu", 3, disruption=1)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.assign(web, "us", 3, disruption=1)


def test_recovery_is_paid_by_its_budget_alone() -> None:
    bench, web = with_web(budget="reserve")
    bench.emergency(1_000)
    uid = bench.assign(web, "us", 2, **RECOVERY)
    assert bench.state.assignments[uid].accounts == ("recovery/reserve",)


def test_recovery_needs_a_budget_with_room_in_that_region_for_that_tenant() -> None:
    bench, web = with_web()
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(web, "us", 1, **RECOVERY))
    bench.put(a_workload(budget="reserve"))
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(web, "us2", 1, **RECOVERY))
    bench.put(a_budget("reserve", ("eu", "us"), cpu(4_000), "beta"))
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(web, "us", 1, **RECOVERY))


def test_only_recovery_stands_by() -> None:
    bench, web = with_web()
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(web, "eu", 1, stage=AssignmentStage.STANDBY))


def test_recovery_runs_only_once_a_region_is_lost() -> None:
    bench, web = with_web(budget="reserve")
    running = {"purpose": AssignmentPurpose.RECOVERY}
    bench.refuse(Code.TOO_EARLY, FAILOVER, bench.assignment(web, "us", 1, **running))
    bench.assign(web, "us", 1, **RECOVERY)
    bench.refuse(Code.TOO_EARLY, FAILOVER, bench.assignment(web, "us", 1, **running))
    bench.lose("eu")
    bench.assign(web, "us", 1, **running)
    bench.refuse(Code.WRONG_PHASE, FAILOVER, bench.assignment(web, "us", 1, **RECOVERY))


def test_recovery_that_runs_is_adjusted_after_the_lost_region_is_back() -> None:
    bench, web = with_web(budget="reserve")
    bench.lose("eu")
    bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY)
    bench.retire("eu")
    bench.assign(web, "us", 1, purpose=AssignmentPurpose.RECOVERY)


def test_open_emergencies_of_the_tenant_pay_after_its_quota_in_the_order_of_their_uids() -> None:
    bench, web = with_web()
    first, second = bench.emergency(1_000), bench.emergency(1_000, region="eu")
    bench.emergency(1_000, tenant="beta")
    bench.emergency(1_000, region="us")
    bench.emergency(1_000, life=1)
    bench.later(1)
    uid = bench.assign(web, "eu", 1)
    expected = ("quota/acme", f"emergency/{first}", f"emergency/{second}")
    assert bench.state.assignments[uid].accounts == expected
    bench.later(HOUR)
    bench.assign(web, "eu", 1)
    assert bench.state.assignments[uid].accounts == ("quota/acme",)


def test_ordinals_are_for_exclusive_work() -> None:
    bench, web = with_web()
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(web, "eu", 1, ordinals=(0,)))


def test_exclusive_work_runs_as_many_as_it_has_identities() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "eu"))
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(db, "eu", 1))
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(db, "eu", 2, ordinals=(0,)))
    bench.assign(db, "eu", 1, ordinals=(0,))


def test_ordinals_are_named_once_and_exist() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(replicas=2))
    for ordinals in ((0, 0), (2,), (-1,)):
        bench.refuse(Code.MALFORMED, ASSIGNMENT, bench.assignment(db, "eu", ordinals=ordinals))


def test_an_identity_is_assigned_only_where_its_right_is_held() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    refused = bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0,)))
    assert refused.facts == {"ordinal": 0, "holder": ""}
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "us"))
    refused = bench.refuse(Code.RIGHT_HELD, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0,)))
    assert refused.facts == {"ordinal": 0, "holder": "us"}


def test_an_identity_is_in_one_assignment_of_its_region() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(budget="reserve"))
    bench.hold(db, "eu", 0)
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0,), **RECOVERY))


def test_standing_by_for_exclusive_work_needs_no_identity() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(budget="reserve"))
    bench.hold(db, "eu", 0)
    uid = bench.assign(db, "us", 1, **RECOVERY)
    assert bench.state.assignments[uid].ordinals == ()


def test_a_lease_runs_from_the_assignment_and_is_renewed_by_assigning_the_same_at_half_time() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    uid = bench.hold(db, "eu", 0)
    lease = bench.state.info.settings.right_lease
    assert bench.state.assignments[uid].right_until == bench.at + lease
    bench.later(lease // 2 - 1)
    bench.refuse(Code.ALREADY, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0,)))
    bench.later(1)
    bench.assign(db, "eu", ordinals=(0,))
    assert bench.state.assignments[uid].right_until == bench.at + lease


def test_a_lease_is_not_renewed_while_its_region_is_not_heard() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    uid = bench.hold(db, "eu", 0, 1)
    until = bench.state.assignments[uid].right_until
    bench.later(50_000)
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.refuse(Code.ALREADY, ASSIGNMENT, bench.assignment(db, "eu", ordinals=(0, 1)))
    bench.assign(db, "eu", ordinals=(0,))
    assert bench.state.assignments[uid].right_until == until


def test_nothing_is_charged_by_assigning() -> None:
    bench, web = with_web()
    bench.assign(web, "eu", 3)
    assert bench.charged() == ZERO
