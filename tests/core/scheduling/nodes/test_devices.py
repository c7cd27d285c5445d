"""Which devices of a node a slot gets: the fullest that have enough left, for all work and for firm work."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.workloads import Template
from holdfast.core.scheduling.nodes.claims import device_claim
from holdfast.core.scheduling.nodes.table import NodeTable
from tests.core.scheduling.nodes.test_table import a_table, refresh
from tests.support.ledgers.region import RegionBench, a_template


def asking(gpus: int = 1, milli: int = 500, *models: str) -> Template:
    return a_template(gpus=gpus, gpu_milli=milli, gpu_models=models)


@pytest.fixture
def shared() -> tuple[NodeTable, int]:
    """Four devices: of 0 little is left, of 1 some, of 2 some that firm work has not, of 3 all, and it is another."""
    bench = RegionBench()
    uid = bench.a_node(gpus=("l4", "l4", "l4", "h100"))
    table = a_table(bench)
    row = table.rows[uid]
    for index, milli, firm in ((0, 700, True), (1, 400, True), (2, 300, True)):
        table.devices.take(row, uid, device_claim((index,), milli, (), firm=firm))
    table.devices.free_firm[2, row] = 400
    return table, row


@pytest.mark.parametrize(
    ("template", "firm", "picked"),
    [
        (asking(milli=300), True, (0,)),
        (asking(milli=500), True, (1,)),
        (asking(milli=500), False, (1,)),
        (asking(milli=700), True, (3,)),
        (asking(milli=700), False, (2,)),
        (asking(2, 500), True, (1, 3)),
        (asking(2, 500), False, (1, 2)),
        (asking(1, 500, "h100"), True, (3,)),
        (asking(1, 500, "h100", "l4"), True, (1,)),
        (asking(3, 700), False, (2, 3)),
    ],
)
def test_a_slot_gets_the_fullest_devices_that_have_enough_left(
    shared: tuple[NodeTable, int], template: Template, firm: bool, picked: tuple[int, ...]
) -> None:
    """Of too few all there are: whoever asks has seen before that the node has them."""
    table, row = shared
    assert table.devices.pick(row, template, firm=firm) == picked
    enough = table.devices.accepted(template, slice(row, row + 1), firm=firm)[:, 0].tolist()
    assert set(picked) <= {index for index, is_enough in enumerate(enough) if is_enough}


@pytest.mark.parametrize(("firm", "left"), [(True, (400, 400)), (False, (400, 1_000))])
def test_what_is_proposed_of_a_device_is_taken_when_its_node_is_counted_anew(firm: bool, left: tuple[int, int]) -> None:
    bench = RegionBench()
    uid = bench.a_node(gpus=("l4",))
    table = a_table(bench)
    table.devices.take(0, uid, device_claim((0,), 600, (), firm=firm))
    bench.a_node(gpus=("l4",), cpu=9_000)
    refresh(table, bench, uid)
    assert (table.devices.free_any.item(0, 0), table.devices.free_firm.item(0, 0)) == left
