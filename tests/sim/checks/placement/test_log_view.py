"""What the judge of placements takes from a log, and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import events as e
from holdfast.sim.checks.placement.log_view import RegionLogView
from tests.support.ledgers.region import RegionBench, a_template, an_assignment


@pytest.mark.parametrize(("exclusive", "found"), [(False, {"a", "b"}), (True, {"b"})])
def test_a_zone_whose_agents_outlive_the_fence_is_none_for_identities(exclusive: bool, found: set[str]) -> None:
    bench, log = RegionBench(), RegionLogView()
    for name, zone in (("n1", "a"), ("n2", "b")):
        node = bench.state.nodes[bench.a_node(name, zone=zone)]
        log.take(e.NodeStored(replace(node, overrun=DEFAULTS.fence_time if zone == "a" else 0)))
    work = an_assignment(template=a_template(cpu=100), count=1, exclusive=exclusive)
    template = work.shares[0].template
    log.take(e.TemplateReceived(template, a_template(cpu=100)))
    log.take(e.AssignmentReceived(work))
    placed = e.SlotsPlaced(work.uid, work.workload, template, "", True, True, 0, 0, ())
    assert log.domains(placed, "zone", bench.at, DEFAULTS) == found
