"""How nodes fare: columns that follow the reports, two scores, and nobody who is woken or kept out by them."""

from __future__ import annotations

import pytest

from holdfast.core.region import commands as c
from holdfast.core.region.limits import LOAD_EVERY_MS
from holdfast.core.scheduling.nodes.hints import NAMES_MAX
from holdfast.core.scheduling.scores.load import LoadScore
from holdfast.core.scheduling.scores.warm import WarmScore
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import a_region, placed_on
from tests.support.node_windows import a_bench, scored, seen, table_of


def report(bench: RegionBench, name: str, cpu: int, memory: int = 0, *present: str) -> None:
    bench.at += LOAD_EVERY_MS
    bench.accept(f"agent/{name}", c.ReportNode(name, cpu, memory, present))


def three_nodes() -> RegionBench:
    """n1 is used, n2 is used more and has most things, n3 has said nothing."""
    bench = a_bench()
    for name in ("n1", "n2", "n3"):
        bench.a_node(name)
    report(bench, "n1", 20, 30, "web")
    report(bench, "n2", 80, 10, "model-7", "web")
    return bench


def test_load_is_best_where_nothing_is_used_and_counts_what_is_used_more() -> None:
    assert scored(LoadScore(), seen(three_nodes(), a_template())) == {"n1": 700, "n2": 200, "n3": 1000}


def test_load_makes_no_difference_where_nobody_has_said_anything() -> None:
    bench = a_bench()
    bench.a_node("n1")
    assert scored(LoadScore(), seen(bench, a_template())) == {}
    report(bench, "n1", 0, 0, "web")
    assert scored(LoadScore(), seen(bench, a_template())) == {}


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        (("web",), {"n1": 1000, "n2": 1000, "n3": 0}),
        (("model-7", "web"), {"n1": 500, "n2": 1000, "n3": 0}),
        (("model-7", "model-8", "web"), {"n1": 333, "n2": 666, "n3": 0}),
        (("model-8",), {"n1": 0, "n2": 0, "n3": 0}),
        ((), {}),
    ],
)
def test_warm_is_the_share_of_what_is_used_that_lies_ready(uses: tuple[str, ...], found: dict[str, int]) -> None:
    assert scored(WarmScore(), seen(three_nodes(), a_template(uses=uses))) == found


def test_columns_follow_reports_and_nodes_that_come_and_go() -> None:
    bench = three_nodes()
    table = table_of(bench)
    names = {node.name: row for row, node in enumerate(table.nodes)}
    assert table.hints.there("web")[[names["n1"], names["n3"]]].tolist() == [True, False]
    report(bench, "n1", 0)
    report(bench, "n3", 50, 60, "web")
    table.hint(bench.state, [bench.state.node_names[name] for name in ("n1", "n3")])
    assert table.hints.there("web")[[names["n1"], names["n3"]]].tolist() == [False, True]
    new = [bench.a_node(f"m{number}") for number in range(5)]
    report(bench, "m2", 90, 0, "web")
    table.refresh(bench.state, new, table.revision)
    fresh = table_of(bench)
    assert table.hints.load.tolist() == fresh.hints.load.tolist()
    assert table.hints.there("web").tolist() == fresh.hints.there("web").tolist()
    gone = bench.state.node_names["m2"]
    bench.state.nodes.drop(gone)
    table.refresh(bench.state, [gone], table.revision)
    assert table.hints.load.tolist() == table_of(bench).hints.load.tolist()


def test_names_that_nobody_asks_for_any_more_take_no_room() -> None:
    table = table_of(three_nodes())
    for number in range(NAMES_MAX + 10):
        table.hints.there("web")
        table.hints.there(f"model-{number}")
    assert len(table.hints._there) == NAMES_MAX
    assert "web" in table.hints._there


def test_work_goes_where_what_it_uses_lies_ready() -> None:
    bench, follower = a_region(nodes=8)
    report(bench, "n6", 0, 0, "model-7")
    bench.a_workload(a_template(uses=("model-7",)), count=1)
    follower.work()
    assert placed_on(bench) == {(1, 0): "n6"}


def test_work_goes_where_less_is_used() -> None:
    bench, follower = a_region(nodes=4)
    for name in ("n1", "n2", "n4"):
        report(bench, name, 90)
    bench.a_workload(a_template(), count=1)
    follower.work()
    assert placed_on(bench) == {(1, 0): "n3"}


def test_a_node_that_is_full_and_lacks_everything_takes_work_all_the_same() -> None:
    bench, follower = a_region(nodes=1)
    report(bench, "n1", 100, 100)
    bench.a_workload(a_template(uses=("model-7",)), count=1)
    follower.work()
    assert placed_on(bench) == {(1, 0): "n1"}


def test_a_report_wakes_nobody() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000, uses=("model-7",)), count=1)
    follower.work()
    asleep = follower.asleep()
    assert asleep is not None
    bench.accept("agent/n1", c.ReportNode("n1", 0, 10, ("model-7",)))
    follower.catch_up()
    assert follower.asleep() is asleep
