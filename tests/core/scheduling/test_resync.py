"""What was kept from a scheduler is found by comparing what it holds with the state; what it will hear of is not."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.region import commands as c
from holdfast.core.region.watch import ASSIGNMENT, NODE
from holdfast.core.scheduling import resync
from holdfast.core.scheduling.resync import Found
from tests.support.ledgers.region import REPLICA, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, placed_on


def found(follower: Follower) -> list[Found]:
    pieces = follower.scheduler.resync.pieces(follower.state)
    return [one for piece in pieces for one in follower.scheduler.resync.differing(follower.state, piece)]


def deafly(follower: Follower) -> list[WatchKey]:
    """Let the state go on and nobody tell of it; what is found to be missed."""
    follower.see_ahead()
    follower.unheard = {}
    return follower.scheduler.resync.still(follower.state, found(follower))


def caught(bench: RegionBench, follower: Follower, missed: list[WatchKey]) -> int:
    follower.scheduler.catch(follower.state, missed, bench.at)
    assert found(follower) == []
    return follower.scheduler.take_resync_hits()


def test_a_scheduler_that_has_heard_of_everything_holds_what_is_there() -> None:
    bench, follower = a_region(nodes=3)
    bench.a_workload(a_template(cpu=2000), count=2)
    bench.a_workload(a_template(cpu=10**9), count=1, uid=101, workload=2)
    assert follower.work() > 0
    assert found(follower) == []


def test_a_node_that_came_unheard_is_caught_and_takes_what_waits() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(a_template(cpu=2000), count=1)
    follower.work()
    bench.a_node("large", cpu=4000)
    missed = deafly(follower)
    assert [kind for kind, _ in missed] == [NODE]
    assert caught(bench, follower, missed) == 1
    assert follower.work() == 1
    assert placed_on(bench) == {(1, 0): "large"}


def test_a_node_whose_room_changed_unheard_is_caught() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    other = Follower(bench, "scheduler/other")
    bench.a_workload(a_template(cpu=2000), count=1)
    assert other.work() == 1
    missed = deafly(follower)
    assert {kind for kind, _ in missed} == {NODE}
    caught(bench, follower, missed)
    assert follower.scheduler.table.free_any[0].tolist() == [0]


def test_a_request_that_came_unheard_is_caught_and_placed() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=500), count=2)
    missed = deafly(follower)
    assert missed == [(ASSIGNMENT, 100)]
    assert caught(bench, follower, missed) == 1
    follower.work()
    assert len(placed_on(bench)) == 2


def test_a_request_that_went_unheard_is_let_go() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(a_template(cpu=500), count=1)
    follower.work()
    bench.a_node("n9", cpu=4000)
    assert Follower(bench, "scheduler/other").work() == 1
    missed = deafly(follower)
    caught(bench, follower, missed)
    assert len(follower.scheduler.queue) == 0


def test_a_class_that_became_more_urgent_unheard_is_caught_by_those_who_are_of_it() -> None:
    bench, follower = a_region(nodes=0)
    bench.a_workload(a_template(cpu=500), count=1)
    follower.work()
    bench.ship(c.ShippedPriorityClass(a_class("normal", 77)))
    missed = deafly(follower)
    assert missed == [(ASSIGNMENT, 100)]
    caught(bench, follower, missed)
    assert [key[0] for key in follower.scheduler.queue.groups] == [-77]


def test_what_is_about_to_be_heard_is_not_caught() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=500), count=1)
    follower.see_ahead()
    suspects = found(follower)
    assert suspects
    follower.catch_up()
    assert follower.scheduler.resync.still(follower.state, suspects) == []


def test_what_changes_all_the_time_is_not_caught_though_it_differs_whenever_somebody_looks() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=500), count=1)
    follower.see_ahead()
    suspects = found(follower)
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))
    follower.see_ahead()
    assert follower.scheduler.resync.still(follower.state, suspects) == []


def test_everything_is_compared_once_and_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "PIECE", 3)
    bench, follower = a_region(nodes=7, cpu=1000)
    for number in range(4):
        bench.a_workload(a_template(cpu=5000 + number), count=1, uid=1000 + number, workload=1000 + number)
    follower.catch_up_at_once()
    pieces = list(follower.scheduler.resync.pieces(follower.state))
    assert max(map(len, pieces)) == 3
    named = [key for piece in pieces for key in piece]
    assert len(named) == len(set(named)) == 11


def test_a_node_that_is_not_in_what_is_taken_anew_has_no_row_any_more() -> None:
    _, follower = a_region(nodes=2)
    other, _ = a_region(nodes=1)
    follower.scheduler.load(other.state)
    assert {*follower.scheduler.table.rows} == {*other.state.nodes.keys()}
