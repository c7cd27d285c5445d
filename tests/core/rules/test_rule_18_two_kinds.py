"""RULES 18: an invariant of the second kind may be broken from outside; it is then open, and never grows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.topology import Taint, TaintEffect
from holdfast.core.model.records.breaches import REGION_ALLOWED, REGION_CAPACITY, REGION_RESIDENCY
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import (
    AdministerNode,
    CloseBreach,
    RegisterNode,
    ShippedAssignment,
    ShippedRegion,
    SlotPlacement,
    Stop,
)
from holdfast.core.region.queries.breaches import allowed_overshoots
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench

REPAIR = "controller/repair"


def a_region() -> tuple[RegionBench, int]:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=8000)
    bench.a_grant()
    work = bench.a_workload(count=9)
    bench.place(work, *(SlotPlacement(ordinal, node) for ordinal in range(4)))
    return bench, node


def test_a_node_that_shrinks_opens_a_breach_with_owner_and_deadline_and_takes_nothing_more() -> None:
    bench, node = a_region()
    bench.a_node(cpu=3000)
    breach = bench.state.breaches[REGION_CAPACITY, f"node/{node}/cpu"]
    assert (breach.overshoot, breach.owner) == (1000, REPAIR)
    assert breach.deadline > bench.at
    assert bench.refuse_place(bench.state.assignments[100], SlotPlacement(5, node)).code is Code.CAPACITY


def test_a_breach_closes_when_it_is_cured_and_not_before() -> None:
    bench, node = a_region()
    bench.a_node(cpu=3000)
    close = CloseBreach(REGION_CAPACITY, f"node/{node}/cpu")
    assert bench.refuse(REPAIR, close).code is Code.TOO_EARLY
    bench.accept(REPLICA, Stop(((1, 0),), "scaled-down"))
    bench.move("agent/n1", Phase.RELEASED, "stopped")
    bench.accept(REPAIR, close)
    assert bench.refuse(REPAIR, close).code is Code.NOT_FOUND


def test_a_second_fact_from_outside_may_deepen_a_breach_and_is_recorded() -> None:
    bench, node = a_region()
    bench.a_node(cpu=3000)
    bench.a_node(cpu=1000)
    assert bench.state.breaches[REGION_CAPACITY, f"node/{node}/cpu"].overshoot == 3000


def test_an_evicting_taint_opens_a_breach_for_what_stands_there_and_a_refusing_one_does_not() -> None:
    bench, node = a_region()
    bench.accept(ROOT, AdministerNode(node, taints=(Taint("gpu", "", TaintEffect.REFUSE),)))
    assert bench.state.breaches.is_empty()
    bench.accept(ROOT, AdministerNode(node, taints=(Taint("gpu", "", TaintEffect.EVICT),)))
    assert bench.state.breaches[REGION_ALLOWED, f"node/{node}"].overshoot == 4


def test_a_node_given_to_another_tenant_opens_a_breach() -> None:
    bench, node = a_region()
    bench.accept(ROOT, AdministerNode(node, tenancy=("other",)))
    assert bench.state.breaches[REGION_ALLOWED, f"node/{node}"].overshoot == 4


def test_a_jurisdiction_that_changes_opens_a_breach_and_nothing_more_is_placed() -> None:
    bench, node = a_region()
    work = replace(bench.state.assignments[100], jurisdictions=("eu",))
    bench.ship(ShippedAssignment(work))
    bench.ship(ShippedRegion("eu", "us"))
    assert bench.state.breaches[REGION_RESIDENCY, "assignment/100"].overshoot == 4
    assert bench.refuse_place(work, SlotPlacement(5, node)).code is Code.RESIDENCY


def test_a_breach_that_grows_keeps_the_deadline_it_was_opened_with() -> None:
    bench, node = a_region()
    bench.a_node(cpu=3000)
    first = bench.state.breaches[REGION_CAPACITY, f"node/{node}/cpu"]
    bench.at += 60_000
    bench.a_node(cpu=1000)
    grown = bench.state.breaches[REGION_CAPACITY, f"node/{node}/cpu"]
    assert (grown.overshoot, grown.opened, grown.deadline) == (3000, first.opened, first.deadline)


def test_what_breaks_again_after_its_cure_has_a_deadline_of_its_own() -> None:
    bench, node = a_region()
    bench.a_node(cpu=1000)
    bench.a_node(cpu=8000)
    bench.at += 3_600_000
    bench.a_node(cpu=3000)
    broken = bench.state.breaches[REGION_CAPACITY, f"node/{node}/cpu"]
    assert (broken.overshoot, broken.opened) == (1000, bench.at)


@pytest.mark.parametrize("name", ["cpu", "memory", "disk", "gpu", "device/0"])
def test_no_extended_resource_is_called_like_something_else(name: str) -> None:
    """Of `cpu` more would be placed than there is, and nobody would ever stop what is too much of `device/0`."""
    bench = RegionBench()
    bench.open_session("agent/n1")
    capacity = Resources(1000, 1000, extended=((name, 10),))
    refused = bench.refuse("agent/n1", RegisterNode("n1", "general", "a", capacity))
    assert refused.code is Code.MALFORMED
    assert name in refused.message


# At the limit


def test_a_node_of_which_much_is_broken_is_looked_at_once_when_more_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each resource and device may be too small for what stands there, and ten thousand slots do."""
    looks: list[int] = []

    def counted(state: Any, node: Any) -> Any:
        looks.append(node.uid)
        return allowed_overshoots(state, node)

    bench, node = a_region()
    bench.a_node(cpu=3000, memory=1024)
    assert len(bench.state.breaches) == 2
    monkeypatch.setattr("holdfast.core.region.queries.breaches.allowed_overshoots", counted)
    bench.checked = False
    bench.a_node(cpu=2000, memory=512)
    assert looks == [node, node], "as it will be, and as it is"
    assert {breach.overshoot for _, breach in bench.state.breaches.items()} == {2000, 3584}
