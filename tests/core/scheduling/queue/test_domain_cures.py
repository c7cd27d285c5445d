"""What counts in domains cures those who wait for it, whoever put it there.

What a scheduler proposes counts before anybody has answered. So it is an event like any other to who sleeps.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.workloads import Apart, Near, Spread, Template
from holdfast.core.model.records.assignments import Share
from holdfast.core.region import commands as c
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.queue import unblocker
from holdfast.core.scheduling.queue.domain_cures import domain_counts
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from tests.support.ledgers.region import REPLICA, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, placed_on

#: Of so little memory that no node is full of it.
LITTLE = 8


def a_member(bench: RegionBench, node: str, number: int, template: Template, cpu: int = 1000) -> None:
    """Somebody else places a slot of a workload of its own."""
    work = bench.a_workload(
        replace(template, need=a_template(cpu, LITTLE).need), count=1, uid=900 + number, workload=900 + number
    )
    bench.place(work, c.SlotPlacement(0, bench.state.node_names[node]))


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
    assert follower.scheduler.take_caught() == 0


def test_who_the_resync_wakes_in_the_look_that_proposes_what_cures_it_was_missed_by_nobody() -> None:
    bench, follower = beside("zone")
    follower.catch_up()
    bench.at += RESYNC_MS
    assert len(nodes_of(follower.look())) == 2
    assert follower.scheduler.take_caught() == 0


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
