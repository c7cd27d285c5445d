"""RULES 15: successors wait for predecessors; gangs are all or nothing; preemption compares static priority."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PreemptionReceipt, ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import Hold, OpenSlots, ShippedAssignment, SlotPlacement, Stop
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template


def a_full_node(after_ms: int = 60_000) -> tuple[RegionBench, int, Assignment]:
    """A node of 8 cpu with two serving replicas of 4 cpu, and a critical workload that wants in."""
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=8000)
    bench.a_grant()
    bench.a_grant("quota/other")
    victims = bench.a_workload(a_template(cpu=4000), count=2, disruption=1)
    bench.place(victims, SlotPlacement(0, node), SlotPlacement(1, node))
    for ordinal in (0, 1):
        bench.walk(Phase.SERVING, ordinal)
    bench.pass_time(after_ms)
    critical = bench.a_workload(a_template(cpu=3000), 2, uid=200, workload=2, priority_class="critical", tenant="other")
    return bench, node, critical


def test_victims_stop_and_the_successor_is_bound_in_one_commit() -> None:
    bench, node, critical = a_full_node()
    before = len(bench.log)
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    assert len(bench.log) == before + 1
    assert (bench.slot(0).phase, bench.slot(0).cause) == (Phase.TERMINATING, "preempted")
    assert bench.slot(0, 2).phase is Phase.BOUND
    assert bench.slot(0).successor == (2, 0)


def test_the_successor_starts_only_when_its_victim_is_gone() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    refused = bench.move("agent/n1", Phase.STARTING, "started", 0, 2)
    assert isinstance(refused, Refused)
    assert refused.code is Code.TOO_EARLY
    assert isinstance(bench.move("agent/n1", Phase.RELEASED, "stopped", 0), Committed)
    assert isinstance(bench.move("agent/n1", Phase.STARTING, "started", 0, 2), Committed)


def test_what_a_victim_leaves_over_is_free_only_once_it_is_gone() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    small = bench.a_workload(a_template(cpu=1000), count=1, uid=300, workload=3)
    assert bench.refuse_place(small, SlotPlacement(0, node)).code is Code.CAPACITY
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    bench.place(small, SlotPlacement(0, node))


def test_a_victims_port_is_free_only_once_it_is_gone() -> None:
    """Not for the rest of the same proposal, either."""
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=8000)
    bench.a_grant()
    victim = bench.a_workload(a_template(cpu=6000, ports=1), count=1)
    bench.place(victim, SlotPlacement(0, node, ports=(30_000,)))
    bench.pass_time()
    heirs = bench.a_workload(a_template(cpu=1000, ports=1), 2, uid=200, workload=2, priority_class="critical")
    first, second = (
        SlotPlacement(0, node, ports=(30_001,), waits_for=((1, 0),)),
        SlotPlacement(1, node, ports=(30_000,)),
    )
    assert bench.refuse_place(heirs, first, second, all_or_nothing=True).code is Code.PORT
    bench.place(heirs, first)
    assert bench.refuse_place(heirs, second).code is Code.PORT
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    bench.place(heirs, second)


def test_a_successor_may_take_a_device_that_nobody_has_used_yet() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=4000, gpus=("l4",) * 4)
    bench.a_grant()
    victim = bench.a_workload(a_template(cpu=4000, gpus=1), count=1)
    bench.place(victim, SlotPlacement(0, node, devices=(0,)))
    bench.pass_time()
    heirs = bench.a_workload(a_template(cpu=2000, gpus=2), 2, uid=200, workload=2, priority_class="critical")
    bench.place(heirs, SlotPlacement(0, node, devices=(0, 2), waits_for=((1, 0),)))
    assert [(d.firm, d.all) for d in bench.state.node_usage[node].devices] == [(1000, 1000), (0, 0), (1000, 1000)]
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    assert [(d.firm, d.all) for d in bench.state.node_usage[node].devices] == [(1000, 1000), (0, 0), (1000, 1000)]
    assert bench.refuse_place(heirs, SlotPlacement(1, node, devices=(1, 2))).code is Code.DEVICE
    bench.place(heirs, SlotPlacement(1, node, devices=(1, 3)))


def test_a_successor_never_gets_more_than_its_victims_leave_and_what_is_free() -> None:
    bench, node, _ = a_full_node()
    big = bench.a_workload(a_template(cpu=4001), count=1, uid=300, workload=3, priority_class="critical")
    assert bench.refuse_place(big, SlotPlacement(0, node, waits_for=((1, 0),))).code is Code.CAPACITY


def test_a_victim_has_one_heir() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    assert bench.refuse_place(critical, SlotPlacement(1, node, waits_for=((1, 0),))).code is Code.IN_USE


def test_a_victim_counts_again_when_its_successor_leaves_first() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    bench.move("agent/n1", Phase.RELEASED, "declined", 0, 2)
    assert bench.slot(0).successor is None
    assert bench.state.node_usage[node].all.cpu == 8000


def test_equal_priority_does_not_preempt_and_neither_does_a_class_that_may_not() -> None:
    bench, node, critical = a_full_node()
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    normal = bench.a_workload(a_template(cpu=100), count=1, uid=300, workload=3)
    assert bench.refuse_place(normal, SlotPlacement(0, node, waits_for=((1, 0),))).code is Code.PRIORITY
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    assert bench.refuse_place(critical, SlotPlacement(1, node, waits_for=((2, 0),))).code in (
        Code.PRIORITY,
        Code.WRONG_PHASE,
    )


def test_preemption_is_refused_when_the_disruption_share_is_spent() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    assert bench.refuse_place(critical, SlotPlacement(1, node, waits_for=((1, 1),))).code is Code.DISRUPTION


def test_a_replica_that_is_not_serving_costs_no_disruption_budget() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    bench.move("controller/endpoints", Phase.READY, "withdrawn", 1)
    bench.place(critical, SlotPlacement(1, node, waits_for=((1, 1),)))


def test_a_victim_that_has_just_begun_is_spared_and_reclaimable_work_is_not() -> None:
    bench, node, critical = a_full_node(after_ms=0)
    assert bench.refuse_place(critical, SlotPlacement(0, node, waits_for=((1, 0),))).code is Code.TOO_EARLY
    bench.pass_time(bench.state.info.settings.preempt_after)
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))


def test_a_region_preempts_no_more_in_a_minute_than_its_settings_allow() -> None:
    bench, node, critical = a_full_node()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, preempt_max=1)))
    for ordinal in (0, 1):
        bench.move("controller/endpoints", Phase.READY, "withdrawn", ordinal)
    first, second = (SlotPlacement(number, node, waits_for=((1, number),)) for number in (0, 1))
    bench.place(critical, first, second)
    assert [bench.slot(ordinal, 2).phase for ordinal in (0, 1)] == [Phase.BOUND, Phase.PENDING]
    assert bench.refuse_place(critical, second).code is Code.TOO_EARLY
    bench.pass_time(60_000)
    bench.place(critical, second)


def test_the_ordinal_of_a_victim_keeps_a_receipt_and_its_successor_names_it() -> None:
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    told = bench.slot(0).preempted
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    assert bench.slot(0).preempted == told == PreemptionReceipt((2, 0), "other", "w2", "priority", 100, 50, bench.at)
    bench.walk(Phase.RUNNING, 0, 2)
    assert bench.slot(0, 2).victims == ((1, 0),)


def test_a_proposal_whose_victim_has_changed_is_told_which_revision_to_wait_for() -> None:
    bench, node, critical = a_full_node()
    view = bench.slot(1, 2).revision
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    again = bench.proposal(critical, SlotPlacement(1, node, waits_for=((1, 0),)))
    refused = bench.refuse(SCHEDULER, again, view=view)
    assert (refused.code, refused.facts["catch_up_to"]) == (Code.STALE, bench.slot(0).revision)


def test_preemption_has_no_cycles_whatever_is_proposed() -> None:
    """Whoever was preempted is never placed after the one that took its place, in any order of proposals."""
    bench, node, critical = a_full_node()
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0)
    bench.pass_time(600_000)
    victims = bench.state.assignments[100]
    assert bench.refuse_place(victims, SlotPlacement(0, node, waits_for=((2, 0),))).code is Code.PRIORITY


def test_preemption_is_never_sent_without_its_successor() -> None:
    bench, _, _ = a_full_node()
    assert bench.refuse(SCHEDULER, Stop(((1, 0),), "preempted")).code is Code.CONTRADICTORY


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=2500)
    bench.a_grant()
    work = bench.a_workload(count=3)
    gang = [SlotPlacement(ordinal, node) for ordinal in range(3)]
    refused = bench.refuse_place(work, *gang, all_or_nothing=True)
    assert refused.code is Code.CAPACITY
    assert [bench.slot(ordinal).phase for ordinal in range(3)] == [Phase.PENDING] * 3
    bench.place(work, *gang)
    assert [bench.slot(ordinal).phase for ordinal in range(3)] == [Phase.BOUND, Phase.BOUND, Phase.PENDING]


def test_recovery_takes_back_borrowed_room_and_swaps_its_placeholder_for_a_binding() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=4000)
    bench.a_grant()
    bench.a_grant("recovery/critical", target=Resources(4000, 4096))
    standby = bench.a_workload(
        a_template(cpu=4000), 1, uid=200, workload=2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY,
        accounts=("recovery/critical",), priority_class="critical",
    )  # fmt: skip
    template = standby.shares[0].template
    ends = bench.at + 1_000_000
    hold = Hold(ReservationPurpose.PLACEHOLDER, node, "recovery/critical", ends, assignment=200, template=template)
    uid = bench.accept(SCHEDULER, hold).revision
    ordinary = bench.a_workload(a_template(cpu=1000), 4, uid=300, workload=3)
    assert bench.refuse_place(ordinary, SlotPlacement(0, node)).code is Code.CAPACITY
    borrower = bench.a_workload(a_template(cpu=1000), 4, uid=400, workload=4, priority_class="best-effort")
    bench.place(borrower, *(SlotPlacement(ordinal, node) for ordinal in range(4)))
    bench.walk(Phase.SERVING, 0, 4)
    active = replace(standby, stage=AssignmentStage.ACTIVE)
    bench.ship(ShippedAssignment(active))
    bench.accept(REPLICA, OpenSlots(200, template, (0,)))
    victims = tuple((4, ordinal) for ordinal in range(4))
    bench.place(active, SlotPlacement(0, node, waits_for=victims, hold=uid))
    assert {bench.slot(ordinal, 4).cause for ordinal in range(4)} == {"reclaimed"}
    assert uid not in bench.state.holds
    assert bench.state.account_usage["recovery/critical"].charged == Resources(4000, 1024)
