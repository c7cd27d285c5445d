"""What sleeps is woken by what can cure it, and by nothing else: nothing here waits for the resync."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.workloads import Apart, Near, Spread, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling import cycle, selection
from holdfast.core.scheduling.cycle import RESTED_MAX, RESYNC_MS
from holdfast.core.scheduling.queue import unblocker
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from holdfast.core.scheduling.view import SchedulerView
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, placed_on


def end(bench: RegionBench, node: str, ordinal: int = 0, workload: int = 1) -> None:
    """A slot leaves its node, and is not wanted any more."""
    slot = bench.slot(ordinal, workload)
    bench.accept(REPLICA, c.WithdrawSlots(slot.assignment, (ordinal,)))
    answer = bench.move(f"agent/{node}", Phase.RELEASED, "declined", ordinal, workload)
    assert bench.state.slots.get((workload, ordinal)) is None, answer


def rest(follower: Follower, why: BlockReason, assignment: int = 100) -> None:
    follower.work()
    asleep = follower.asleep(assignment)
    assert asleep is not None
    assert asleep.why is why


def a_full_node(bench: RegionBench, name: str, **fields: Any) -> int:
    """A node that somebody else has filled."""
    node = bench.a_node(name, cpu=1000, **fields)
    work = bench.a_workload(a_template(cpu=1000), count=1, uid=900, workload=900)
    bench.place(work, c.SlotPlacement(0, node))
    return node


# Nodes


def test_a_node_that_comes_wakes_what_it_would_take() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    rest(follower, BlockReason.NODES)
    bench.a_node("small", cpu=1000)
    follower.catch_up()
    assert follower.asleep() is not None
    bench.a_node("large", cpu=2000)
    assert follower.work() == 1
    assert placed_on(bench) == {(1, 0): "large"}


def test_the_first_node_of_a_region_wakes_what_it_would_take() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(a_template(cpu=2000), count=1)
    rest(follower, BlockReason.NODES)
    bench.a_node("small", cpu=1000)
    rest(follower, BlockReason.NODES)
    bench.a_node("large", cpu=2000)
    assert follower.work() == 1
    assert placed_on(bench) == {(1, 0): "large"}


def test_room_that_becomes_free_wakes_only_whom_it_is_enough_for() -> None:
    bench, follower = a_region(nodes=1, cpu=3000)
    bench.a_workload(a_template(cpu=1000), count=3)
    follower.work()
    bench.a_workload(a_template(cpu=2000), count=1, uid=101, workload=2)
    bench.a_workload(a_template(cpu=900), count=1, uid=102, workload=3)
    rest(follower, BlockReason.NODES, 101)
    rest(follower, BlockReason.NODES, 102)
    end(bench, "n1", ordinal=0)
    follower.catch_up()
    assert follower.asleep(101) is not None
    assert follower.asleep(102) is None


def test_a_port_that_becomes_free_wakes_who_waits_for_one_though_no_amount_does() -> None:
    bench, follower = a_region(nodes=1, ports=(30_000, 30_000))
    nothing_but_a_port = Template(command=("run",), ports=1)
    bench.a_workload(nothing_but_a_port, count=2)
    rest(follower, BlockReason.NODES)
    end(bench, "n1")
    follower.work()
    assert placed_on(bench) == {(1, 1): "n1"}


def test_a_device_that_becomes_free_wakes_who_waits_for_one_though_as_many_are_taken_as_before() -> None:
    bench, follower = a_region(nodes=1, gpus=("h100", "t4"))
    node = bench.state.node_names["n1"]
    bench.a_workload(a_template(gpus=1, gpu_models=("h100",)), count=1)
    follower.work()
    bench.a_workload(a_template(gpus=1, gpu_models=("h100",), cpu=900), count=1, uid=101, workload=2)
    rest(follower, BlockReason.NODES, 101)
    other = bench.a_workload(a_template(gpus=1, gpu_models=("t4",)), count=1, uid=102, workload=3)
    end(bench, "n1")
    bench.place(other, c.SlotPlacement(0, node, (1,)))
    follower.catch_up_at_once()
    assert follower.asleep(101) is None
    follower.work()
    assert placed_on(bench) == {(2, 0): "n1", (3, 0): "n1"}


def test_a_part_of_a_device_that_becomes_free_wakes_who_waits_for_it_though_as_much_of_all_is_taken() -> None:
    bench, follower = a_region(nodes=1, gpus=("h100", "h100"))
    node = bench.state.node_names["n1"]
    firm = bench.a_workload(a_template(gpus=2, gpu_milli=500), count=1)
    bench.place(firm, c.SlotPlacement(0, node, (0, 1)))
    bench.a_workload(a_template(gpus=1, gpu_milli=600), count=1, uid=101, workload=2)
    rest(follower, BlockReason.NODES, 101)
    others = bench.a_workload(a_template(gpus=1, gpu_milli=1000), count=1, uid=102, workload=3)
    end(bench, "n1")
    bench.place(others, c.SlotPlacement(0, node, (1,)))
    follower.catch_up_at_once()
    assert follower.asleep(101) is None


def test_a_cordon_that_ends_wakes_who_waits_for_the_node() -> None:
    bench, follower = a_region(nodes=1)
    node = bench.state.node_names["n1"]
    bench.accept(ROOT, c.AdministerNode(node, cordoned=True, note="look at its disk"))
    bench.a_workload(count=1)
    rest(follower, BlockReason.NODES)
    bench.accept(ROOT, c.AdministerNode(node))
    assert follower.work() == 1


def test_room_that_is_held_no_more_wakes_firm_work() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    node = bench.state.node_names["n1"]
    held = c.Hold(ReservationPurpose.DATED, node, "quota/acme", bench.at + 10_000, Resources(500), tenant="acme")
    hold = bench.accept(ROOT, held).revision
    bench.a_workload(a_template(cpu=600), count=1)
    rest(follower, BlockReason.NODES)
    bench.accept(ROOT, c.DropHold(hold))
    assert follower.work() == 1


def test_a_zone_that_is_avoided_no_more_wakes_who_waits_for_it_at_that_time() -> None:
    bench, follower = a_region(nodes=1, zone="a")
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "fire", bench.at + 7_000))
    bench.a_workload(count=1)
    rest(follower, BlockReason.NODES)
    bench.at += 6_999
    assert follower.work() == 0
    bench.at += 1
    assert follower.work() == 1


def test_a_member_that_leaves_a_domain_wakes_who_is_kept_apart_from_it() -> None:
    """The node that it leaves has no room all the same: another one of the zone has."""
    bench, follower = a_region(nodes=0)
    bench.a_node("full", cpu=1500, zone="a")
    apart = (Apart("db", "zone"),)
    bench.a_workload(a_template(cpu=1000, apart=apart, require=()), count=1)
    follower.work()
    bench.a_workload(a_template(cpu=400), count=1, uid=102, workload=3)
    follower.work()
    bench.a_node("free", cpu=2000, zone="a")
    bench.a_workload(a_template(cpu=1600, apart=apart), count=1, uid=101, workload=2)
    rest(follower, BlockReason.NODES, 101)
    end(bench, "full")
    follower.work()
    assert placed_on(bench)[2, 0] == "free"


def test_a_zone_that_is_left_wakes_who_was_kept_even_with_it() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", zone="a")
    lonely = a_full_node(bench, "b1", zone="b")
    bench.a_workload(a_template(spread=(Spread("zone", 1),)), count=2)
    rest(follower, BlockReason.NODES)
    assert len(placed_on(bench)) == 2
    bench.accept(ROOT, c.AdministerNode(lonely, cordoned=True, note="to be removed"))
    follower.work()
    assert len(placed_on(bench)) == 3


def test_a_zone_whose_last_node_that_was_for_it_is_not_any_more_wakes_who_was_kept_even_with_it() -> None:
    ssd = (("disk", "ssd"),)
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", zone="a", labels=ssd)
    lonely = a_full_node(bench, "b1", zone="b", labels=ssd)
    bench.a_node("b2", zone="b")
    bench.a_workload(a_template(spread=(Spread("zone", 1),), require=ssd), count=3)
    rest(follower, BlockReason.NODES)
    assert len(placed_on(bench)) == 2
    bench.accept(ROOT, c.AdministerNode(lonely, labels=(("disk", "hdd"),)))
    follower.work()
    assert len(placed_on(bench)) == 4


def test_a_zone_whose_last_node_that_was_large_enough_shrinks_wakes_who_was_kept_even_with_it() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", zone="a")
    a_full_node(bench, "b1", zone="b")
    bench.a_workload(a_template(spread=(Spread("zone", 1),)), count=2)
    rest(follower, BlockReason.NODES)
    assert len(placed_on(bench)) == 2
    bench.a_node("b1", cpu=900, zone="b")
    follower.work()
    assert len(placed_on(bench)) == 3


def test_a_zone_that_is_avoided_from_now_on_wakes_who_was_kept_even_with_it() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", zone="a")
    a_full_node(bench, "b1", zone="b")
    bench.a_workload(a_template(spread=(Spread("zone", 1),)), count=3)
    rest(follower, BlockReason.NODES)
    assert len(placed_on(bench)) == 2
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "b", "fire", bench.at + 60_000))
    follower.work()
    assert len(placed_on(bench)) == 4


# Near

CLOSE = a_template(cpu=2000, near=(Near("db", "zone", required=True),))
ON_ITS_NODE = a_template(cpu=2000, near=(Near("db", "node", required=True),))
#: A member that is near nobody itself.
DB = a_template(cpu=1000, apart=(Apart("db", "node", 9),))


def a_member(bench: RegionBench, node: int, ordinal: int = 0) -> None:
    """Somebody else places a member of the group."""
    if 90 not in bench.state.assignments:
        bench.a_workload(DB, count=9, ordinals=0, uid=90, workload=90)
    work = bench.state.assignments[90]
    bench.accept(REPLICA, c.OpenSlots(90, work.shares[0].template, (ordinal,)))
    bench.place(work, c.SlotPlacement(ordinal, node))


def test_a_member_that_arrives_wakes_who_must_be_near_it() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", cpu=1500, zone="a")
    there = bench.a_node("b1", cpu=4000, zone="b")
    a_member(bench, bench.state.node_names["a1"])
    bench.a_workload(CLOSE, count=1)
    rest(follower, BlockReason.NODES)
    assert Code.NEAR in follower.codes()
    a_member(bench, there, ordinal=1)
    assert follower.work() == 1
    assert placed_on(bench)[1, 0] == "b1"


def test_a_member_that_moves_to_a_node_of_the_same_zone_wakes_who_must_share_its_node() -> None:
    """No zone and no pool has more or fewer members than before, and the node that it leaves is too full for both."""
    bench, follower = a_region(nodes=0)
    here, there = bench.a_node("n1", cpu=1500), bench.a_node("n2", cpu=4000)
    a_member(bench, here)
    bench.a_workload(ON_ITS_NODE, count=1)
    rest(follower, BlockReason.NODES)
    end(bench, "n1", workload=90)
    a_member(bench, there, ordinal=1)
    follower.catch_up_at_once()
    assert follower.work() == 1
    assert placed_on(bench)[1, 0] == "n2"


def test_a_member_that_arrives_where_there_is_no_room_wakes_nobody_who_must_share_its_node() -> None:
    bench, follower = a_region(nodes=0)
    here, there = bench.a_node("n1", cpu=1500), bench.a_node("n2", cpu=2500)
    a_member(bench, here)
    bench.a_workload(ON_ITS_NODE, count=1)
    rest(follower, BlockReason.NODES)
    before = follower.asleep()
    end(bench, "n1", workload=90)
    a_member(bench, there, ordinal=1)
    follower.catch_up_at_once()
    assert follower.asleep() is before


def test_the_last_member_that_leaves_wakes_who_had_to_be_near_it_though_its_zone_takes_no_work() -> None:
    bench, follower = a_region(nodes=0)
    shut = bench.a_node("a1", cpu=4000, zone="a", pool="old")
    bench.a_node("b1", cpu=4000, zone="b")
    a_member(bench, shut)
    bench.accept(ROOT, c.AdministerNode(shut, cordoned=True, note="to be removed"))
    bench.a_workload(CLOSE, count=1)
    rest(follower, BlockReason.NODES)
    end(bench, "a1", workload=90)
    assert follower.work() == 1
    assert placed_on(bench) == {(1, 0): "b1"}


# What this scheduler had proposed


def test_room_of_a_proposal_that_was_refused_wakes_who_found_none_beside_it() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=1, priority_class="critical")
    bench.a_workload(a_template(cpu=999), count=1, uid=101, workload=2)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert follower.look() is None
    assert follower.asleep(101) is not None
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))
    assert [one.code for one in follower.send(attempt)] == [Code.NOT_FOUND]
    assert follower.look() is not None
    assert follower.asleep(101) is None


def test_a_grant_that_a_refused_proposal_did_not_use_wakes_who_could_not_be_paid_for() -> None:
    bench, follower = a_region(nodes=2, cpu=1000)
    bench.a_grant(version=2, cpu=1500)
    bench.a_workload(a_template(cpu=1000), count=1, priority_class="critical")
    bench.a_workload(a_template(cpu=999), count=1, uid=101, workload=2)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    asleep = follower.asleep(101)
    assert asleep is not None
    assert asleep.why is BlockReason.GATE
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))
    follower.send(attempt)
    assert follower.look() is not None


def test_room_of_a_part_that_was_refused_wakes_who_found_none_beside_it() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_workload(a_template(cpu=1000), count=2, priority_class="critical")
    bench.a_workload(a_template(cpu=999), count=1, uid=101, workload=2)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    follower.look()
    bench.accept(REPLICA, c.WithdrawSlots(100, (1,)))
    assert [one.code for one in follower.send(attempt)] == [Code.NOT_FOUND]
    assert follower.work() == 1
    assert (2, 0) in placed_on(bench)


def test_room_of_a_proposal_that_nobody_answered_comes_back_when_it_can_land_no_more_though_nothing_happens() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=1)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    bench.at = attempt.command.valid_until
    assert follower.look() is None, "it could land until then"
    bench.at += 1
    again = follower.look()
    assert nodes_of(again) == nodes_of(attempt)


def test_an_old_view_does_not_tell_that_a_proposal_can_land_no_more() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=1)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    bench.at = attempt.command.valid_until + 1_000
    follower.age_ms = 2_000
    assert follower.look() is None
    follower.age_ms = 500
    assert follower.look() is not None


# Gates


def test_a_payer_with_more_wakes_who_could_not_be_paid_for() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_grant(version=2, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=2)
    rest(follower, BlockReason.GATE)
    assert follower.codes() == [Code.OVER_GRANT]
    end(bench, "n1")
    follower.work()
    assert placed_on(bench) == {(1, 1): "n1"}


def test_a_slot_that_is_charged_already_wakes_a_group_that_nobody_can_pay_for() -> None:
    """What stood on a lost node is charged: it needs no payer to be placed again (RULES 7)."""
    bench, follower = a_region(nodes=1)
    bench.a_grant(version=2, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=2)
    rest(follower, BlockReason.GATE)
    bench.move("agent/n1", Phase.RELEASED, "declined")
    assert bench.slot(0).account
    follower.work()
    assert placed_on(bench) == {(1, 0): "n1"}


def test_room_beside_what_is_kept_for_others_wakes_charged_work_whose_payer_is_spent() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_grant(version=2, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=1)
    follower.work()
    bench.a_grant("quota/beta", protected=Resources(1500))
    bench.move("agent/n1", Phase.RELEASED, "declined")
    rest(follower, BlockReason.GATE)
    assert follower.codes() == [Code.PROTECTED]
    bench.a_node("n2", cpu=500)
    assert follower.work() == 1
    assert placed_on(bench) == {(1, 0): "n1"}


def test_an_assignment_that_may_run_again_wakes_its_requests() -> None:
    bench, follower = a_region(nodes=1)
    work = bench.a_workload(count=1, right_until=bench.at + 1_000)
    bench.at += 2_000
    rest(follower, BlockReason.ASSIGNMENT)
    bench.ship(c.ShippedAssignment(replace(work, revision=200, generation=2, right_until=bench.at + 60_000)))
    assert follower.work() == 1


def test_a_pause_ends_at_its_time_and_when_it_is_taken_back() -> None:
    bench, follower = a_region(nodes=1)
    bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "look", bench.at + 5_000))
    bench.a_workload(count=1)
    rest(follower, BlockReason.PAUSED)
    assert follower.codes() == [Code.PAUSED]
    bench.at += 5_000
    assert follower.work() == 1


# What cures nothing


def test_what_cannot_cure_it_wakes_nobody() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    rest(follower, BlockReason.NODES)
    before = follower.asleep()
    bench.a_workload(a_template(cpu=10), count=1, uid=101, workload=2)
    follower.work()
    bench.a_node("small", cpu=500)
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["n1"], labels=(("disk", "ssd"),)))
    bench.accept("ledger", EndSession(bench.sessions["agent/small"], "silent"))
    follower.work()
    assert follower.asleep() is before


def test_its_own_proposals_that_land_wake_nobody_and_ask_nobody() -> None:
    bench, follower = a_region(nodes=3, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    rest(follower, BlockReason.NODES)
    before = follower.asleep()
    bench.a_workload(a_template(cpu=400, ports=1), count=6, uid=101, workload=2)
    with patch.object(unblocker, "apply_filters") as asked:
        follower.work()
    assert len(placed_on(bench)) == 6
    assert follower.asleep() is before
    asked.assert_not_called()


def test_whatever_is_missed_is_looked_at_after_the_resync() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    rest(follower, BlockReason.NODES)
    bench.at += RESYNC_MS - 1
    follower.work()
    asleep = follower.asleep()
    assert asleep is not None
    bench.at += 1
    follower.work()
    again = follower.asleep()
    assert again is not None
    assert again.until == asleep.until + RESYNC_MS


def test_what_only_the_resync_noticed_is_counted_and_what_was_woken_is_not() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    bench.a_workload(a_template(cpu=3000), count=1, uid=101, workload=2)
    rest(follower, BlockReason.NODES)
    bench.a_node("large", cpu=2000)
    assert follower.work() == 1
    assert follower.scheduler.take_resync_hits() == 0
    bench.a_node("larger", cpu=3000)
    with patch.object(unblocker.Unblocker, "heard"):
        follower.work()
    assert len(placed_on(bench)) == 1, "its waking was missed"
    bench.at += RESYNC_MS
    follower.work()
    assert len(placed_on(bench)) == 2
    assert follower.scheduler.take_resync_hits() == 1
    assert follower.scheduler.take_resync_hits() == 0


def test_a_class_that_changes_wakes_its_requests_and_gives_them_their_new_place() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    node = bench.state.node_names["n1"]
    held = c.Hold(ReservationPurpose.DATED, node, "quota/acme", bench.at + 10_000, Resources(500), tenant="acme")
    bench.accept(ROOT, held)
    bench.a_workload(a_template(cpu=600), count=1)
    rest(follower, BlockReason.NODES)
    bench.ship(c.ShippedPriorityClass(a_class("normal", 50, reclaimable=True)))
    assert follower.work() == 1


def test_a_node_that_is_left_alone_wakes_who_waits_for_it_when_it_is_tried_again() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    for _ in range(3):
        follower.catch_up()
        attempt = follower.look()
        assert attempt is not None
        refused = RefusedPart(0, 0, Code.CAPACITY.value, "cpu")
        follower.scheduler.on_refused(attempt, Code.CAPACITY, [refused], 0)
        bench.at += 60_000 if not follower.scheduler.quarantine.now else 30_000 - 1
    assert follower.look() is None
    assert follower.codes() == [Code.NODE_UNAVAILABLE]
    bench.at += 1
    assert follower.look() is not None


def test_a_slot_that_the_region_may_run_wakes_a_request_of_which_the_others_wait_for_their_right() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=2, ordinals=0, exclusive=True)
    held = replace(bench.state.assignments[100], revision=200, generation=2, ordinals=(3, 4))
    bench.ship(c.ShippedAssignment(held))
    bench.accept(REPLICA, c.OpenSlots(100, held.shares[0].template, (3, 4)))
    bench.ship(c.ShippedAssignment(replace(held, revision=201, generation=3, ordinals=(4,))))
    rest(follower, BlockReason.ASSIGNMENT)
    bench.move("agent/n1", Phase.RELEASED, "declined", 4)
    assert follower.work() == 1


# Many


def many(bench: RegionBench, count: int) -> None:
    """So many workloads, each of its own kind, that no node there takes."""
    for number in range(count):
        bench.a_workload(a_template(cpu=2000 + number), count=1, uid=100 + number, workload=1 + number)


def test_of_many_who_sleep_few_are_asked_at_once_and_all_in_the_end() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    count = 2 * unblocker.ASKED_MAX + 5
    many(bench, count)
    assert follower.work() == 0
    assert len(follower.scheduler.queue.blocked) == count
    bench.a_node("large", cpu=1_000_000, memory=1 << 30)
    asked: list[object] = []
    filtered = selection.apply_filters

    def counted(rules: Any, window: Any, rejected: Any) -> Any:
        asked.append(window.ask)
        return filtered(rules, window, rejected)

    with patch.object(unblocker, "apply_filters", counted):
        follower.catch_up()
        assert len(asked) == unblocker.ASKED_MAX
        assert len(follower.scheduler.queue.blocked) == count - unblocker.ASKED_MAX
        for left in (unblocker.ASKED_MAX, 5):
            before = len(asked)
            follower.scheduler.waking.ask(follower.state, follower.scheduler._filters, bench.at)
            assert len(asked) - before == left
    assert not follower.scheduler.waking.has_unasked
    follower.work()
    assert len(placed_on(bench)) == count


def test_a_look_ends_after_few_groups_that_found_no_node_and_the_next_goes_on() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    count = 3 * RESTED_MAX + 1
    many(bench, count)
    follower.catch_up()
    scheduler, looks = follower.scheduler, 0
    while True:
        before = len(scheduler.queue.blocked)
        attempt, waits = scheduler.run_cycle(SchedulerView(follower.state, bench.at))
        looks += 1
        assert attempt is None
        assert len(waits) == len(scheduler.queue.blocked) - before <= RESTED_MAX
        if not scheduler.has_more:
            break
    assert len(scheduler.queue.blocked) == count
    assert looks == 4


def test_a_look_ends_after_so_many_groups_that_were_placed_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycle, "PLACED_MAX", 20)
    bench, follower = a_region(nodes=1, cpu=1_000_000, memory=10**7)
    many(bench, 41)
    follower.catch_up()
    placed: list[int] = []
    while (attempt := follower.look()) is not None:
        placed.append(len(attempt.decision.passes))
        assert follower.scheduler.has_more == (sum(placed) < 41)
    assert placed == [20, 20, 1]


def test_whoever_can_be_placed_is_not_kept_waiting_by_those_who_cannot() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    many(bench, 3 * RESTED_MAX)
    bench.a_workload(a_template(cpu=500), count=1, uid=9_000, workload=9_000)
    assert follower.work() == 1
    assert placed_on(bench) == {(9_000, 0): "n1"}
