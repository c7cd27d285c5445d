"""Activate, EndAssignment, RemoveAssignment, Adopt."""

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, FAILOVER
from tests.support.ledgers.platform import ACME, PlatformBench, a_workload, a_world, an_exclusive

STANDBY: dict[str, Any] = {"purpose": AssignmentPurpose.RECOVERY, "stage": AssignmentStage.STANDBY}


def standing_by(disruption: int = 0) -> tuple[PlatformBench, int, int]:
    bench = a_world()
    web = bench.put(a_workload(budget="reserve"))
    bench.assign(web, "eu", 2, disruption=1)
    return bench, web, bench.assign(web, "us", 2, disruption=disruption, **STANDBY)


def recovered(disruption: int = 0) -> tuple[PlatformBench, int, int]:
    bench, web, uid = standing_by(disruption)
    bench.lose("eu")
    bench.accept(FAILOVER, c.Activate(uid))
    return bench, web, uid


def test_failover_runs_what_stood_by() -> None:
    bench, _, uid = recovered()
    found = bench.state.assignments[uid]
    assert (found.stage, found.purpose, found.accounts) == (
        AssignmentStage.ACTIVE,
        AssignmentPurpose.RECOVERY,
        ("recovery/reserve",),
    )


def test_failover_begins_once_a_region_is_lost_and_not_before() -> None:
    bench, _, uid = standing_by()
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.Activate(uid))
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.Activate(uid))
    bench.judge("eu", RegionHealth.LOST)
    bench.accept(FAILOVER, c.Activate(uid))


def test_a_suspect_survivor_may_recover_and_a_lost_one_may_not() -> None:
    bench, _, uid = standing_by()
    bench.lose("eu")
    bench.judge("us", RegionHealth.SUSPECT)
    other = bench.fork()
    bench.accept(FAILOVER, c.Activate(uid))
    other.judge("us", RegionHealth.LOST)
    other.refuse(Code.REGION_UNAVAILABLE, FAILOVER, c.Activate(uid))


def test_what_runs_is_not_activated_again_and_what_has_ended_never() -> None:
    bench, _, uid = recovered()
    bench.refuse(Code.ALREADY, FAILOVER, c.Activate(uid))
    bench.accept(FAILOVER, c.EndAssignment(uid))
    bench.refuse(Code.WRONG_PHASE, FAILOVER, c.Activate(uid))
    bench.refuse(Code.NOT_FOUND, FAILOVER, c.Activate(99))
    bench.refuse(Code.NO_RIGHT, ASSIGNMENT, c.Activate(uid))


def test_exclusive_work_is_activated_with_its_identities() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(budget="reserve", replicas=1))
    uid = bench.assign(db, "us", 1, **STANDBY)
    bench.lose("eu")
    bench.refuse(Code.CONTRADICTORY, FAILOVER, c.Activate(uid))
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
    bench.assign(db, "us", ordinals=(0,), **STANDBY)
    bench.accept(FAILOVER, c.Activate(uid))


def test_an_ended_assignment_wants_nothing_and_keeps_its_identities_until_they_are_released() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    uid = bench.hold(db, "eu", 0, 1)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    found = bench.state.assignments[uid]
    assert (found.stage, found.shares, found.ordinals) == (AssignmentStage.ENDED, (), ((0, 2),))
    assert len(bench.state.rights) == 2


def test_an_assignment_in_a_lost_region_can_be_ended() -> None:
    bench, web, _ = standing_by()
    bench.lose("eu")
    bench.accept(FAILOVER, c.EndAssignment(bench.assignments(web)[0].uid))


def test_what_has_ended_is_not_ended_again() -> None:
    bench, _, uid = standing_by()
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.refuse(Code.ALREADY, ASSIGNMENT, c.EndAssignment(uid))
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, c.EndAssignment(99))


def test_the_region_removes_what_it_has_released_and_its_identities_are_free() -> None:
    bench = a_world()
    db = bench.put(an_exclusive())
    uid = bench.hold(db, "eu", 0, 1)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.accept("region/eu", c.RemoveAssignment(uid))
    assert (len(bench.state.assignments), len(bench.state.rights)) == (0, 0)
    bench.accept(ASSIGNMENT, c.GrantRight(db, 0, "us"))


def test_only_its_own_region_removes_an_assignment_and_only_an_ended_one() -> None:
    bench, _, uid = standing_by()
    bench.refuse(Code.WRONG_PHASE, "region/us", c.RemoveAssignment(uid))
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.refuse(Code.NOT_OWNER, "region/eu", c.RemoveAssignment(uid))
    bench.accept("region/us", c.RemoveAssignment(uid))
    bench.refuse(Code.NOT_FOUND, "region/us", c.RemoveAssignment(uid))


def test_adoption_moves_recovered_work_to_the_quota() -> None:
    bench, _, uid = recovered()
    bench.accept(FAILOVER, c.Adopt(uid))
    found = bench.state.assignments[uid]
    assert (found.purpose, found.stage, found.accounts) == (
        AssignmentPurpose.SERVING,
        AssignmentStage.ACTIVE,
        ("quota/acme",),
    )
    bench.refuse(Code.ALREADY, FAILOVER, c.Adopt(uid))


def test_adopted_work_leaves_room_to_stand_by_again() -> None:
    bench, web, uid = recovered()
    bench.accept(FAILOVER, c.Adopt(uid))
    assert bench.assign(web, "us", 2, **STANDBY) != uid


def test_only_what_runs_is_adopted() -> None:
    bench, _, uid = standing_by()
    bench.refuse(Code.WRONG_PHASE, FAILOVER, c.Adopt(uid))
    bench.refuse(Code.NOT_FOUND, FAILOVER, c.Adopt(99))


def test_there_is_no_second_serving_assignment_by_adoption() -> None:
    bench, web, uid = recovered()
    serving = bench.assign(web, "us", 1)
    refused = bench.refuse(Code.EXISTS, FAILOVER, c.Adopt(uid))
    assert refused.facts["assignment"] == serving


def test_adoption_does_not_overdraw_the_disruption_budget() -> None:
    bench, _, uid = recovered(disruption=1)
    bench.refuse(Code.DISRUPTION, FAILOVER, c.Adopt(uid))


@pytest.mark.parametrize("command", [c.Activate, c.Adopt])
def test_a_workload_that_is_being_deleted_goes_no_further(command: type) -> None:
    bench, _, uid = recovered() if command is c.Adopt else standing_by()
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    bench.refuse(Code.WRONG_PHASE, FAILOVER, command(uid))
