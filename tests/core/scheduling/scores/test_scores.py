"""Each score: what it says of nodes, in whole numbers from 0 to BEST."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.workloads import Apart, Near, Spread
from holdfast.core.region import commands as c
from holdfast.core.scheduling.nodes.table import BEST
from holdfast.core.scheduling.scores.balance import BalanceScore
from holdfast.core.scheduling.scores.cost import CostScore
from holdfast.core.scheduling.scores.emptiness import EmptinessScore
from holdfast.core.scheduling.scores.evenness import EvennessScore
from holdfast.core.scheduling.scores.near import NearScore
from holdfast.core.scheduling.scores.packing import PackingScore
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.node_windows import a_bench, scored, seen


def three_fillings() -> RegionBench:
    """Nodes of 4 cpu and 8 GiB: n1 is empty, n2 has half of its cpu taken, n3 half of both."""
    bench = a_bench()
    uids = [bench.a_node(name, cpu=4000, memory=8192) for name in ("n1", "n2", "n3")]
    of_cpu = bench.a_workload(a_template(2000, 0), count=1)
    of_both = bench.a_workload(a_template(2000, 4096), count=1, uid=200, workload=2)
    bench.place(of_cpu, c.SlotPlacement(0, uids[1]))
    bench.place(of_both, c.SlotPlacement(0, uids[2]))
    return bench


def test_packing_is_the_mean_of_what_would_be_taken_of_what_is_needed() -> None:
    bench = three_fillings()
    assert scored(PackingScore(), seen(bench, a_template(1000, 2048))) == {"n1": 250, "n2": 500, "n3": 750}
    assert scored(PackingScore(), seen(bench, a_template(1000, 0))) == {"n1": 250, "n2": 750, "n3": 750}
    assert scored(PackingScore(), seen(bench, a_template(0, 0))) == {"n1": 0, "n2": 0, "n3": 0}


def test_emptiness_is_the_contrary_of_packing() -> None:
    window = seen(three_fillings(), a_template(1000, 2048))
    full = scored(PackingScore(), window)
    assert scored(EmptinessScore(), window) == {name: BEST - value for name, value in full.items()}


def test_balance_is_best_where_processor_and_memory_would_be_used_alike() -> None:
    bench = three_fillings()
    assert scored(BalanceScore(), seen(bench, a_template(1000, 2048))) == {"n1": 1000, "n2": 500, "n3": 1000}
    assert scored(BalanceScore(), seen(bench, a_template(0, 4096))) == {"n1": 500, "n2": 1000, "n3": 500}


@pytest.mark.parametrize("score", [PackingScore(), EmptinessScore(), BalanceScore()], ids=lambda one: one.name)
def test_a_node_that_is_overfull_is_scored_within_bounds(score: PackingScore) -> None:
    bench = a_bench()
    node = bench.a_node("n1", cpu=4000)
    bench.place(bench.a_workload(a_template(4000), count=1), c.SlotPlacement(0, node))
    bench.a_node("n1", cpu=1000)
    [value] = scored(score, seen(bench, a_template(1000))).values()
    assert 0 <= value <= BEST


def in_four_places() -> tuple[RegionBench, list[int]]:
    """Two zones with two nodes each, of two pools: n1 a/old, n2 a/new, n3 b/old, n4 b/new."""
    bench = a_bench()
    places = {"n1": ("a", "old"), "n2": ("a", "new"), "n3": ("b", "old"), "n4": ("b", "new")}
    return bench, [bench.a_node(name, zone=zone, pool=pool) for name, (zone, pool) in places.items()]


@pytest.mark.parametrize(
    ("key", "near"), [("zone", "n1 n2"), ("pool", "n1 n3"), ("node", "n1")], ids=("zone", "pool", "node")
)
def test_near_is_best_where_members_of_the_group_stand(key: str, near: str) -> None:
    bench, nodes = in_four_places()
    window = seen(bench, a_template(near=(Near("db", key),)))
    assert set(scored(NearScore(), window).values()) == {0}
    database = bench.a_workload(a_template(apart=(Apart("db"),)), count=1)
    bench.place(database, c.SlotPlacement(0, nodes[0]))
    found = scored(NearScore(), seen(bench, a_template(near=(Near("db", key),))))
    assert found == {name: BEST if name in near else 0 for name in ("n1", "n2", "n3", "n4")}


def test_near_is_an_equal_part_for_each_rule_that_holds_and_groups_are_of_one_tenant() -> None:
    bench, nodes = in_four_places()
    bench.place(bench.a_workload(a_template(apart=(Apart("db"),)), count=1), c.SlotPlacement(0, nodes[0]))
    template = a_template(near=(Near("db", "zone"), Near("db", "pool"), Near("cache")))
    assert scored(NearScore(), seen(bench, template)) == {"n1": 666, "n2": 333, "n3": 333, "n4": 0}
    assert set(scored(NearScore(), seen(bench, template, tenant="beta")).values()) == {0}


def test_near_says_nothing_where_the_template_has_no_such_rule() -> None:
    bench, _ = in_four_places()
    assert scored(NearScore(), seen(bench, a_template())) == {}
    assert scored(NearScore(), seen(bench, a_template(spread=(Spread(),)))) == {}


COSTS: list[tuple[dict[str, int], dict[str, int]]] = [
    ({"old": 3, "new": 9}, {"old": 1000, "new": 0}),
    ({"old": 3, "new": 9, "huge": 27}, {"old": 1000, "new": 750}),
    ({"new": 9, "huge": 27}, {"old": 0, "new": 1000}),
    ({"old": 0, "new": 1, "huge": 2**62}, {"old": 1000, "new": 999}),
]


@pytest.mark.parametrize(("costs", "pools"), COSTS, ids=str)
def test_cost_is_best_for_the_cheapest_pool_scaled_over_all_that_are_told(
    costs: dict[str, int], pools: dict[str, int]
) -> None:
    bench, _ = in_four_places()
    bench.ship(*(c.ShippedPool(name, cost) for name, cost in costs.items()))
    found = scored(CostScore(), seen(bench, a_template()))
    assert found == {"n1": pools["old"], "n2": pools["new"], "n3": pools["old"], "n4": pools["new"]}


def test_cost_makes_no_difference_where_nothing_is_cheaper_than_something_else() -> None:
    bench, _ = in_four_places()
    assert scored(CostScore(), seen(bench, a_template())) == {}
    bench.ship(c.ShippedPool("old", 3), c.ShippedPool("new", 3))
    assert scored(CostScore(), seen(bench, a_template())) == {}
    bench.ship(c.ShippedPool("new", 9))
    assert scored(CostScore(), seen(bench, a_template())) != {}
    bench.ship(gone=(c.RemovedObject("node-pool", "old"),))
    assert scored(CostScore(), seen(bench, a_template())) == {}


def test_evenness_is_best_in_the_emptiest_domain_of_the_workload() -> None:
    bench, nodes = in_four_places()
    template = a_template(spread=(Spread("zone", 3),))
    work = bench.a_workload(template, count=3)
    assert set(scored(EvennessScore(), seen(bench, template)).values()) == {0}
    bench.place(work, c.SlotPlacement(0, nodes[0]), c.SlotPlacement(1, nodes[1]), c.SlotPlacement(2, nodes[2]))
    assert scored(EvennessScore(), seen(bench, template)) == {"n1": 0, "n2": 0, "n3": 1000, "n4": 1000}
    assert set(scored(EvennessScore(), seen(bench, template, workload=7)).values()) == {0}
    both = a_template(spread=(Spread("zone", 3), Spread("pool", 3)))
    assert set(scored(EvennessScore(), seen(bench, both)).values()) == {0, 500}


def test_evenness_says_nothing_of_what_is_not_counted() -> None:
    bench, _ = in_four_places()
    assert scored(EvennessScore(), seen(bench, a_template())) == {}
    assert scored(EvennessScore(), seen(bench, a_template(near=(Near("db"),)))) == {}
