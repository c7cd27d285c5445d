"""What counts in domains, on nodes or by the region's times cures those who wait for it, whoever put it there.

What a scheduler proposes counts before anybody has answered. So it is an event like any other to who sleeps.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.workloads import Apart, Near, Spread, Template
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.queue import unblocker
from holdfast.core.scheduling.queue.domain_cures import domain_counts
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, placed_on

#: Of so little memory that no node is full of it.
LITTLE = 8


def a_member(bench: RegionBench, node: str, number: int, template: Template, cpu: int = 1000) -> None:
    """Somebody else places a slot of a workload of its own."""
    work = bench.a_workload(
        replace(template, need=a_template(cpu, LITTLE).need), count=1, uid=900 + number, workload=900 + number
    )
    bench.place(work, c.SlotPlacement(0, bench.state.node_names[node]))


def leave(bench: RegionBench, node: str, number: int) -> None:
    """It is not wanted any more, and ends."""
    bench.accept(REPLICA, c.WithdrawSlots(900 + number, (0,)))
    bench.move(f"agent/{node}", Phase.RELEASED, "declined", 0, 900 + number)


def sleeps(follower: Follower, code: Code, assignment: int = 100) -> None:
    follower.work()
    asleep = follower.asleep(assignment)
    assert asleep is not None
    assert asleep.why is BlockReason.NODES
    assert code in follower.codes(assignment)


# What it proposes itself

MEMBER = a_template(apart=(Apart("db", "node", 9),))


def beside(key: str) -> tuple[RegionBench, Follower]:
    """Who must be near a member finds no room there; another member comes, and goes where there is some."""
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", cpu=1900, zone="a", pool="old")
    bench.a_node("b1", cpu=8000, zone="b", pool="new")
    a_member(bench, "a1", 1, MEMBER)
    bench.a_workload(a_template(cpu=2000, near=(Near("db", key, required=True),)), count=1)
    sleeps(follower, Code.NEAR)
    bench.a_workload(MEMBER, count=1, uid=101, workload=2, priority_class="critical")
    return bench, follower


def evened() -> tuple[RegionBench, Follower]:
    """A large replica may not go where there are more, and has no room where there are fewest; a small one has."""
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", cpu=8000, zone="a")
    bench.a_node("b1", cpu=4000, zone="b")
    a_member(bench, "b1", 1, a_template(), cpu=2000)
    large, small = (a_template(cpu=cpu, spread=(Spread("zone", 1),)) for cpu in (3000, 1000))
    work = bench.a_workload(large, count=2)
    sleeps(follower, Code.SPREAD)
    assert len(placed_on(bench)) == 2
    digest = template_digest(small)
    bench.ship(c.ShippedTemplate(digest, small))
    both = (*work.shares, Share(digest, 1))
    bench.ship(c.ShippedAssignment(replace(work, revision=200, generation=2, shares=both)))
    follower.catch_up()
    assert follower.look() is None
    bench.accept(REPLICA, c.OpenSlots(100, digest, (2,)))
    return bench, follower


@pytest.mark.parametrize("case", ["near, zone", "near, pool", "near, node", "spread"])
def test_a_slot_that_is_proposed_wakes_who_waits_for_it_before_anybody_has_answered(case: str) -> None:
    _, follower = evened() if case == "spread" else beside(case.partition(", ")[2])
    follower.catch_up()
    assert len(nodes_of(follower.look())) == 1
    assert len(nodes_of(follower.look())) == 1
    assert follower.asleep() is None
    assert follower.scheduler.take_resync_hits() == 0


def test_who_the_resync_wakes_in_the_look_that_proposes_what_cures_it_was_missed_by_nobody() -> None:
    bench, follower = beside("zone")
    follower.catch_up()
    bench.at += RESYNC_MS
    assert len(nodes_of(follower.look())) == 2
    assert follower.scheduler.take_resync_hits() == 0


def test_what_is_proposed_asks_nobody_whose_rules_do_not_count_it() -> None:
    bench, follower = beside("zone")
    others = {
        200: a_template(cpu=9000),
        201: a_template(cpu=9000, near=(Near("web", "zone", required=True),)),
        202: a_template(cpu=9000, near=(Near("db", "zone"),)),
        203: a_template(cpu=9000, apart=(Apart("db", "node"),)),
        204: a_template(cpu=9000, spread=(Spread("zone", 1),)),
    }
    for uid, template in others.items():
        bench.a_workload(template, count=1, uid=uid, workload=uid)
    follower.catch_up()
    with patch.object(unblocker, "domain_counts", wraps=domain_counts) as counted:
        follower.look()
    assert [call.args[2].template.need.cpu for call in counted.call_args_list] == [2000]


# What happens at once


def test_a_member_that_gives_way_to_others_wakes_who_must_be_apart_from_it_though_no_room_is_free_for_that() -> None:
    """It moves within its zone, and what it took is taken: no domain and no node has less of anything."""
    bench, follower = a_region(nodes=2)
    a_member(bench, "n1", 1, MEMBER)
    a_member(bench, "n2", 2, MEMBER)
    a_member(bench, "n2", 3, a_template(), cpu=7000)
    bench.a_workload(a_template(cpu=2000, apart=(Apart("db", "node"),)), count=1)
    sleeps(follower, Code.CAPACITY)
    leave(bench, "n1", 1)
    a_member(bench, "n1", 4, a_template())
    leave(bench, "n2", 3)
    a_member(bench, "n2", 5, MEMBER, cpu=7000)
    follower.catch_up_at_once()
    assert follower.work() == 1
    assert placed_on(bench)[1, 0] == "n1"


def test_a_zone_that_comes_for_another_wakes_who_must_be_near_members_that_are_elsewhere_now() -> None:
    """As many zones as before, with as many members; the new one has no room."""
    bench, follower = a_region(nodes=0)
    bench.a_node("a1", cpu=1500, zone="a")
    bench.a_node("b1", cpu=8000, zone="b")
    a_member(bench, "a1", 1, MEMBER)
    bench.a_workload(a_template(cpu=2000, near=(Near("db", "zone", required=True),)), count=1)
    sleeps(follower, Code.NEAR)
    leave(bench, "a1", 1)
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names["a1"], cordoned=True, note="old"))
    a_member(bench, "b1", 2, MEMBER)
    bench.a_node("c1", cpu=500, zone="c")
    follower.catch_up_at_once()
    assert follower.work() == 1
    assert placed_on(bench)[1, 0] == "b1"


# Times of the region, and plugins


def test_a_longer_fence_wakes_exclusive_work_that_would_have_outlived_it() -> None:
    bench, follower = a_region(nodes=0)
    short = replace(DEFAULTS, session_lease=3_000, grace=2_000, kill_margin=1_000, fence_time=6_100)
    bench.accept(ROOT, Configure(short))
    bench.a_node("n1", overrun=5_000)
    work = bench.a_workload(count=1, ordinals=0, exclusive=True)
    bench.ship(c.ShippedAssignment(replace(work, revision=200, generation=2, ordinals=(0,))))
    bench.accept(REPLICA, c.OpenSlots(100, work.shares[0].template, (0,)))
    sleeps(follower, Code.NODE_UNAVAILABLE)
    bench.accept(ROOT, Configure(replace(short, fence_time=9_000)))
    assert follower.work() == 1
