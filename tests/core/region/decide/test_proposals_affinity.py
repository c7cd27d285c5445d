"""Near: the gate that lets replicas only into domains where members of a group stand."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.workloads import Apart, Near
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import RegionBench, a_template


def a_bench() -> tuple[RegionBench, dict[str, int]]:
    """Two zones with two nodes each, of two pools: n1 a/old, n2 a/new, n3 b/old, n4 b/new."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    bench.a_grant("quota/beta")
    places = {"n1": ("a", "old"), "n2": ("a", "new"), "n3": ("b", "old"), "n4": ("b", "new")}
    return bench, {name: bench.a_node(name, zone=zone, pool=pool) for name, (zone, pool) in places.items()}


def near(bench: RegionBench, key: str = "zone", *, required: bool = True, count: int = 4) -> Assignment:
    return bench.a_workload(a_template(near=(Near("chat", key, required),)), count=count)


@pytest.mark.parametrize(
    ("key", "there"), [("zone", "n1 n2"), ("pool", "n1 n3"), ("node", "n1")], ids=("zone", "pool", "node")
)
def test_the_first_goes_anywhere_and_others_only_into_its_domain(key: str, there: str) -> None:
    bench, nodes = a_bench()
    work = near(bench, key)
    bench.place(work, c.SlotPlacement(0, nodes["n1"]))
    for name, uid in nodes.items():
        answer = bench.branch().send("scheduler/main", bench.proposal(work, c.SlotPlacement(1, uid)))
        assert isinstance(answer, Committed) == (name in there.split()), name


def test_within_one_proposal_the_first_counts_for_the_second() -> None:
    bench, nodes = a_bench()
    work = near(bench)
    bench.place(work, c.SlotPlacement(0, nodes["n1"]), c.SlotPlacement(1, nodes["n3"]), c.SlotPlacement(2, nodes["n2"]))
    assert [bench.slot(ordinal).phase for ordinal in range(3)] == [Phase.BOUND, Phase.PENDING, Phase.BOUND]


def test_a_refusal_says_what_is_not_there() -> None:
    bench, nodes = a_bench()
    work = near(bench)
    bench.place(work, c.SlotPlacement(0, nodes["n1"]))
    refused = bench.refuse_place(work, c.SlotPlacement(1, nodes["n4"]))
    assert (refused.code, "zone b has none of chat" in refused.message) == (Code.NEAR, True)


def test_a_preference_refuses_nothing_but_its_replicas_are_members() -> None:
    bench, nodes = a_bench()
    soft = bench.a_workload(a_template(near=(Near("chat"),)), count=2, uid=200, workload=2)
    hard = near(bench)
    bench.place(soft, c.SlotPlacement(0, nodes["n1"]), c.SlotPlacement(1, nodes["n3"]))
    bench.place(hard, c.SlotPlacement(0, nodes["n2"]), c.SlotPlacement(1, nodes["n4"]))


def test_whoever_is_kept_apart_in_the_group_is_a_member_and_another_tenant_is_not() -> None:
    bench, nodes = a_bench()
    group = a_template(apart=(Apart("chat"),))
    other = bench.a_workload(group, count=1, uid=200, workload=2, tenant="beta")
    bench.place(other, c.SlotPlacement(0, nodes["n4"]))
    work = near(bench)
    bench.branch().place(work, c.SlotPlacement(0, nodes["n1"]))
    mine = bench.a_workload(group, count=1, uid=300, workload=3)
    bench.place(mine, c.SlotPlacement(0, nodes["n3"]))
    assert bench.refuse_place(work, c.SlotPlacement(0, nodes["n1"])).code is Code.NEAR
    bench.place(work, c.SlotPlacement(0, nodes["n4"]))


def test_when_the_last_member_is_gone_the_next_may_go_anywhere() -> None:
    bench, nodes = a_bench()
    work = near(bench)
    bench.place(work, c.SlotPlacement(0, nodes["n1"]))
    assert bench.refuse_place(work, c.SlotPlacement(1, nodes["n4"])).code is Code.NEAR
    assert isinstance(bench.move("agent/n1", Phase.RELEASED, "declined"), Committed)
    assert members(bench.state) == {}
    bench.place(work, c.SlotPlacement(1, nodes["n4"]))


def members(state: RegionState) -> dict[tuple[str, str, str], int]:
    return dict(state.domain_members.items())


def test_members_are_counted_the_same_when_the_counts_are_built_anew() -> None:
    bench, nodes = a_bench()
    bench.place(near(bench), *(c.SlotPlacement(number, nodes["n1"]) for number in range(3)))
    assert members(bench.state)["acme/chat", "", ""] == 3
    assert members(bench.replay()) == members(bench.state)
    again = bench.state.fork()
    again.rebuild()
    assert members(again) == members(bench.state)
