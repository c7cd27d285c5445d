"""Which replicas are in the list of endpoints, and what each of them is asked."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.model.objects.probes import ExecProbe, HttpProbe, Probe, TcpProbe
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.queries.endpoints import EndpointCheck, check_for, is_listed, is_published
from tests.support.ledgers.region import RegionBench, a_template

HOST = "10.0.0.1"


def ready(address: str = HOST, ports: int = 2, batch: bool = False, **fields: Any) -> RegionBench:
    """A replica that is ready, on a node with an address."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node(address=address)
    work = bench.a_workload(a_template(ports=ports, **fields), count=1, batch=batch)
    bench.place(work, SlotPlacement(0, node, ports=tuple(range(30_000, 30_000 + ports))))
    bench.walk(Phase.READY)
    return bench


@pytest.mark.parametrize(
    ("readiness", "check"),
    [
        (None, EndpointCheck(HOST, 30_000)),
        (Probe(http=HttpProbe("/healthy", port=1)), EndpointCheck(HOST, 30_001, "/healthy")),
        (Probe(tcp=TcpProbe(port=1)), EndpointCheck(HOST, 30_000)),
        (Probe(exec=ExecProbe(("true",))), EndpointCheck(HOST, 30_000)),
    ],
)
def test_an_endpoint_is_asked_as_its_readiness_over_http_and_else_whether_it_takes_a_connection(
    readiness: Probe | None, check: EndpointCheck
) -> None:
    bench = ready(readiness=readiness)
    assert check_for(bench.state, bench.slot()) == check


@pytest.mark.parametrize(
    ("fields", "published"),
    [({"ports": 0}, True), ({"address": ""}, True), ({"batch": True}, False)],
)
def test_what_has_no_port_or_no_address_is_not_listed_and_what_completes_serves_nobody(
    fields: dict[str, Any], published: bool
) -> None:
    bench = ready(**fields)
    assert is_published(bench.state, bench.slot()) is published
    assert not is_listed(bench.state, bench.slot())
    assert check_for(bench.state, bench.slot()) is None


def test_it_is_listed_while_it_is_ready_or_serves() -> None:
    bench = ready()
    assert is_listed(bench.state, bench.slot())
    bench.move("controller/endpoints", Phase.SERVING, "published")
    assert is_listed(bench.state, bench.slot())
    bench.move("agent/n1", Phase.FAILED, "exit")
    assert not is_listed(bench.state, bench.slot())
