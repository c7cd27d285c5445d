"""A node about which view and ledger do not agree is left alone for a while, with both views on record."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.region import commands as c
from holdfast.core.scheduling.nodes.quarantine import QUARANTINE_MAX_MS, QUARANTINE_MS, REFUSALS
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of


def refuse(bench: RegionBench, follower: Follower, code: str = "capacity", behind: int = 0, count: int = 1) -> None:
    """The ledger refuses all of the next proposal for a reason that the view does not show."""
    bench.at += 40_000
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    unmet = [RefusedPart(0, index, code, "cpu", behind) for index in range(count)]
    follower.scheduler.on_refused(attempt, Code(code), unmet, behind)


def shunned(follower: Follower) -> list[str]:
    return [shun.name for shun in follower.scheduler.quarantine.now.values()]


def test_a_node_that_keeps_refusing_is_left_alone_and_another_is_taken() -> None:
    bench, follower = a_region(nodes=2)
    bench.a_workload(count=1)
    while not shunned(follower):
        refuse(bench, follower)
    (shun,) = follower.scheduler.quarantine.take_new_entries()
    assert shun.ledger == "capacity: cpu"
    assert "'cpu': 8000" in shun.view, "what was refused is not deducted any more"
    assert follower.scheduler.quarantine.take_new_entries() == []
    bench.at = shun.until - 1
    other = {uid for _, uid in bench.state.node_names.items()} - {shun.node}
    assert set(nodes_of(follower.look())) == other


def test_three_strikes_in_a_row_and_no_fewer() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    for number in range(1, REFUSALS + 1):
        assert shunned(follower) == []
        refuse(bench, follower)
        assert len(follower.scheduler.quarantine._strikes) == (number < REFUSALS)
    assert shunned(follower) == ["n1"]


def test_many_slots_that_are_refused_at_once_are_one_refusal() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=5)
    refuse(bench, follower, count=5)
    assert shunned(follower) == []


def test_a_placement_that_is_accepted_ends_the_row() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=100), count=1)
    for _ in range(REFUSALS - 1):
        refuse(bench, follower)
    bench.at += 40_000
    assert follower.work() == 1
    bench.a_workload(a_template(cpu=200), count=1, uid=101, workload=2)
    for _ in range(REFUSALS - 1):
        refuse(bench, follower)
        assert shunned(follower) == []


@pytest.mark.parametrize(
    ("code", "behind"), [("stale", 1 << 60), ("capacity", 1 << 60), ("over-grant", 0), ("spread", 0), ("policy", 0)]
)
def test_a_refusal_that_is_not_about_the_node_or_that_its_age_explains_is_no_strike(code: str, behind: int) -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    for _ in range(REFUSALS + 1):
        refuse(bench, follower, code, behind)
        assert not follower.scheduler.quarantine.any_strikes
        assert shunned(follower) == []


def test_it_is_tried_again_after_its_time_which_doubles() -> None:
    bench, follower = a_region(nodes=1)
    table, shuns = follower.scheduler.table, follower.scheduler.quarantine
    node = bench.state.node_names["n1"]
    lengths = []
    for _ in range(7):
        for _ in range(REFUSALS):
            shuns.record_refusal(table, node, "capacity", bench.at)
        shuns.record_refusal(table, node, "capacity", bench.at)
        assert table.quarantined.tolist() == [True]
        lengths.append(shuns.now[node].until - bench.at)
        assert not shuns.release_due(table, shuns.now[node].until - 1)
        bench.at = shuns.now[node].until
        assert shuns.release_due(table, bench.at)
        assert table.quarantined.tolist() == [False]
    assert lengths[:3] == [QUARANTINE_MS, 2 * QUARANTINE_MS, 4 * QUARANTINE_MS]
    assert lengths[-1] == QUARANTINE_MAX_MS


def test_a_node_that_leaves_while_it_is_left_alone_is_forgotten_at_its_time() -> None:
    bench, follower = a_region(nodes=2)
    table, shuns = follower.scheduler.table, follower.scheduler.quarantine
    node = bench.state.node_names["n1"]
    for _ in range(REFUSALS):
        shuns.record_refusal(table, node, "capacity", bench.at)
    bench.accept("ledger", EndSession(bench.sessions["agent/n1"], "silent"))
    bench.accept(ROOT, c.RemoveNode(node))
    follower.catch_up()
    assert table.quarantined.tolist() == [False]
    shuns.record_refusal(table, node, "capacity", bench.at)
    shuns.release_due(table, bench.at + QUARANTINE_MS)
    assert shuns.now == {}


def test_refusals_of_a_node_that_has_left_are_forgotten() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    for _ in range(REFUSALS + 1):
        refuse(bench, follower)
        bench.at += QUARANTINE_MAX_MS
    known = follower.scheduler.quarantine
    assert known._strikes
    bench.accept("ledger", EndSession(bench.sessions["agent/n1"], "silent"))
    bench.accept(ROOT, c.RemoveNode(bench.state.node_names["n1"]))
    follower.catch_up()
    assert follower.look() is None
    assert (known._strikes, known._times) == ({}, {})
