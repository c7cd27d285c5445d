"""Whether a workload could ever fit: "never" is never said wrongly, and names the nearest miss."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.topology import Taint, Toleration
from holdfast.core.model.objects.workloads import Latency, Placement, Template
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Device, Node, label_value
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_max
from holdfast.core.platform import commands as c
from holdfast.core.platform.queries.feasibility import capacity_for, could_ever_hold, fits
from holdfast.core.region.queries.feasibility import feasible
from tests.support.ledgers.platform import ACME, PlatformBench, a_region, a_template, a_workload, a_world, cpu

BIG = Resources(cpu=32_000, memory=65_536)


def some(count: int = 1, size: Resources = BIG, free: Resources | None = None, **fields: Any) -> Nodes:
    left = size if free is None else free
    defaults: dict[str, Any] = {
        "pool": "small", "labels": (), "taints": (), "tenancy": (), "models": (), "count": count, "capacity": size,
        "free": left, "largest": (size,), "largest_free": (left,),
    }  # fmt: skip
    return Nodes(**{**defaults, **fields})


def tell(bench: PlatformBench, region: str, *nodes: Nodes, position: int = 1) -> None:
    bench.accept(f"region/{region}", c.Report(region, position, (), RegionSummary(nodes=nodes)))


def judged(bench: PlatformBench, name: str = "web") -> Condition:
    return next(one for one in bench.workload(name).status.conditions if one.type == "Fits")


# One region


def test_a_region_that_has_told_of_no_nodes_has_said_nothing() -> None:
    assert could_ever_hold(RegionSummary(), a_template(), "acme") is None
    assert could_ever_hold(RegionSummary(nodes=(some(0),)), a_template(), "acme") is None
    assert capacity_for(RegionSummary(), a_template(), "acme", 5) is None


GATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"need": cpu(32_001)}, {}),
    ({"need": Resources(extended=(("licence", 1),))}, {}),
    ({"require": (("disk", "ssd"),)}, {"labels": (("disk", "hdd"),)}),
    ({}, {"taints": (Taint("gpu", "only"),)}),
    ({"tolerate": (Toleration("gpu", "else"),)}, {"taints": (Taint("gpu", "only"),)}),
    ({}, {"tenancy": ("beta",)}),
    ({"isolation": Isolation.STRICT}, {}),
    ({"isolation": Isolation.STRICT}, {"capabilities": (Capability.USERS,)}),
    ({"gpus": 1, "gpu_models": ("a100",)}, {"models": ("t4",)}),
]
OPEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"need": BIG}, {}),
    ({"require": (("disk", "ssd"),)}, {"labels": (("disk", "ssd"), ("rack", "r1"))}),
    ({"tolerate": (Toleration("gpu"),)}, {"taints": (Taint("gpu", "only"),)}),
    ({}, {"tenancy": ("acme", "beta")}),
    ({"isolation": Isolation.STRICT}, {"capabilities": STRICT}),
    ({"gpus": 1, "gpu_models": ("a100", "h100")}, {"models": ("h100", "t4")}),
    ({"gpus": 1}, {"models": ("t4",)}),
]


@pytest.mark.parametrize(("template", "nodes"), GATES)
def test_each_gate_that_is_shut_keeps_it_out(template: dict[str, Any], nodes: dict[str, Any]) -> None:
    summary = RegionSummary(nodes=(some(**nodes),))
    assert could_ever_hold(summary, Template(**template), "acme") is False
    assert capacity_for(summary, Template(**template), "acme", 5) == 0


@pytest.mark.parametrize(("template", "nodes"), OPEN)
def test_each_gate_that_is_open_lets_it_in(template: dict[str, Any], nodes: dict[str, Any]) -> None:
    summary = RegionSummary(nodes=(some(**nodes),))
    assert could_ever_hold(summary, Template(**template), "acme") is True
    assert capacity_for(summary, Template(**template), "acme", 1) == 1


def test_a_need_must_fit_into_one_node_and_not_into_the_best_of_two() -> None:
    pieces = (Resources(cpu=64_000, memory=1_024), Resources(cpu=1_000, memory=65_536))
    summary = RegionSummary(nodes=(some(2, largest=pieces),))
    assert could_ever_hold(summary, Template(need=Resources(cpu=2_000, memory=2_048)), "acme") is False


def test_there_is_no_room_where_no_free_piece_is_large_enough() -> None:
    shattered = some(8, free=Resources(cpu=8_000), largest_free=(Resources(cpu=1_000),))
    assert capacity_for(RegionSummary(nodes=(shattered,)), a_template(2_000), "acme", 9) == 0
    assert could_ever_hold(RegionSummary(nodes=(shattered,)), a_template(2_000), "acme") is True


def test_room_adds_up_over_rows_and_ends_at_what_is_asked_for() -> None:
    summary = RegionSummary(nodes=(some(free=cpu(3_000)), some(free=cpu(1_700)), some(tenancy=("beta",))))
    assert capacity_for(summary, a_template(1_000), "acme", 9) == 4
    assert capacity_for(summary, a_template(1_000), "acme", 2) == 2
    assert capacity_for(summary, Template(), "acme", 7) == 7


# All regions


def test_a_workload_that_fits_somewhere_is_told_so_at_once() -> None:
    bench = a_world()
    tell(bench, "us", some())
    bench.put(a_workload())
    assert judged(bench) == Condition(
        type="Fits",
        status=ConditionStatus.TRUE,
        reason=ConditionReason.AS_DESIRED,
        since=bench.at,
        observed_generation=1,
    )


def test_what_fits_nowhere_is_taken_all_the_same_and_told_the_nearest_miss() -> None:
    bench = a_world()
    for region, size in (("eu", 16_000), ("us", 32_000), ("us2", 8_000)):
        tell(bench, region, some(size=Resources(cpu=size)))
    bench.put(a_workload(template=a_template(64_000)))
    found = judged(bench)
    assert (found.status, found.reason) == (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    assert found.message == "needs 64 cpu; the largest node of us has 32"


def test_only_regions_where_it_may_be_are_asked() -> None:
    bench = a_world()
    bench.put(a_region("eu", "EU", paris=5))
    bench.put(a_region("us", "US", paris=90))
    tell(bench, "us", some())
    tell(bench, "eu", some(size=cpu(1_000)))
    near = Placement(latency=(Latency(client="paris", limit=10),))
    for number, placement in enumerate((Placement(regions=("eu",)), Placement(jurisdictions=("EU",)), near)):
        bench.put(a_workload(f"w{number}", template=a_template(2_000), placement=placement))
        assert judged(bench, f"w{number}").message == "needs 2 cpu; the largest node of eu has 1"


def test_while_one_region_has_not_told_nobody_says_never() -> None:
    bench = a_world()
    tell(bench, "eu", some())
    tell(bench, "us", some())
    bench.put(a_workload(template=a_template(64_000)))
    assert (judged(bench).status, judged(bench).message) == (
        ConditionStatus.UNKNOWN,
        "us2 has not reported its nodes",
    )
    bench.retire("us2")
    assert fits(bench.state, bench.workload()).status is ConditionStatus.FALSE


def test_a_changed_spec_is_judged_anew_at_the_change() -> None:
    bench = a_world()
    for region in ("eu", "us", "us2"):
        tell(bench, region, some())
    bench.put(a_workload())
    began = judged(bench).since
    bench.later(10)
    bench.put(a_workload(template=a_template(64_000)))
    found = judged(bench)
    assert (found.status, found.since, found.observed_generation) == (ConditionStatus.FALSE, bench.at, 2)
    bench.later(10)
    bench.put(a_workload(template=a_template(48_000)))
    assert judged(bench).since == found.since != began
    bench.refuse(Code.ALREADY, ACME, c.PutWorkload(a_workload(template=a_template(48_000))))


def test_labels_of_the_workload_alone_leave_the_judgement_as_it_was() -> None:
    bench = a_world()
    bench.put(a_workload())
    before = judged(bench)
    tell(bench, "eu", some())
    changed = a_workload()
    bench.accept(ACME, c.PutWorkload(replace(changed, meta=replace(changed.meta, labels=(("app", "web"),)))))
    assert judged(bench) == before


MISSES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"need": Resources(memory=131_072)}, {}, "needs 128Gi memory; the largest node of eu has 64Gi"),
    ({"need": Resources(extended=(("licence", 2),))}, {}, "needs 2 licence; the largest node of eu has none"),
    (
        {"require": (("disk", "ssd"),)},
        {},
        "the nodes of eu in pool small do not have the label disk=ssd",
    ),
    (
        {},
        {"taints": (Taint("gpu", "only"),)},
        "the nodes of eu in pool small have the taint gpu=only, which it does not tolerate",
    ),
    ({}, {"tenancy": ("beta",)}, "the nodes of eu in pool small are kept for other tenants"),
    (
        {"gpus": 1, "gpu_models": ("a100", "h100"), "need": Resources(gpu=1_000)},
        {"models": ("t4",)},
        "the nodes of eu in pool small have no GPU of the models a100, h100",
    ),
]


@pytest.mark.parametrize(("template", "nodes", "message"), MISSES)
def test_the_message_says_what_keeps_it_out(template: dict[str, Any], nodes: dict[str, Any], message: str) -> None:
    bench = a_world()
    tell(bench, "eu", some(**nodes))
    bench.put(a_workload(template=Template(**template), regions=("eu",)))
    assert judged(bench).message == message


def test_what_is_only_too_small_is_nearer_than_what_is_for_others() -> None:
    bench = a_world()
    tell(bench, "eu", some(tenancy=("beta",), size=cpu(64_000)), some(size=cpu(100)))
    bench.put(a_workload(template=a_template(64_000), regions=("eu",)))
    assert judged(bench).message == "needs 64 cpu; the largest node of eu has 100m"


# Against the one function that says whether a template fits a node

amounts = st.integers(0, 3)
resources = st.builds(
    lambda cpu, memory, licences: Resources(
        cpu=cpu, memory=memory, extended=(("licence", licences),) if licences else ()
    ),
    amounts, amounts, amounts,
)  # fmt: skip
few_labels = st.dictionaries(st.sampled_from(("disk", "rack")), st.sampled_from("ab")).map(
    lambda found: tuple(sorted(found.items()))
)
taints = st.lists(st.builds(Taint, st.sampled_from(("gpu", "spot")), st.sampled_from(("", "x"))), max_size=1).map(tuple)
tenancies = st.sampled_from(((), ("acme",), ("beta",)))
devices = st.lists(st.builds(Device, st.sampled_from(("a100", "t4"))), max_size=2).map(tuple)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    capacity, found = draw(resources), draw(devices)
    return Node(
        name="n", uid=1, revision=1, pool=draw(st.sampled_from(("small", "large"))), zone="z",
        capacity=replace(capacity, gpu=1_000 * len(found)), devices=found, ports=(1, 9),
        reported_labels=draw(few_labels), labels=draw(few_labels), taints=draw(taints), tenancy=draw(tenancies),
        session=7,
    )  # fmt: skip


@st.composite
def templates(draw: st.DrawFn) -> Template:
    gpus, need = draw(st.integers(0, 2)), draw(resources)
    return Template(
        need=replace(need, gpu=1_000 * gpus), gpus=gpus, ports=draw(st.integers(0, 1)), require=draw(few_labels),
        gpu_models=draw(st.sampled_from(((), ("a100",), ("a100", "t4")))),
        tolerate=draw(st.lists(st.builds(Toleration, st.sampled_from(("gpu", "spot"))), max_size=2).map(tuple)),
    )  # fmt: skip


def summarised(found: list[Node], most: int) -> RegionSummary:
    """Nodes by pool, labels, taints and tenancy; where there are many sizes, they are merged upward."""
    rows: dict[Any, list[Node]] = {}
    for node in found:
        keys = sorted({key for key, _ in (*node.labels, *node.reported_labels)})
        labels = tuple((key, label_value(node, key) or "") for key in keys)
        rows.setdefault((node.pool, labels, node.taints, node.tenancy), []).append(node)
    told = []
    for (pool, labels, marks, tenancy), members in sorted(rows.items(), key=repr):
        sizes = [node.capacity for node in members]
        largest, total = ZERO, ZERO
        for size in sizes:
            largest, total = elementwise_max(largest, size), add(total, size)
        models = tuple(sorted({device.model for node in members for device in node.devices}))
        pieces = tuple(sizes) if len(sizes) <= most else (largest,)
        told.append(Nodes(pool, labels, marks, tenancy, models, len(members), total, total, pieces, pieces))
    return RegionSummary(nodes=tuple(told))


def holds(node: Node, template: Template) -> bool:
    """Whether the empty node takes it, on some of its devices."""
    ports = tuple(range(1, 1 + template.ports))
    choices = combinations(range(len(node.devices)), template.gpus)
    return any(feasible(node, EMPTY_USAGE, template, "acme", chosen, ports) is None for chosen in choices)


@given(found=st.lists(nodes(), min_size=1, max_size=6), template=templates(), most=st.integers(1, 4))
def test_never_is_said_only_where_no_node_could_hold_it(found: list[Node], template: Template, most: int) -> None:
    could = could_ever_hold(summarised(found, most), template, "acme")
    if any(holds(node, template) for node in found):
        assert could is True
        assert (capacity_for(summarised(found, most), template, "acme", 1)) == 1


@given(found=st.lists(nodes(), min_size=1, max_size=3), template=templates())
def test_of_plain_work_and_single_nodes_the_answer_is_exact(found: list[Node], template: Template) -> None:
    plain = replace(template, gpus=0, gpu_models=(), need=replace(template.need, gpu=0))
    could = could_ever_hold(summarised(found, 4), plain, "acme")
    assert could is any(holds(node, plain) for node in found)


@pytest.mark.parametrize(("pieces", "room"), [((400, 2_000), 4), ((2_000, 400), 4), ((400, 900), 0)])
def test_one_free_piece_that_is_large_enough_makes_room(pieces: tuple[int, ...], room: int) -> None:
    """The others count for what is free in all."""
    nodes = some(free=cpu(4_000), largest_free=tuple(map(cpu, pieces)))
    assert capacity_for(RegionSummary(nodes=(nodes,)), Template(need=cpu(1_000)), "acme", 9) == room
