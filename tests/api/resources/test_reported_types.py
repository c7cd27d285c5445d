"""What regions have told is shown with the workloads and regions it is about, and its schema accepts it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from msgspec.structs import replace

from holdfast.api.kinds import KINDS
from holdfast.api.resources import schemas
from holdfast.api.resources.rendering import view_of_row
from holdfast.api.resources.reported_types import VIEWS_BY_KIND
from holdfast.api.resources.schemas import parse_object
from holdfast.api.serialization.registry import parse, render
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.region_reports import (
    Failing,
    Nodes,
    RegionSummary,
    TemplateCounts,
    Trouble,
    Waiting,
    WorkloadReport,
)
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import T0, PlatformBench, a_template, a_workload, a_world, cpu

OLD, NEW = template_digest(a_template()), template_digest(a_template(command="v2"))
SIZE = Resources(cpu=8_000, memory=16_384)
ROW = Nodes(
    pool="small", labels=(("disk", "ssd"),), taints=(Taint("gpu", "only"),), tenancy=("acme",), models=("a100",),
    count=2, capacity=Resources(cpu=16_000, memory=32_768), free=cpu(500), largest=(SIZE,), largest_free=(cpu(500),),
)  # fmt: skip


def shown(bench: PlatformBench, plural: str, key: Any) -> dict[str, Any]:
    """The document, which its schema accepts and which reads back."""
    kind = KINDS[plural]
    table: Any = bench.state.workloads if plural == "workloads" else bench.state.regions
    tree: dict[str, Any] = render(view_of_row(kind, bench.state, key, table[key]))
    jsonschema_rs.validate(schemas.kind_schema(kind.name, shown=True), tree)
    parse(VIEWS_BY_KIND[kind.name], tree)
    return tree


def test_a_workload_that_no_region_speaks_of_shows_what_is_assigned() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    assert shown(bench, "workloads", web)["status"]["regions"] == []
    bench.assign(web, "eu", 2)
    (one,) = shown(bench, "workloads", web)["status"]["regions"]
    assert (one["region"], one["template"], one["assigned"], one["bound"], one["generation"]) == ("eu", OLD, 2, 0, 0)


def test_each_region_and_template_shows_what_its_region_said_last() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.assign(web, "eu", 2)
    bench.assign(web, "us", 1)
    bench.put(a_workload(template=a_template(command="v2")))
    bench.assign(web, "eu", 2)
    waiting = Waiting("capacity", 1, T0, "2 nodes lack cpu")
    failing = Failing("exit", 1, "n1", "exit code 3")
    seen = WorkloadReport(web, 2, (TemplateCounts(OLD, 1, 1, 1), TemplateCounts(NEW, 1, 0, 0)), (waiting,), (failing,))
    bench.accept("region/eu", c.Report("eu", 1, (seen,)))
    rows = shown(bench, "workloads", web)["status"]["regions"]
    counts = ("region", "template", "assigned", "bound", "ready", "serving", "generation")
    assert sorted([one[name] for name in counts] for one in rows) == sorted(
        [["eu", OLD, 0, 1, 1, 1, 2], ["eu", NEW, 2, 1, 0, 0, 2], ["us", OLD, 1, 0, 0, 0, 0]]
    )
    assert [len(one["waiting"]) for one in rows] == [1, 0, 0]
    assert rows[0]["waiting"][0]["message"] == "2 nodes lack cpu"
    assert [one["failing"] for one in rows] == [
        [{"code": "exit", "count": 1, "node": "n1", "detail": "exit code 3"}], [], [],
    ]  # fmt: skip
    assert all(one["reportedAt"] for one in rows)


def test_what_waits_is_shown_even_where_nothing_is_assigned_any_more() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    ended = bench.assign(web, "eu", 1)
    bench.accept("region/eu", c.Report("eu", 1, (WorkloadReport(web, 1, (), (Waiting("capacity", 1, T0),)),)))
    bench.accept("controller/assignment", c.EndAssignment(ended))
    (one,) = shown(bench, "workloads", web)["status"]["regions"]
    assert (one["region"], one["template"], one["assigned"], len(one["waiting"])) == ("eu", "", 0, 1)


def test_a_document_that_is_shown_can_be_written_back() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.assign(web, "eu", 2)
    assert parse_object(shown(bench, "workloads", web)).spec == bench.workload().spec
    bench.accept("region/eu", c.Report("eu", 1, (), RegionSummary(nodes=(ROW,))))
    assert parse_object(shown(bench, "regions", "eu")).spec == bench.state.regions["eu"].spec


def test_a_region_shows_its_summary_and_when_it_told_it() -> None:
    bench = a_world()
    assert shown(bench, "regions", "eu")["status"]["summary"] is None
    trouble = Trouble("silent-nodes", 1, T0, "n7")
    bench.accept("region/eu", c.Report("eu", 1, (), RegionSummary(nodes=(ROW,), troubles=(trouble,))))
    summary = shown(bench, "regions", "eu")["status"]["summary"]
    assert summary["at"].startswith("2023-11-14T")
    (nodes,) = summary["nodes"]
    assert (nodes["pool"], nodes["labels"], nodes["count"]) == ("small", {"disk": "ssd"}, 2)
    assert (nodes["free"], nodes["largest"]) == ({"cpu": "500m"}, [{"cpu": 8, "memory": "16Gi"}])
    assert summary["issues"][0]["message"] == "n7"


def test_what_single_tenants_are_charged_is_not_shown_to_all_who_see_the_region() -> None:
    bench = a_world()
    uses = (("quota/acme", cpu(1_000)), ("quota/beta", cpu(2_000)), ("recovery/reserve", cpu(500)))
    bench.accept("region/eu", c.Report("eu", 1, (), replace(RegionSummary(nodes=(ROW,)), uses=uses)))
    shown_uses = shown(bench, "regions", "eu")["status"]["summary"]["uses"]
    assert shown_uses == {"quota": {"cpu": 3}, "recovery/reserve": {"cpu": "500m"}}
