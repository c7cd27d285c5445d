"""Ports: a node hands out those of its range, each once, and never port 0, which means any port to who listens."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Node, ports_of
from holdfast.core.model.values.limits import NODE_PORTS_MAX
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.queries.feasibility import fits_ports
from holdfast.core.scheduling.nodes.table import NodeTable
from tests.support.ledgers.region import RegionBench, a_template


def a_node(first: int, last: int) -> Node:
    return Node("n1", 1, 1, "general", "a", Resources(1000), ports=(first, last))


@pytest.mark.parametrize(
    ("named", "there"), [((0, 0), []), ((0, 2), [1, 2]), ((3, 3), [3]), ((65_535, 65_535), [65_535])]
)
def test_a_node_hands_out_its_range_without_port_0(named: tuple[int, int], there: list[int]) -> None:
    node = a_node(*named)
    assert list(ports_of(node)) == there
    assert [port for port in (0, 1, 2, 3, 65_535) if fits_ports(node, EMPTY_USAGE, 1, (port,)) is None] == there
    assert list(NodeTable().devices.pick_ports(node, EMPTY_USAGE, 9)) == there


def test_port_0_is_refused_on_a_node_without_ports() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node("n1", ports=(0, 0))
    work = bench.a_workload(a_template(ports=1), count=1)
    refused = bench.refuse_place(work, c.SlotPlacement(0, node, ports=(0,)))
    assert (refused.code, "0 is none of a node that has no ports" in refused.message) == (Code.PORT, True)


@pytest.mark.parametrize("ports", [(0, 9), (9, 3), (1, 65_536), (-1, 9)])
def test_a_node_that_names_port_0_or_no_range_is_not_registered(ports: tuple[int, int]) -> None:
    bench = RegionBench()
    bench.open_session("agent/n1")
    node = c.RegisterNode("n1", "general", "a", Resources(1000), ports=ports)
    refused = bench.refuse("agent/n1", node)
    assert refused.code is Code.MALFORMED
    assert refused.message.startswith("ports must be a range within 1 to 65535")
    bench.accept("agent/n1", replace(node, ports=(65_535 - NODE_PORTS_MAX + 1, 65_535)))
    many = bench.refuse("agent/n1", replace(node, ports=(1, NODE_PORTS_MAX + 1)))
    assert many.message == f"{NODE_PORTS_MAX + 1} ports; a node hands out at most {NODE_PORTS_MAX}"
