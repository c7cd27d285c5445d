"""What packing owes a region with devices: least capacity becomes useless for the requests that are typical there."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.policies import PlacementStrategy, PolicyDocument
from holdfast.core.model.objects.workloads import Template
from holdfast.core.region import commands as c
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import profile_for
from holdfast.core.scheduling.nodes.typical_shapes import SHAPES_MAX, ShapeCounts, TypicalShape
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.scores.fragmentation import FragmentationScore
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower
from tests.support.node_windows import a_bench, scored, seen

#: A typical request: one device, four cores beside it.
TYPICAL = a_template(cpu=4_000, memory=1_000, gpus=1)


def taught(bench: RegionBench, template: Template) -> NodeWindow:
    """All nodes as a slot sees them, with the typical shapes of their region."""
    window = seen(bench, template)
    window.table.useful.learn(ShapeCounts().of(bench.state), window.table.devices.models)
    return window


def wants(bench: RegionBench, template: Template, count: int = 8, uid: int = 900) -> None:
    bench.a_workload(template, count=count, uid=uid, workload=uid)


def test_work_without_devices_keeps_off_nodes_with_devices_while_others_have_room() -> None:
    bench = a_bench()
    bench.a_node("gpu", cpu=64_000, memory=64_000, gpus=("t4",))
    bench.a_node("empty", cpu=8_000, memory=8_000)
    fuller = bench.a_node("fuller", cpu=8_000, memory=8_000)
    wants(bench, TYPICAL)
    bench.place(bench.a_workload(a_template(2_000, 2_000), count=1), c.SlotPlacement(0, fuller))
    found = scored(FragmentationScore(), taught(bench, a_template(1_000, 1_000)))
    assert found["fuller"] > found["empty"] > found["gpu"]


def test_work_without_devices_goes_where_it_starves_no_device_of_cpu() -> None:
    """Packing takes the node that is fuller, though its idle devices then lack their cores."""
    bench = a_bench()
    bench.a_node("tight", cpu=16_000, memory=64_000, gpus=("t4",) * 4)
    bench.a_node("ample", cpu=64_000, memory=64_000, gpus=("t4",) * 4)
    wants(bench, TYPICAL)
    found = scored(FragmentationScore(), taught(bench, a_template(4_000, 1_000)))
    assert found["ample"] > found["tight"]
    assert scored(BUILT_IN_PACKING, taught(bench, a_template(4_000, 1_000)))["tight"] > 0


BUILT_IN_PACKING = next(one for one in BUILT_IN.scores if one.name == "packing")


def test_a_device_that_has_no_cpu_left_beside_it_costs_nothing() -> None:
    bench = a_bench()
    bench.a_node("starved", cpu=1_000, memory=64_000, gpus=("t4",) * 2)
    bench.a_node("whole", cpu=8_000, memory=64_000, gpus=("t4",) * 2)
    wants(bench, TYPICAL)
    found = scored(FragmentationScore(), taught(bench, a_template(500, 500, gpus=1)))
    assert found["starved"] > found["whole"]


def test_memory_counts_as_cpu_does() -> None:
    bench = a_bench()
    bench.a_node("tight", cpu=64_000, memory=4_000, gpus=("t4",) * 4)
    bench.a_node("ample", cpu=64_000, memory=64_000, gpus=("t4",) * 4)
    wants(bench, TYPICAL)
    found = scored(FragmentationScore(), taught(bench, a_template(1_000, 2_000)))
    assert found["ample"] > found["tight"]


def test_models_that_no_typical_request_accepts_are_used_first() -> None:
    bench = a_bench()
    bench.a_node("old", cpu=64_000, memory=64_000, gpus=("p100",))
    bench.a_node("new", cpu=64_000, memory=64_000, gpus=("t4",))
    wants(bench, a_template(cpu=4_000, memory=1_000, gpus=1, gpu_models=("t4",)))
    found = scored(FragmentationScore(), taught(bench, a_template(1_000, 1_000, gpus=1)))
    assert found["old"] > found["new"]


def test_a_node_with_all_devices_idle_is_kept_for_requests_of_several() -> None:
    bench = a_bench()
    bench.a_node("four", cpu=64_000, memory=64_000, gpus=("t4",) * 4)
    bench.a_node("one", cpu=64_000, memory=64_000, gpus=("t4",))
    wants(bench, a_template(cpu=4_000, memory=1_000, gpus=4))
    found = scored(FragmentationScore(), taught(bench, a_template(1_000, 1_000, gpus=1)))
    assert found["one"] > found["four"]


def test_it_says_nothing_where_no_node_has_devices() -> None:
    bench = a_bench()
    bench.a_node("n1", cpu=4_000)
    assert scored(FragmentationScore(), taught(bench, a_template(1_000))) == {}


@pytest.mark.parametrize(
    ("strategy", "devices", "weighed"),
    [
        (PlacementStrategy.PACK, False, {"packing": 3, "balance": 1}),
        (PlacementStrategy.PACK, True, {"fragmentation": 16}),
        (PlacementStrategy.SPREAD, True, {"emptiness": 3, "balance": 1}),
    ],
    ids=str,
)
def test_packing_asks_what_becomes_useless_where_nodes_have_devices(
    strategy: PlacementStrategy, devices: bool, weighed: dict[str, int]
) -> None:
    found = {
        one.score.name: one.weight for one in profile_for(BUILT_IN, PolicyDocument(strategy), devices=devices).weighed
    }
    assert weighed.items() <= found.items()
    assert not {"fragmentation", "packing", "balance", "emptiness"} & (found.keys() - weighed.keys())


def test_a_share_takes_the_device_from_which_typical_shares_lose_least() -> None:
    """The smallest free part would lose the one half that it still holds."""
    bench = a_bench()
    node = bench.a_node("n1", cpu=64_000, memory=64_000, gpus=("t4",) * 2)
    wants(bench, a_template(cpu=1_000, memory=100, gpus=1, gpu_milli=500))
    for index, (milli, uid) in enumerate(((400, 200), (100, 300))):
        begun = bench.a_workload(a_template(100, 100, gpus=1, gpu_milli=milli), count=1, uid=uid, workload=uid)
        bench.place(begun, c.SlotPlacement(0, node, (index,)))
    small = a_template(100, 100, gpus=1, gpu_milli=200)
    table = taught(bench, small).table
    assert table.devices.pick(0, small, firm=True) == (0,), "without the measure: the smallest part that is enough"
    table.devices.by_use = True
    assert table.devices.pick(0, small, firm=True) == (1,)


def test_typical_is_what_slots_need_placed_or_waiting_in_powers_of_two() -> None:
    bench = a_bench()
    node = bench.a_node("n1", cpu=64_000, memory=64_000, gpus=("t4",))
    wants(bench, a_template(1_000, 1_000), count=9, uid=100)
    few, many = a_template(2_000, 500, gpus=1), a_template(1_000, 100, gpus=1, gpu_milli=300)
    bench.place(bench.a_workload(few, count=1, uid=200, workload=200), c.SlotPlacement(0, node, (0,)))
    wants(bench, many, count=6, uid=300)
    counts = ShapeCounts()
    found = counts.of(bench.state)
    assert found == (TypicalShape(1_000, 100, 1, 300, (), 819), TypicalShape(2_000, 500, 1, 1_000, (), 204))
    wants(bench, many, count=1, uid=400)
    assert counts.of(bench.state)[0].weight > 819, "the number of uses has passed a power of two"
    assert counts.of(bench.state) == ShapeCounts().of(bench.state)


def test_only_the_shapes_that_need_most_of_the_devices_are_typical() -> None:
    bench = a_bench()
    for number in range(SHAPES_MAX + 2):
        wants(bench, a_template(1_000 + number, 100, gpus=1), count=4 if number else 1, uid=100 + number)
    found = ShapeCounts().of(bench.state)
    assert len(found) == SHAPES_MAX
    assert all(one.cpu != 1_000 for one in found)


def test_a_scheduler_packs_devices_by_what_it_learns_from_the_state() -> None:
    """Two nodes have room for the small slot. One of them has just the cores that its idle devices need."""
    bench = a_bench()
    bench.a_node("tight", cpu=8_000, memory=64_000, gpus=("t4",) * 2)
    ample = bench.a_node("ample", cpu=64_000, memory=64_000, gpus=("t4",) * 2)
    small = bench.a_workload(a_template(4_000, 100), count=1, uid=100, workload=100)
    taken = bench.a_workload(TYPICAL, count=1, uid=200, workload=200)
    bench.place(taken, c.SlotPlacement(0, ample, (0,)))
    follower = Follower(bench)
    attempt = follower.step()
    assert attempt is not None
    (group,) = attempt.command.groups
    assert group.assignment == small.uid
    assert [one.node for one in group.placements] == [ample]
    assert ("fragmentation", "1") in attempt.decision.plugins
