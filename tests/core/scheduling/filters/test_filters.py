"""Each filter: which nodes pass, and that all of them together agree with the ledger's gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.objects.topology import Taint, Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from holdfast.core.region.queries.feasibility import admits, fits
from holdfast.core.region.state.node_tenants import tenants_on
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.fill import Rejected
from holdfast.core.scheduling.filters.capacity import CapacityFilter
from holdfast.core.scheduling.filters.condition import ConditionFilter
from holdfast.core.scheduling.filters.devices import DevicesFilter
from holdfast.core.scheduling.filters.labels import LabelsFilter
from holdfast.core.scheduling.filters.models import ModelsFilter
from holdfast.core.scheduling.filters.ports import PortsFilter
from holdfast.core.scheduling.filters.taints import TaintsFilter
from holdfast.core.scheduling.filters.tenancy import TenancyFilter
from holdfast.core.scheduling.filters.zones import ZonesFilter
from holdfast.core.scheduling.framework import SchedulingProfile
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.selection import apply_filters
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench, a_template
from tests.support.node_windows import a_bench, an_ask, passing, seen, table_of


def a_varied_region() -> RegionBench:
    """Nodes that differ in everything that a filter asks about; n4 and n5 have work of both kinds."""
    bench = a_bench()
    bench.a_node("n1", cpu=2000, memory=4096, zone="a", labels=(("disk", "ssd"),))
    bench.a_node("n2", cpu=8000, memory=2048, zone="b", gpus=("h100", "l4"))
    bench.a_node("n3", cpu=8000, memory=16384, zone="c", ports=(30_000, 30_000), extended=(("fpga", 2),))
    n4 = bench.a_node("n4", cpu=4000, memory=8192, zone="b", gpus=("h100",))
    n5 = bench.a_node("n5", cpu=4000, memory=8192, zone="a", labels=(("disk", "hdd"),))
    firm = bench.a_workload(a_template(3000, 1024), count=1)
    shared = a_template(3000, 1024, gpus=1, gpu_milli=600)
    loose = bench.a_workload(shared, count=1, uid=200, workload=2, priority_class="best-effort")
    bench.place(firm, c.SlotPlacement(0, n5))
    bench.place(loose, c.SlotPlacement(0, n4, (0,)))
    return bench


def administered(**said: Any) -> RegionBench:
    """Two nodes, of which the operator has said something about the second."""
    bench = a_bench()
    bench.a_node("n1")
    n2 = bench.a_node("n2")
    if said:
        bench.accept(ROOT, c.AdministerNode(n2, **said))
    return bench


def test_capacity_asks_for_every_resource_that_is_needed() -> None:
    bench = a_varied_region()
    for template, nodes in (
        (a_template(0, 0), "n1 n2 n3 n4 n5"),
        (a_template(2000, 1024), "n1 n2 n3"),
        (a_template(2000, 4096), "n1 n3"),
        (a_template(2001, 4096), "n3"),
        (a_template(1000, 1024), "n1 n2 n3 n4 n5"),
        (a_template(500, 512, extended=(("fpga", 2),)), "n3"),
        (a_template(500, 512, extended=(("fpga", 3),)), ""),
        (a_template(500, 512, extended=(("never-heard-of", 1),)), ""),
    ):
        assert passing(CapacityFilter(), seen(bench, template)) == nodes, template.need


def test_held_room_is_kept_from_firm_work_and_lent_to_what_can_be_taken_back() -> None:
    bench = a_bench()
    node, ends = bench.a_node("n1", cpu=4000), bench.at + 60_000
    need = a_template(3000, 1024).need
    hold = c.Hold(ReservationPurpose.ROOM, node, "quota/acme", ends, need=need, tenant="acme")
    bench.accept(SCHEDULER, hold)
    assert passing(CapacityFilter(), seen(bench, a_template(2000, 1024))) == ""
    assert passing(CapacityFilter(), seen(bench, a_template(2000, 1024), firm=False)) == "n1"


def test_a_held_device_is_kept_from_firm_work_and_lent_to_what_can_be_taken_back() -> None:
    bench = a_bench()
    node, template = bench.a_node("n1", gpus=("t4",)), a_template(gpus=1)
    hold = c.Hold(
        ReservationPurpose.ROOM, node, "quota/acme", bench.at + 60_000, template.need, tenant="acme", devices=(0,)
    )
    bench.accept(SCHEDULER, hold)
    assert passing(DevicesFilter(), seen(bench, template)) == ""
    assert passing(DevicesFilter(), seen(bench, template, firm=False)) == "n1"


def test_devices_are_counted_whole_or_in_shares_whatever_their_model() -> None:
    bench = a_varied_region()
    for template, nodes in (
        (a_template(), "n1 n2 n3 n4 n5"),
        (a_template(gpus=1), "n2"),
        (a_template(gpus=2), "n2"),
        (a_template(gpus=3), ""),
        (a_template(gpus=1, gpu_milli=400), "n2 n4"),
        (a_template(gpus=1, gpu_milli=401), "n2"),
    ):
        assert passing(DevicesFilter(), seen(bench, template)) == nodes, template


def test_a_model_is_asked_for_among_the_devices_that_are_free() -> None:
    bench = a_varied_region()
    for models, gpus, nodes in (
        ((), 1, "n1 n2 n3 n4 n5"),
        (("h100",), 1, "n2"),
        (("h100", "l4"), 2, "n2"),
        (("h100",), 2, ""),
        (("never-heard-of",), 1, ""),
    ):
        assert passing(ModelsFilter(), seen(bench, a_template(gpus=gpus, gpu_models=models))) == nodes, (models, gpus)


def test_ports_are_counted() -> None:
    bench = a_varied_region()
    assert passing(PortsFilter(), seen(bench, a_template())) == "n1 n2 n3 n4 n5"
    assert passing(PortsFilter(), seen(bench, a_template(ports=1))) == "n1 n2 n3 n4 n5"
    assert passing(PortsFilter(), seen(bench, a_template(ports=2))) == "n1 n2 n4 n5"


def test_every_required_label_has_its_value() -> None:
    bench = a_varied_region()
    for require, nodes in (
        ((), "n1 n2 n3 n4 n5"),
        ((("disk", "ssd"),), "n1"),
        ((("disk", "hdd"),), "n5"),
        ((("disk", "ssd"), ("rack", "7")), ""),
        ((("rack", "7"),), ""),
    ):
        assert passing(LabelsFilter(), seen(bench, a_template(require=require))) == nodes, require


@pytest.mark.parametrize(
    ("tolerate", "nodes"),
    [
        ((), "n1"),
        ((Toleration("gpu"),), "n1 n2"),
        ((Toleration("gpu", "yes"),), "n1 n2"),
        ((Toleration("gpu", "no"),), "n1"),
    ],
)
def test_a_taint_keeps_out_what_does_not_tolerate_it(tolerate: tuple[Toleration, ...], nodes: str) -> None:
    bench = administered(taints=(Taint("gpu", "yes"),))
    assert passing(TaintsFilter(), seen(bench, a_template(tolerate=tolerate))) == nodes


def test_a_node_that_is_kept_for_some_tenants_takes_no_others() -> None:
    bench = administered(tenancy=("acme", "gamma"))
    assert passing(TenancyFilter(), seen(bench, a_template())) == "n1 n2"
    assert passing(TenancyFilter(), seen(bench, a_template(), tenant="beta")) == "n1"


def test_a_node_that_is_cordoned_drains_or_has_no_session_is_not_used() -> None:
    assert passing(ConditionFilter(), seen(administered(cordoned=True, note="disk"), a_template())) == "n1"
    assert passing(ConditionFilter(), seen(administered(draining=True, note="disk"), a_template())) == "n1"
    bench = administered()
    bench.open_session("agent/n2")  # a new life that has not registered its node yet
    assert passing(ConditionFilter(), seen(bench, a_template())) == "n1"


def test_a_node_whose_agent_does_not_keep_the_times_is_not_used_for_exclusive_work() -> None:
    """The ledger would refuse it there, again and again."""
    bench = a_bench()
    short = replace(DEFAULTS, session_lease=3_000, grace=2_000, kill_margin=1_000, fence_time=6_100)
    bench.accept(ROOT, Configure(short))
    bench.a_node("n1", overrun=3_000)
    bench.a_node("n2")
    assert passing(ConditionFilter(), seen(bench, a_template(), exclusive=True)) == "n1"
    assert passing(ConditionFilter(), seen(bench, a_template())) == "n1 n2"
    assert an_ask(a_template(), exclusive=True).kind != an_ask(a_template()).kind, "they are not looked for together"


def test_a_node_that_is_left_alone_is_not_used() -> None:
    window = seen(administered(), a_template())
    window.table.quarantined[window.table.nodes.index(next(one for one in window.table.nodes if one.name == "n1"))] = (
        True
    )
    assert passing(ConditionFilter(), window) == "n2"


def test_a_zone_is_avoided_while_people_say_so() -> None:
    bench = a_varied_region()
    assert passing(ZonesFilter(), seen(bench, a_template())) == "n1 n2 n3 n4 n5"
    assert passing(ZonesFilter(), seen(bench, a_template(), avoided=("a", "c", "never-heard-of"))) == "n2 n4"


def test_what_a_filter_kept_out_is_counted_by_its_code_and_detail_among_those_that_were_left() -> None:
    bench = a_varied_region()
    rejected: Rejected = {}
    template = a_template(3000, 4096, require=(("disk", "ssd"),))
    passes = apply_filters(SchedulingProfile(BUILT_IN.filters, (), True), seen(bench, template), rejected)
    assert not np.any(passes)
    assert rejected == {(Code.LABELS, "disk=ssd"): 4, (Code.CAPACITY, "cpu"): 1}


templates = st.builds(
    a_template,
    st.sampled_from([0, 500, 1000, 3000]),
    st.sampled_from([0, 1024, 4096]),
    gpus=st.sampled_from([0, 0, 1, 2]),
    gpu_milli=st.just(1000),
    gpu_models=st.sampled_from([(), (), ("h100",), ("l4", "t4")]),
    ports=st.sampled_from([0, 0, 1, 2]),
    require=st.sampled_from([(), (), (("disk", "ssd"),), (("disk", "hdd"),)]),
    tolerate=st.sampled_from([(), (Toleration("gpu"),)]),
    extended=st.sampled_from([(), (), (("fpga", 1),)]),
)


@given(
    template=templates,
    tenant=st.sampled_from(["acme", "beta"]),
    firm=st.booleans(),
    cordoned=st.sampled_from([0, 1, 3]),
)
@settings(max_examples=150, deadline=None)
def test_filters_and_the_ledgers_gates_agree_on_every_node(
    template: Template, tenant: str, firm: bool, cordoned: int
) -> None:
    bench = _administered_region(cordoned)
    table = table_of(bench)
    window = NodeWindow(table, an_ask(template, tenant=tenant, firm=firm), slice(0, table.count))
    passes = apply_filters(SchedulingProfile(BUILT_IN.filters, (), True), window, {})
    for row, node in enumerate(table.nodes):
        room = bench.state.node_usage.get(node.uid) or EMPTY_USAGE
        devices = table.devices.pick(row, template, firm=firm) if template.gpus else ()
        ports = table.devices.pick_ports(node, room, template.ports)
        there = tenants_on(bench.state, node)
        gate = admits(node, template, tenant, there) or fits(node, room, template, devices, ports, firm=firm)
        assert bool(passes[row]) == (gate is None), (node.name, gate)


_REGIONS: dict[int, RegionBench] = {}


def _administered_region(cordoned: int) -> RegionBench:
    if cordoned not in _REGIONS:
        bench = _REGIONS[cordoned] = a_varied_region()
        names = bench.state.node_names
        bench.accept(ROOT, c.AdministerNode(names["n2"], taints=(Taint("gpu", "yes"),)))
        bench.accept(ROOT, c.AdministerNode(names["n3"], tenancy=("beta",)))
        if cordoned:
            bench.accept(ROOT, c.AdministerNode(names[f"n{cordoned}"], cordoned=True, note="disk"))
    return _REGIONS[cordoned]
