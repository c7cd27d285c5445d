"""What an agent is told of its node: all that stands there and concerns it, what waits, and what was another's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.agent.bindings import BoundSlot, bindings_of_node, tenants_begun
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.commands import RegisterNode, SlotPlacement
from tests.support.ledgers.region import RegionBench, a_template


def a_bench() -> tuple[RegionBench, int]:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    return bench, bench.a_node()


def told(bench: RegionBench, node: int) -> list[BoundSlot]:
    return bindings_of_node(bench.state, node, bench.at)


def test_an_agent_is_told_what_is_bound_to_its_node_and_not_what_is_reserved_there() -> None:
    bench, node = a_bench()
    assert told(bench, node) == []
    work = bench.a_workload(count=2)
    bench.place(work, SlotPlacement(0, node), bind=False)
    bench.place(work, SlotPlacement(1, node))
    assert [(one.slot, one.phase, one.waits) for one in told(bench, node)] == [((1, 1), Phase.BOUND, False)]


def test_a_successor_waits_until_its_victims_are_gone() -> None:
    bench, node = a_bench()
    victims = bench.a_workload(a_template(cpu=4_000), count=2, disruption=2)
    bench.place(victims, SlotPlacement(0, node), SlotPlacement(1, node))
    critical = bench.a_workload(
        a_template(cpu=4_000), count=1, uid=200, workload=2, workload_name="heir", priority_class="critical"
    )
    bench.at += DEFAULTS.preempt_after
    bench.place(critical, SlotPlacement(0, node, waits_for=((1, 0),)))
    waits = {one.slot: one.waits for one in told(bench, node)}
    assert waits == {(1, 0): False, (1, 1): False, (2, 0): True}
    bench.move("agent/n1", Phase.RELEASED, "stopped")
    assert {one.slot: one.waits for one in told(bench, node)} == {(1, 1): False, (2, 0): False}


@pytest.mark.parametrize(("later_by", "exclusive", "moved"), [(0, True, False), (1, True, True), (1, False, False)])
def test_what_is_exclusive_was_bound_to_another_machine_if_this_one_came_later(
    later_by: int, exclusive: bool, moved: bool
) -> None:
    bench, node = a_bench()
    work = bench.a_workload(count=1)
    bench.place(work, SlotPlacement(0, node))
    bench.state.assignments.put(work.uid, replace(work, exclusive=exclusive, ordinals=((0, 1),)))
    since = bench.slot().epoch + later_by
    bench.state.nodes.put(node, replace(bench.state.nodes[node], machine_since=since))
    assert [one.moved for one in told(bench, node)] == [moved]


@pytest.mark.parametrize("shares_user", [False, True])
def test_where_one_tenant_is_at_a_time_it_is_known_whose_work_has_begun(shares_user: bool) -> None:
    bench, node = a_bench()
    work = bench.a_workload(count=2)
    bench.place(work, SlotPlacement(0, node), SlotPlacement(1, node))
    known = bench.state.nodes[node]
    registered = RegisterNode("n1", "general", "a", known.capacity, (), (30_000, 30_009), shares_user=shares_user)
    assert tenants_begun(told(bench, node), registered) == {}, "nothing has begun yet"
    bench.walk(Phase.STARTING, 1)
    assert tenants_begun(told(bench, node), registered) == ({} if shares_user else {"acme": None})
