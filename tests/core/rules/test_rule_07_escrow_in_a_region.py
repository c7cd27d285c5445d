"""RULES 7, the region's side: it settles and charges from its own log, once per slot, and never above its target."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import AdoptSlots, RemovedObject, ShippedAssignment, SlotPlacement, Stop
from tests.support.ledgers.region import REPLICA, RegionBench, a_template


def a_region(cpu: int = 3000) -> tuple[RegionBench, int, Assignment]:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=32_000, memory=65_536)
    bench.a_grant(target=Resources(cpu, 10**6))
    return bench, node, bench.a_workload(count=9)


def test_a_region_settles_on_the_larger_of_target_and_charged() -> None:
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node), SlotPlacement(2, node))
    bench.a_grant(target=Resources(1000, 10**6), version=2)
    allowance = bench.state.accepted_grants["quota/acme"]
    assert (allowance.version, allowance.target.cpu, allowance.limit.cpu) == (2, 1000, 3000)


def test_nothing_is_added_while_above_target() -> None:
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node))
    bench.a_grant(target=Resources(1000, 10**6), version=2)
    assert bench.refuse_place(work, SlotPlacement(2, node)).code is Code.OVER_GRANT
    bench.accept(REPLICA, Stop(((1, 0),), "scaled-down"))
    bench.move("agent/n1", Phase.RELEASED, "stopped")
    assert bench.refuse_place(work, SlotPlacement(2, node)).code is Code.OVER_GRANT


def test_an_older_version_that_arrives_late_changes_nothing() -> None:
    bench, _, _ = a_region()
    bench.a_grant(target=Resources(2000, 10**6), version=3)
    bench.a_grant(target=Resources(9000, 10**6), version=2)
    assert bench.state.accepted_grants["quota/acme"].target.cpu == 2000


def test_a_slot_is_charged_once_however_often_it_is_placed() -> None:
    bench, node, work = a_region(cpu=1000)
    for _ in range(3):
        bench.place(work, SlotPlacement(0, node))
        assert bench.state.account_usage["quota/acme"].charged.cpu == 1000
        bench.move("agent/n1", Phase.RELEASED, "declined")
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.OVER_GRANT


def test_what_waits_for_quota_is_not_charged() -> None:
    bench, node, work = a_region(cpu=1000)
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node))
    assert bench.slot(1).account == ""
    assert bench.state.account_usage["quota/acme"].charged.cpu == 1000


def test_after_a_grants_end_no_new_slot_is_admitted_but_a_charged_one_is_placed_again() -> None:
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node))
    bench.at += 86_400_000
    bench.move("agent/n1", Phase.RELEASED, "declined")
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.GRANT_ENDED
    bench.place(work, SlotPlacement(0, node))


def test_a_grant_that_is_gone_keeps_what_is_charged_and_admits_nothing() -> None:
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node))
    bench.ship(gone=(RemovedObject("grant", "quota/acme"),))
    assert bench.state.accepted_grants["quota/acme"].limit.cpu == 1000
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.GRANT_ENDED


def test_a_grant_that_was_gone_and_is_lent_anew_is_taken_though_its_version_was_here_before() -> None:
    """A restored platform knows nothing of it and counts from 1 again. Were its offer dropped, nobody could settle it:
    the region would hold less than the target of that version."""
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node))
    bench.ship(gone=(RemovedObject("grant", "quota/acme"),))
    bench.a_grant(target=Resources(2000, 10**6), version=1)
    assert bench.state.accepted_grants["quota/acme"].target.cpu == 2000
    bench.place(work, SlotPlacement(1, node))


def test_recovery_is_charged_to_its_budget_only_until_it_is_adopted() -> None:
    bench, node, _ = a_region(cpu=1000)
    bench.a_grant("recovery/critical", target=Resources(4000, 10**6))
    accounts = ("recovery/critical",)
    work = bench.a_workload(count=2, uid=200, workload=2, purpose=AssignmentPurpose.RECOVERY, accounts=accounts)
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node))
    assert bench.state.account_usage["recovery/critical"].charged.cpu == 2000
    bench.ship(ShippedAssignment(replace(work, purpose=AssignmentPurpose.SERVING, accounts=("quota/acme",))))
    assert bench.refuse(REPLICA, AdoptSlots(200, (0, 1))).code is Code.OVER_GRANT
    bench.accept(REPLICA, AdoptSlots(200, (0,)))
    assert bench.state.account_usage["recovery/critical"].charged.cpu == 1000
    assert bench.state.account_usage["quota/acme"].charged.cpu == 1000


def test_emergency_quota_pays_when_the_quota_is_spent() -> None:
    bench, node, _ = a_region(cpu=1000)
    bench.a_grant("emergency/7", target=Resources(1000, 10**6))
    work = bench.a_workload(count=3, uid=200, workload=2, accounts=("quota/acme", "emergency/7"))
    bench.place(work, *(SlotPlacement(ordinal, node) for ordinal in range(3)))
    assert [bench.slot(ordinal, 2).account for ordinal in range(3)] == ["quota/acme", "emergency/7", ""]


def test_protected_capacity_is_kept_for_its_tenant_and_reclaimable_work_may_use_it() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=4000)
    bench.a_grant("quota/acme")
    bench.a_grant("quota/other", protected=Resources(3000))
    mine = bench.a_workload(count=9)
    bench.place(mine, SlotPlacement(0, node))
    assert bench.refuse_place(mine, SlotPlacement(1, node)).code is Code.PROTECTED
    spare = bench.a_workload(count=3, uid=300, workload=3, priority_class="best-effort")
    bench.place(spare, SlotPlacement(0, node))
    theirs = bench.a_workload(a_template(cpu=1000), count=3, uid=200, workload=2, tenant="other")
    bench.place(theirs, SlotPlacement(0, node), SlotPlacement(1, node))
