"""What is told of who waits becomes true again soon after what made it untrue, without a walk through everybody."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.queue.rechecks import RECHECK_MS, RECHECKED_MAX, STALE_MAX, Rechecks
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region

SOON_MS = 2 * RECHECK_MS
KEPT = (Taint("kept", "for-others"),)


def soon(bench: RegionBench, follower: Follower) -> list[str]:
    """What is told a little later, long before everybody is looked at."""
    assert SOON_MS < RESYNC_MS
    follower.work()
    bench.at += SOON_MS
    follower.work()
    assert follower.scheduler.take_resync_hits() == 0
    return follower.codes()


def administer(bench: RegionBench, node: str, **fields: object) -> None:
    bench.accept(ROOT, c.AdministerNode(bench.state.node_names[node], note="so", **fields))  # type: ignore[arg-type]


def waiting(bench: RegionBench, follower: Follower, *codes: str, cpu: int = 2000) -> None:
    bench.a_workload(a_template(cpu=cpu), count=1)
    follower.work()
    assert follower.codes() == [*codes]


def test_what_never_fits_is_told_otherwise_once_a_node_is_added_that_is_large_enough_and_not_in_use() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    waiting(bench, follower, "never-fits")
    bench.a_node("large", cpu=4000)
    administer(bench, "large", cordoned=True)
    follower.catch_up_at_once()
    assert soon(bench, follower) == [Code.CAPACITY, Code.NODE_UNAVAILABLE]


def test_what_never_fits_is_told_otherwise_once_a_node_is_relabelled_that_is_full() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    full = bench.a_workload(a_template(cpu=1000), count=1, uid=900, workload=900)
    bench.place(full, c.SlotPlacement(0, bench.state.node_names["n1"]))
    bench.a_workload(a_template(cpu=1000, require=(("disk", "ssd"),)), count=1)
    follower.work()
    assert follower.codes() == ["never-fits"]
    administer(bench, "n1", labels=(("disk", "ssd"),))
    assert soon(bench, follower) == [Code.CAPACITY]


def kept_by_two() -> tuple[RegionBench, Follower]:
    """A region with a full node and two that are kept for others, t1 and t2, in which something waits."""
    bench, follower = a_region(nodes=1, cpu=4000)
    full = bench.a_workload(a_template(cpu=4000), count=1, uid=900, workload=900)
    bench.place(full, c.SlotPlacement(0, bench.state.node_names["n1"]))
    for name in ("t1", "t2"):
        bench.a_node(name, cpu=4000)
        administer(bench, name, taints=KEPT)
    waiting(bench, follower, Code.TAINT, Code.CAPACITY)
    return bench, follower


def test_where_the_nodes_that_bore_out_a_reason_are_no_more_like_that_another_is_told() -> None:
    bench, follower = kept_by_two()
    for name in ("t1", "t2"):
        administer(bench, name, taints=(), cordoned=True)
    assert soon(bench, follower) == [Code.NODE_UNAVAILABLE, Code.CAPACITY]


def test_where_the_nodes_that_bore_out_a_reason_have_left_another_is_told() -> None:
    bench, follower = kept_by_two()
    for name in ("t1", "t2"):
        bench.accept("ledger", EndSession(bench.sessions[f"agent/{name}"], "silent"))
        bench.accept(ROOT, c.RemoveNode(bench.state.node_names[name]))
    assert soon(bench, follower) == [Code.CAPACITY]


def test_the_gate_that_is_told_is_one_that_is_shut() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_grant(version=2, cpu=1000)
    bench.a_grant("quota/beta", protected=Resources(1500))
    waiting(bench, follower, Code.PROTECTED)
    bench.a_grant("quota/beta", version=2)
    assert soon(bench, follower) == [Code.OVER_GRANT]


# What it costs


def test_a_reason_that_many_nodes_bear_out_is_not_doubted_for_a_few_of_them() -> None:
    bench, follower = a_region(nodes=20, cpu=1000)
    bench.a_node("large", cpu=4000)
    administer(bench, "large", cordoned=True)
    waiting(bench, follower, Code.CAPACITY, Code.NODE_UNAVAILABLE)
    before = follower.asleep()
    for number in range(1, 10):
        administer(bench, f"n{number}", cordoned=True)
    soon(bench, follower)
    assert follower.asleep() is before
    for number in range(10, 21):
        administer(bench, f"n{number}", cordoned=True)
    assert soon(bench, follower) == [Code.NODE_UNAVAILABLE]


def test_what_never_fits_is_not_looked_at_for_a_node_that_could_not_hold_it_either() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    waiting(bench, follower, "never-fits")
    before = follower.asleep()
    bench.a_node("small", cpu=500)
    administer(bench, "n1", labels=(("disk", "ssd"),))
    assert soon(bench, follower) == ["never-fits"]
    assert follower.asleep() is before


def test_not_many_are_looked_at_again_at_once_and_each_of_them_before_long() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    kinds = 2 * RECHECKED_MAX + 1
    for number in range(kinds):
        bench.a_workload(a_template(cpu=2000 + number), count=1, uid=200 + number, workload=200 + number)
    follower.work()
    assert {code for number in range(kinds) for code in follower.codes(200 + number)} == {"never-fits"}
    bench.a_node("large", cpu=9000)
    administer(bench, "large", cordoned=True)
    follower.catch_up_at_once()
    follower.work()
    told = []
    for _ in range(4):
        bench.at += RECHECK_MS
        follower.waits = []
        follower.work()
        told.append(len(follower.waits))
    assert told == [RECHECKED_MAX, RECHECKED_MAX, 1, 0]


@pytest.mark.parametrize("behind", [False, True])
def test_who_was_refused_is_not_tried_before_its_time_since_its_assignment_has_changed(behind: bool) -> None:
    bench, follower = a_region(nodes=1)
    work = bench.a_workload(a_template(cpu=100), count=1)
    follower.catch_up()
    began = bench.at
    for _ in range(1 if behind else 5):  # the fifth pause is longer than a doubt
        attempt = follower.look()
        assert attempt is not None
        follower.scheduler.on_refused(attempt, Code.STALE, [], pack_revision(bench.state.info.seq + 9) if behind else 0)
        asleep = follower.asleep()
        assert asleep is not None
        began, bench.at = bench.at, asleep.until
    bench.at = began
    bench.ship(c.ShippedAssignment(replace(work, revision=work.revision + 1, generation=work.generation + 1)))
    follower.catch_up()
    bench.at += SOON_MS
    assert follower.look() is None
    assert follower.asleep() is not None


def test_doubts_about_who_has_left_do_not_pile_up_behind_those_who_wait() -> None:
    bench, queue = RegionBench(checked=False), SchedulingQueue()
    doubts = Rechecks(queue)
    for uid in range(1, 21):
        bench.a_workload(a_template(cpu=100 + uid), count=1, uid=uid, workload=uid)
    queue.load(bench.state)
    groups = list(queue.groups.values())
    for number in range(100):
        for group in groups:
            queue.block(group, BlockedGroup(BlockReason.NODES, number, bench.at))
            doubts.note(group.key, bench.at)
        for group in groups[1:]:
            queue.unblock(group.key)
        for other in range(10):  # others come, are doubted, and leave
            key = (*groups[0].key[:2], f"tenant-{number}-{other}", *groups[0].key[3:])
            queue.blocked[key] = BlockedGroup(BlockReason.NODES, number, bench.at)
            doubts.note(key, bench.at)
            queue.blocked.pop(key)
    assert len(doubts._doubted) <= 2 * len(groups) + STALE_MAX + 1
    assert groups[0].key in doubts._doubted
