"""The node table: its rows follow from the state alone, and what is taken from it comes back exactly."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources, times
from holdfast.core.region import commands as c
from holdfast.core.scheduling.nodes import table as table_module
from holdfast.core.scheduling.nodes.attributes import STALE_MAX, CodedColumn
from holdfast.core.scheduling.nodes.claims import DeviceClaim, RowClaim, device_claim
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers
from holdfast.core.scheduling.nodes.tie_break import place_of
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.step_counter import StepCounter


def a_table(bench: RegionBench, uids: list[int] | None = None) -> NodeTable:
    table = NodeTable()
    refresh(table, bench, *(uids if uids is not None else [uid for uid, _ in bench.state.nodes.items()]))
    return table


def refresh(table: NodeTable, bench: RegionBench, *uids: int) -> None:
    table.refresh(bench.state, uids, pack_revision(bench.state.info.seq, INDEX_MAX))


def free(table: NodeTable, uid: int, name: str = "cpu") -> tuple[int, int]:
    """For all work, and for firm work."""
    number, row = table.resources[name], table.rows[uid]
    return int(table.free_any[number, row]), int(table.free_firm[number, row])


def content(table: NodeTable) -> dict[str, Any]:
    """What filters, scores and choices can see of it, whatever numbers it uses inside."""
    resources = sorted(table.resources)
    marks = table.attributes
    return {
        "uids": table.uids.tolist(),
        "nodes": [node.name for node in table.nodes],
        "usable": table.usable.tolist(),
        "amounts": {
            name: (
                table.capacity[table.resources[name]].tolist(),
                table.free_any[table.resources[name]].tolist(),
                table.free_firm[table.resources[name]].tolist(),
            )
            for name in resources
        },
        "zones": [marks.zones.values[code] for code in marks.zones.codes.tolist()],
        "taints": [marks.taints.values[code] for code in marks.taints.codes.tolist()],
        "tenancies": [marks.tenancies.values[code] for code in marks.tenancies.codes.tolist()],
        "ports": table.devices.ports.tolist(),
        "devices": table.devices.free_any.sum(axis=0).tolist(),
    }


def some_nodes(bench: RegionBench) -> list[int]:
    uids = [bench.a_node(f"n{number}", cpu=1000 * number, zone="abc"[number % 3]) for number in range(1, 8)]
    uids.append(bench.a_node("gpu", gpus=("t4", "h100"), extended=(("fpga", 2),)))
    bench.accept(ROOT, c.AdministerNode(uids[2], cordoned=True, note="why", tenancy=("beta",)))
    return uids


# Rows


@pytest.mark.parametrize("seed", range(10))
def test_rows_follow_from_the_state_alone_in_whatever_order_nodes_came(seed: int) -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    expected = content(a_table(bench, uids))
    order = Random(seed).sample(uids, len(uids))
    one_by_one = NodeTable()
    for uid in order:
        refresh(one_by_one, bench, uid)
    in_two = NodeTable()
    refresh(in_two, bench, *order[:3])
    refresh(in_two, bench, *order)
    assert content(one_by_one) == expected
    assert content(in_two) == expected


def test_a_node_that_is_named_twice_has_one_row() -> None:
    bench = RegionBench()
    uid = bench.a_node()
    assert a_table(bench, [uid, uid]).uids.tolist() == [uid]


def test_the_rows_that_changed_last_are_known_though_another_changed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_module, "LATEST", 2)
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    uids = [bench.a_node(f"n{number}") for number in range(5)]
    table, work = a_table(bench), bench.a_workload(a_template(cpu=100), count=5)
    for number in (3, 0, 4):
        bench.place(work, c.SlotPlacement(number, uids[number]))
        refresh(table, bench, uids[number])
    assert sorted(table.uids[table.recent_rows()].tolist()) == [uids[0], uids[4]]


def test_rows_are_in_a_mixed_order_of_uids() -> None:
    bench = RegionBench()
    uids = [bench.a_node(f"n{number}") for number in range(12)]
    table = a_table(bench)
    assert sorted(table.uids.tolist()) == uids
    assert table.uids.tolist() != uids
    assert [node.uid for node in table.nodes] == table.uids.tolist()
    assert table.rows == {uid: row for row, uid in enumerate(table.uids.tolist())}


def test_no_two_nodes_have_one_place_and_where_that_is_never_changes() -> None:
    """A recorded decision is repeated by later versions: the rows it saw are the rows it sees."""
    assert len({place_of(uid) for uid in range(1, 5_000)}) == 4_999
    assert [place_of(uid) for uid in (1, 2, 1 << 40)] == [
        14555800124870461561, 7796372880487179078, 10301159706044168748,
    ]  # fmt: skip


def test_a_node_that_leaves_takes_its_row_along_and_nothing_else() -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    table = a_table(bench)
    bench.accept("ledger", EndSession(bench.sessions["agent/n4"], "silent"))
    bench.accept(ROOT, c.RemoveNode(uids[3]))
    refresh(table, bench, uids[3])
    assert uids[3] not in table.rows
    assert content(table) == content(a_table(bench))


def test_a_node_that_changes_is_described_anew() -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    table = a_table(bench)
    bench.accept(ROOT, c.AdministerNode(uids[0], draining=True, tenancy=("acme",), note="why"))
    bench.accept(ROOT, c.AdministerNode(uids[2]))
    refresh(table, bench, uids[0], uids[2])
    assert content(table) == content(a_table(bench))
    assert not table.usable[table.rows[uids[0]]]
    assert table.usable[table.rows[uids[2]]]


def test_labels_that_somebody_asked_for_follow_nodes_that_come_and_change() -> None:
    bench = RegionBench()
    first = bench.a_node("n1", labels=(("disk", "ssd"),))
    table = a_table(bench)
    table.attributes.labels("disk", table.nodes)
    second = bench.a_node("n2", labels=(("disk", "hdd"),))
    refresh(table, bench, second)
    bench.accept(ROOT, c.AdministerNode(first, labels=(("disk", "tape"),)))
    refresh(table, bench, first)
    column = table.attributes.labels("disk", table.nodes)
    found = {node.name: column.values[column.codes[row]] for row, node in enumerate(table.nodes)}
    assert found == {"n1": "tape", "n2": "hdd"}


# Amounts


def test_a_label_that_no_node_has_costs_no_column_and_no_walk_however_many_are_asked_for() -> None:
    bench = RegionBench(checked=False)
    for number in range(30):
        bench.a_node(f"n{number}", labels=(("disk", "ssd"),))
    table = a_table(bench)
    with StepCounter() as steps:
        for number in range(10):
            column = table.attributes.labels(f"mine-{number}", table.nodes)
            assert not (column.codes == column.code("yes")).any()
    assert steps.calls < 10 * 30
    assert table.attributes._labels == {}
    bench.a_node("later", labels=(("mine-7", "yes"),))
    refresh(table, bench, bench.state.node_names["later"])
    column = table.attributes.labels("mine-7", table.nodes)
    assert [table.nodes[row].name for row in np.flatnonzero(column.codes == column.code("yes"))] == ["later"]


def test_values_that_no_node_has_any_more_are_let_go_and_the_others_stay_what_they_are() -> None:
    column: CodedColumn[str] = CodedColumn(3)
    for row, value in enumerate(("first", "second", "third")):
        column.put(row, value)
    for number in range(1_000):
        column.put(1, f"name-{number}")
        assert len(column.values) <= 2 * 3 + STALE_MAX + 1
    assert [column.values[code] for code in column.codes] == ["first", "name-999", "third"]
    assert [column.code(value) for value in ("first", "name-999", "third")] == column.codes.tolist()
    assert column.values[0] == "first", "which stands for rows that nobody has described"


def test_what_is_free_is_counted_for_all_work_and_for_firm_work() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    uid = bench.a_node(cpu=8000)
    reclaimable = bench.a_workload(a_template(cpu=1000), count=1, priority_class="best-effort")
    firm = bench.a_workload(a_template(cpu=2000), count=1, uid=101, workload=2)
    bench.place(reclaimable, c.SlotPlacement(0, uid))
    bench.place(firm, c.SlotPlacement(0, uid))
    held = c.Hold(ReservationPurpose.DATED, uid, "quota/acme", bench.at + 10_000, Resources(500), tenant="acme")
    bench.accept(ROOT, held)
    assert free(a_table(bench), uid) == (8000 - 1000 - 2000, 8000 - 2000 - 500)


def test_a_resource_that_only_a_later_node_has_gets_a_row_of_its_own() -> None:
    bench = RegionBench()
    plain = bench.a_node("n1")
    table = a_table(bench)
    assert "fpga" not in table.resources
    special = bench.a_node("n2", extended=(("fpga", 3),))
    refresh(table, bench, special)
    assert free(table, special, "fpga") == (3, 3)
    assert free(table, plain, "fpga") == (0, 0)
    assert content(table) == content(a_table(bench))


def test_what_is_proposed_is_deducted_and_comes_back_exactly() -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    table = a_table(bench)
    before = content(table)
    need = Resources(300, 100, 5, 0, (("fpga", 1),))
    rows, counts = np.array([table.rows[uids[0]], table.rows[uids[7]]]), np.array([2, 1])
    table.take(rows, counts, need, firm=True)
    assert free(table, uids[0]) == (400, 400)
    assert free(table, uids[7], "fpga") == (1, 1)
    table.take(rows, counts, need, firm=False)
    assert free(table, uids[0]) == (-200, 400), "reclaimable work leaves the room of firm work alone"
    give(table, rows, counts, need, firm=False)
    give(table, rows, counts, need, firm=True)
    assert content(table) == before


def test_what_is_proposed_stays_deducted_while_the_node_changes_and_others_come_and_go() -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    table = a_table(bench)
    table.take(np.array([table.rows[uids[1]]]), np.array([1]), Resources(500), firm=True)
    bench.accept(ROOT, c.AdministerNode(uids[1], labels=(("disk", "ssd"),)))
    new = bench.a_node("n9", extended=(("tpu", 1),))
    bench.accept("ledger", EndSession(bench.sessions["agent/n5"], "silent"))
    bench.accept(ROOT, c.RemoveNode(uids[4]))
    refresh(table, bench, uids[1], new, uids[4])
    assert free(table, uids[1]) == (1500, 1500)
    give(table, np.array([table.rows[uids[1]]]), np.array([1]), Resources(500), firm=True)
    assert content(table) == content(a_table(bench))


# What has grown


def test_what_has_grown_is_told_once() -> None:
    bench = RegionBench()
    uids = some_nodes(bench)
    table = a_table(bench)
    assert sorted(table.improved_rows()) == list(range(len(uids))), "all of them are new"
    assert table.improved_rows() == []
    at, one = np.array([table.rows[uids[5]]]), np.array([1])
    table.take(at, one, Resources(500), firm=True)
    assert table.improved_rows() == []
    give(table, at, one, Resources(500), firm=True)
    assert table.improved_rows() == at.tolist()
    assert table.improved_rows() == []


def test_what_was_less_for_a_while_has_grown() -> None:
    """Somebody may have looked in between."""
    bench = RegionBench()
    uid = bench.a_node()
    table = a_table(bench)
    table.improved_rows()
    at, one = np.array([0]), np.array([1])
    table.take(at, one, Resources(500), firm=False)
    give(table, at, one, Resources(500), firm=False)
    assert table.improved_rows() == [table.rows[uid]]


def test_a_proposal_that_stands_now_has_not_grown() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    uid = bench.a_node(ports=(30_000, 30_003))
    work = bench.a_workload(a_template(cpu=500, ports=1), count=1)
    table = a_table(bench)
    table.improved_rows()
    need, at, one = work_need(), np.array([0]), np.array([1])
    taken = device_claim((), 1000, (30_000,), firm=True)
    table.take(at, one, need, firm=True)
    table.devices.take(0, uid, taken)
    table.improved_rows()
    bench.place(work, c.SlotPlacement(0, uid, ports=(30_000,)))
    give(table, at, one, need, firm=True)
    table.devices.give(uid, taken)
    refresh(table, bench, uid)
    assert table.improved_rows() == []
    assert int(table.devices.ports[0]) == 3


def give(table: NodeTable, rows: Numbers, counts: Numbers, need: Resources, *, firm: bool) -> None:
    """Count as many slots as proposed no more as `take` with these arguments counted as proposed."""
    named = zip(rows.tolist(), counts.tolist(), strict=True)
    table.give([RowClaim(row, times(need, count), count, firm, "") for row, count in named])


def work_need() -> Resources:
    return a_template(cpu=500).need


def test_a_node_whose_use_changed_has_grown_whatever_it_has() -> None:
    bench = RegionBench()
    uid = bench.a_node()
    other = bench.a_node("n2")
    table = a_table(bench)
    table.improved_rows()
    bench.accept(ROOT, c.AdministerNode(uid, labels=(("disk", "ssd"),)))
    refresh(table, bench, uid, other)
    assert table.improved_rows() == [table.rows[uid]]


# Devices and ports


def test_devices_are_counted_each_by_itself() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    uid = bench.a_node(gpus=("t4", "h100", "h100"))
    half = a_template(gpus=1, gpu_milli=500)
    work = bench.a_workload(half, count=2)
    bench.place(work, c.SlotPlacement(0, uid, (1,)))
    table = a_table(bench)
    assert table.devices.free_any[:, 0].tolist() == [1000, 500, 1000]
    assert table.devices.pick(0, half, firm=True) == (1,), "what is begun is used up first"
    assert table.devices.pick(0, a_template(gpus=2), firm=True) == (0, 2)
    only = a_template(gpus=1, gpu_models=("h100",))
    assert table.devices.pick(0, only, firm=True) == (2,)
    assert table.devices.pick(0, a_template(gpus=3), firm=True) == (0, 2), "too few: the caller counts them"


def test_what_the_devices_of_a_node_have_left_is_known_without_looking_at_each() -> None:
    bench, chance = RegionBench(), Random(4)
    for number, devices in enumerate((0, 1, 2, 4)):
        bench.a_node(f"n{number}", gpus=("t4",) * devices)
    table = a_table(bench)
    asked = [a_template(gpus=1, gpu_milli=milli) for milli in (1, 250, 500, 1000)]
    asked += [a_template(gpus=gpus) for gpus in (2, 3, 4)]
    taken: list[tuple[int, int, DeviceClaim]] = []
    for _ in range(200):
        row, firm, template = chance.randrange(4), chance.random() < 0.5, chance.choice(asked)
        picked = table.devices.pick(row, template, firm=firm)
        if len(picked) == template.gpus:
            taken.append((row, int(table.uids[row]), device_claim(picked, template.gpu_milli, (), firm=firm)))
            table.devices.take(*taken[-1])
        elif taken:
            row, uid, one = taken.pop(chance.randrange(len(taken)))
            table.devices.give(uid, one)
            table.devices.recount([row], table.nodes, table.usages)
        for template, firm in product(asked, (True, False)):
            accepted = table.devices.accepted(template, slice(0, 4), firm=firm).sum(axis=0)
            enough = table.devices.enough(template, slice(0, 4), firm=firm)
            assert enough.tolist() == (accepted >= template.gpus).tolist()


def test_a_node_that_lost_its_devices_has_none_left() -> None:
    bench = RegionBench()
    uid = bench.a_node(gpus=("t4", "t4"))
    table = a_table(bench)
    asked = a_template(gpus=1), a_template(gpus=2), a_template(gpus=1, gpu_milli=1)
    assert all(table.devices.enough(one, slice(0, 1), firm=True).all() for one in asked)
    bench.a_node()
    refresh(table, bench, uid)
    assert not any(table.devices.enough(one, slice(0, 1), firm=True).any() for one in asked)


def test_devices_and_ports_that_are_proposed_come_back_exactly() -> None:
    bench = RegionBench()
    uid = bench.a_node(gpus=("t4", "t4"), ports=(30_000, 30_004))
    table = a_table(bench)
    before = content(table)
    first = device_claim((0,), 500, (30_000, 30_001), firm=True)
    second = device_claim((0,), 500, (30_002,), firm=False)
    table.devices.take(0, uid, first)
    table.devices.take(0, uid, second)
    assert table.devices.free_any[:, 0].tolist() == [0, 1000]
    assert table.devices.free_firm[:, 0].tolist() == [500, 1000]
    assert table.devices.pick_ports(table.nodes[0], table.usages[0], 3) == (30_003, 30_004)
    refresh(table, bench, uid)
    assert table.devices.free_any[:, 0].tolist() == [0, 1000], "a newer view does not forget it"
    for taken in (first, second):
        table.devices.give(uid, taken)
    refresh(table, bench, uid)
    assert content(table) == before


def register(bench: RegionBench, uid: int, **fields: Any) -> None:
    """The agent says something else of its node."""
    node = bench.state.nodes[uid]
    devices = fields.get("devices", node.devices)
    gpu = sum(device.milli for device in devices)
    capacity = Resources(node.capacity.cpu, node.capacity.memory, node.capacity.disk, gpu)
    ports = fields.get("ports", node.ports)
    bench.accept(f"agent/{node.name}", c.RegisterNode(node.name, node.pool, node.zone, capacity, devices, ports))


@pytest.mark.parametrize(
    ("ports", "free_ports"),
    [((0, 0), 0), ((30_001, 30_004), 4), ((30_000, 30_001), 1), ((40_000, 40_000), 1)],
)
def test_ports_are_those_of_the_range_that_the_node_has_now(ports: tuple[int, int], free_ports: int) -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    uid = bench.a_node(ports=(30_000, 30_004))
    work = bench.a_workload(a_template(ports=1), count=1)
    bench.place(work, c.SlotPlacement(0, uid, ports=(30_000,)))
    table = a_table(bench)
    assert table.devices.ports.tolist() == [4]
    register(bench, uid, ports=ports)
    refresh(table, bench, uid)
    assert table.devices.ports.tolist() == [free_ports]
    assert content(table) == content(a_table(bench))


def test_ports_that_were_proposed_come_back_to_the_range_that_the_node_has_then() -> None:
    bench = RegionBench()
    uid = bench.a_node(ports=(30_000, 30_004))
    table = a_table(bench)
    taken = device_claim((), 1000, (30_000,), firm=True)
    table.devices.take(0, uid, taken)
    register(bench, uid, ports=(30_001, 30_002))
    refresh(table, bench, uid)
    table.devices.give(uid, taken)
    table.devices.recount([0], table.nodes, table.usages)
    assert table.devices.ports.tolist() == [2]


def test_a_node_that_has_other_devices_now_is_counted_by_them() -> None:
    bench = RegionBench()
    uid = bench.a_node(gpus=("t4", "t4"))
    table = a_table(bench)
    register(bench, uid, devices=(Device("h100"),))
    refresh(table, bench, uid)
    assert table.devices.pick(0, a_template(gpus=2), firm=True) == (0,)
    assert table.devices.pick(0, a_template(gpus=1, gpu_models=("t4",)), firm=True) == ()
    register(bench, uid, devices=())
    refresh(table, bench, uid)
    assert table.devices.pick(0, a_template(gpus=1), firm=True) == ()
