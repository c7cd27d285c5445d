"""What agents say of their nodes: where these are reached, and how they fare."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.records.nodes import MACHINE_NAME_MAX, Device, Machine, NodeReport
from holdfast.core.model.values.limits import NODE_PORTS_MAX
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.limits import LOAD_EVERY_MS, NAME_MAX
from tests.support.ledgers.region import ROOT, RegionBench

AGENT = "agent/n1"


def a_bench() -> tuple[RegionBench, int]:
    bench = RegionBench()
    return bench, bench.a_node("n1")


def report(cpu: int = 0, memory: int = 0, *present: str) -> c.ReportNode:
    return c.ReportNode("n1", cpu, memory, present)


@pytest.mark.parametrize("address", ["", "n1.example", "10.0.0.7", "fe80::1%eth0"])
def test_a_node_says_where_its_ports_are_reached(address: str) -> None:
    bench, node = a_bench()
    if address:
        bench.a_node("n1", address=address)
    assert bench.state.nodes[node].address == address


@pytest.mark.parametrize("address", ["http://n1", "n1/x", "n 1", "n1\r\n", "x" * 254])
def test_what_is_no_address_is_refused(address: str) -> None:
    bench, _ = a_bench()
    command = c.RegisterNode("n1", "general", "a", Resources(1000), address=address)
    assert bench.refuse(AGENT, command).code is Code.MALFORMED


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({"name": ""}, False),
        ({"name": "n" * NAME_MAX}, True),
        ({"zone": ""}, False),
        ({"pool": ""}, False),
        ({"devices": (Device("l4", 0),)}, False),
        ({"devices": (Device("l4", 1),)}, True),
        ({"devices": (Device("l4", 1000),)}, True),
        ({"devices": (Device("l4", 1001),)}, False),
        ({"ports": (0, 0)}, True),
        ({"ports": (0, 1)}, False),
        ({"ports": (1, 1)}, True),
        ({"ports": (2, 1)}, False),
        ({"ports": (65_535, 65_535)}, True),
        ({"ports": (65_535, 65_536)}, False),
        ({"ports": (1, NODE_PORTS_MAX)}, True),
        ({"ports": (1, NODE_PORTS_MAX + 1)}, False),
        ({"machine": Machine("m" * MACHINE_NAME_MAX, "h", "b")}, True),
        ({"machine": Machine("m", "h", "b" * (MACHINE_NAME_MAX + 1))}, False),
        ({"machine": Machine("m", "h\n", "b")}, False),
        ({"overrun": 0}, True),
        ({"overrun": -1}, False),
        ({"capabilities": ("b", "a")}, False),
        ({"tenant": "Acme"}, False),
    ],
)
def test_a_node_registers_with_a_name_a_place_and_amounts_within_their_bounds(
    fields: dict[str, Any], is_taken: bool
) -> None:
    bench = RegionBench()
    node: dict[str, Any] = {"name": "n1", "zone": "a", "pool": "general", "devices": ()} | fields
    node["capacity"] = Resources(1000, 1000, 1000, sum(device.milli for device in node["devices"]))
    bench.open_session(f"agent/{node['name']}")
    answer = bench.send(f"agent/{node['name']}", c.RegisterNode(**node))
    assert isinstance(answer, Committed) if is_taken else isinstance(answer, Refused) and answer.code is Code.MALFORMED


def test_a_report_is_kept_with_its_time_and_leaves_the_node_as_it_is() -> None:
    bench, uid = a_bench()
    node = bench.state.nodes[uid]
    bench.at += 7
    bench.accept(AGENT, report(40, 70, "model-7", "web"))
    assert bench.state.node_reports[uid] == NodeReport(40, 70, ("model-7", "web"), bench.at)
    assert bench.state.nodes[uid] is node


def test_what_is_known_is_not_told_again() -> None:
    bench, _ = a_bench()
    assert bench.refuse(AGENT, report()).code is Code.ALREADY
    bench.accept(AGENT, report(40))
    bench.at += LOAD_EVERY_MS
    assert bench.refuse(AGENT, report(40)).code is Code.ALREADY


def test_load_alone_is_told_once_a_minute_and_what_lies_ready_whenever_it_changes() -> None:
    bench, _ = a_bench()
    bench.accept(AGENT, report(40))
    bench.at += LOAD_EVERY_MS - 1
    refused = bench.refuse(AGENT, report(50))
    assert (refused.code, refused.facts["until"]) == (Code.TOO_EARLY, bench.at + 1)
    bench.accept(AGENT, report(50, 0, "web"))
    bench.accept(AGENT, report(60, 0, "api", "web"))
    bench.at += LOAD_EVERY_MS
    bench.accept(AGENT, report(50, 0, "api", "web"))


@pytest.mark.parametrize(
    "wrong",
    [
        report(15),
        report(0, 110),
        report(-10),
        report(0, 0, "b", "a"),
        report(0, 0, "a", "a"),
        report(0, 0, ""),
        report(0, 0, "x" * 201),
        report(0, 0, *(f"f{number:03}" for number in range(129))),
    ],
    ids=str,
)
def test_a_report_that_is_not_well_put_is_refused(wrong: c.ReportNode) -> None:
    bench, _ = a_bench()
    assert bench.refuse(AGENT, wrong).code is Code.MALFORMED


def test_an_agent_speaks_of_its_own_node_in_the_session_in_which_it_registered_it() -> None:
    bench, _ = a_bench()
    bench.a_node("n2")
    assert bench.refuse("agent/n2", report(10)).code is Code.NOT_OWNER
    bench.open_session(AGENT)
    assert bench.refuse(AGENT, report(10)).code is Code.NOT_OWNER
    bench.a_node("n1")
    bench.accept(AGENT, report(10))
    bench.open_session("agent/n3")
    assert bench.refuse("agent/n3", c.ReportNode("n3", 10, 0)).code is Code.NOT_FOUND


def test_with_a_node_goes_what_was_said_of_it() -> None:
    bench, uid = a_bench()
    bench.accept(AGENT, report(10))
    bench.accept("controller/node-health", EndSession(bench.sessions[AGENT], "silent"))
    bench.accept(ROOT, c.RemoveNode(uid))
    assert uid not in bench.state.node_reports
