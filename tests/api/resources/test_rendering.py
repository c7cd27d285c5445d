"""Rows of both ledgers as documents: each has a view that its schema accepts, and a name that finds it again."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from msgspec.structs import replace

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.api.resources import schemas
from holdfast.api.resources.lookup import find_row
from holdfast.api.resources.rendering import view_of_row
from holdfast.api.resources.tables import iter_rows, name_of, tenant_of
from holdfast.api.serialization.objects import ObjectSerializer
from holdfast.api.serialization.registry import parse, render
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.workloads import Template, Workload, WorkloadSpec
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.metadata import Deletion, Meta
from holdfast.core.platform.state.indexes import index_workload
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region import commands as c
from tests.properties.platform import program as platform_program
from tests.properties.platform.bad_requests import step
from tests.properties.platform.intents import found_world
from tests.properties.platform.regional_intents import INTENTS
from tests.properties.region import program as region_program
from tests.properties.region.random_walk import seeded, set_up, walk
from tests.properties.region.world import Chance
from tests.support.ledgers.region import ROOT, T0, RegionBench


def render_row(kind: ResourceKind, state: LedgerState, key: Any, row: Any) -> dict[str, Any]:
    tree: dict[str, Any] = render(view_of_row(kind, state, key, row))
    return tree


SEEDS = range(9, 20)


@cache
def platform(seed: int) -> LedgerState:
    program = platform_program.Program(seed, platform_program.Tally())
    found_world(program)
    for _ in range(150):
        step(program, INTENTS)
    return program.bench.state


@cache
def region(seed: int) -> LedgerState:
    setting, choices = seeded(seed, 110)
    program = region_program.Program(Chance(random.Random(setting)), region_program.Tally())
    set_up(program)
    walk(program, choices)
    return program.bench.state


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(schemas.kind_schema(name, shown=True))


def everything() -> list[LedgerState]:
    return [make(seed) for make in (platform, region) for seed in SEEDS]


def full_name(kind: ResourceKind, tree: dict[str, Any]) -> str:
    meta = tree["metadata"]
    return f"{meta['tenant']}/{meta['name']}" if kind.tenanted else str(meta["name"])


def test_every_row_has_a_view_that_its_schema_accepts_and_that_reads_back() -> None:
    seen: dict[str, int] = {}
    for state in everything():
        for kind in KINDS.values():
            for key, found in iter_rows(kind, state):
                tree = render_row(kind, state, key, found)
                assert (tree["kind"], tree["metadata"]["name"]) == (kind.name, name_of(kind, state, key, found))
                validator(kind.name).validate(tree)
                form = schemas.serializer_for_kind(kind.name, shown=True)
                assert isinstance(form, ObjectSerializer)
                parse(form.struct, tree)
                seen[kind.name] = seen.get(kind.name, 0) + 1
    assert [kind.name for kind in KINDS.values() if kind.name not in seen] == []


def test_every_row_is_found_by_its_name() -> None:
    """Of several that are called the same, one that was deleted and one that was made again, one is found."""
    for state in everything():
        for kind in KINDS.values():
            for key, found in iter_rows(kind, state):
                name = full_name(kind, render_row(kind, state, key, found))
                again = find_row(kind, state, name)
                assert again is not None, (kind.name, name)
                assert again == (key, found) or full_name(kind, render_row(kind, state, *again)) == name


def test_objects_of_a_tenant_are_told_to_be_its_own() -> None:
    for state in everything():
        for kind in KINDS.values():
            for key, found in iter_rows(kind, state):
                tenant = tenant_of(kind, state, key, found)
                if kind.tenanted:
                    assert tenant == render_row(kind, state, key, found)["metadata"]["tenant"] != ""
                if kind.name in ("Tenant", "Quota"):
                    assert tenant == found.meta.name


@pytest.mark.parametrize(
    "name", ["", "/", "//", "a", "a/b", "a/b/c", "a/b/c/d", "a/eu/x", "41.3", "platform/1.1", "é/1"]
)
def test_no_name_is_more_than_not_found(name: str) -> None:
    for state in (platform(0), region(0)):
        for kind in KINDS.values():
            find_row(kind, state, name)


def test_a_ledger_has_nothing_of_the_kinds_of_the_other() -> None:
    assert list(iter_rows(KINDS["nodes"], platform(0))) == []
    assert list(iter_rows(KINDS["workloads"], region(0))) == []
    assert find_row(KINDS["nodes"], platform(0), "n1") is None
    assert find_row(KINDS["tenants"], region(0), "acme") is None


def test_a_replica_is_named_by_its_workload_region_and_ordinal() -> None:
    bench = RegionBench()
    node = bench.a_node("n1")
    bench.a_grant()
    bench.a_scheduler()
    assignment = bench.a_workload(count=2)
    bench.place(assignment, c.SlotPlacement(1, node))
    waiting, bound = (
        render_row(KINDS["replicas"], bench.state, *one) for one in iter_rows(KINDS["replicas"], bench.state)
    )
    assert [waiting["metadata"]["name"], bound["metadata"]["name"]] == ["w1/eu/0", "w1/eu/1"]
    assert waiting["metadata"]["tenant"] == "acme"
    assert [waiting["status"][name] for name in ("stage", "phase", "node")] == ["request", "pending", ""]
    assert [bound["status"][name] for name in ("stage", "phase", "node")] == ["binding", "bound", "n1"]
    assert find_row(KINDS["replicas"], bench.state, "acme/w1/eu/1") == ((1, 1), bench.slot(1))
    assert find_row(KINDS["replicas"], bench.state, "other/w1/eu/1") is None
    assert find_row(KINDS["replicas"], bench.state, "acme/w1/us/1") is None


def test_an_override_of_the_platform_is_told_from_the_regions_own() -> None:
    bench = RegionBench()
    bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "storm", T0 + 60_000))
    [(uid, own)] = iter_rows(KINDS["overrides"], bench.state)
    shipped = Override(
        uid=uid,
        action=OverrideAction.AVOID_ZONE,
        region="eu",
        target="z1",
        reason="x",
        owner=ROOT,
        opened=T0,
        ends=T0 + 9,
    )
    bench.ship(c.ShippedOverride(shipped))
    found = [render_row(KINDS["overrides"], bench.state, *one) for one in iter_rows(KINDS["overrides"], bench.state)]
    assert [tree["status"]["source"] for tree in found] == ["region", "platform"]
    names = [tree["metadata"]["name"] for tree in found]
    assert [find_row(KINDS["overrides"], bench.state, name) for name in names] == [(uid, own), (names[1], shipped)]
    assert tenant_of(KINDS["overrides"], bench.state, uid, own) == "acme"


def test_a_nodes_labels_are_the_operators_and_the_agents_and_the_operators_word_wins() -> None:
    bench = RegionBench()
    uid, state = bench.a_node("n1"), bench.state
    node = state.nodes[uid]
    state.nodes.put(uid, replace(node, labels=(("rack", "r1"),), reported_labels=(("disk", "ssd"), ("rack", "r9"))))
    tree = render_row(KINDS["nodes"], state, uid, state.nodes[uid])
    assert tree["metadata"]["labels"] == {"disk": "ssd", "rack": "r1"}
    assert tree["spec"]["labels"] == {"rack": "r1"}
    assert tree["status"]["reportedLabels"] == {"disk": "ssd", "rack": "r9"}
    assert tree["status"]["free"] == tree["status"]["capacity"]


def test_a_node_shows_where_it_is_reached_and_how_it_fares() -> None:
    bench = RegionBench()
    uid = bench.a_node("n1", address="n1.example")
    bench.accept("agent/n1", c.ReportNode("n1", 40, 70, ("model-7",)))
    status = render_row(KINDS["nodes"], bench.state, uid, bench.state.nodes[uid])["status"]
    assert (status["address"], status["present"]) == ("n1.example", ["model-7"])
    assert {name: status["load"][name] for name in ("cpu", "memory")} == {"cpu": "40%", "memory": "70%"}


def test_a_replica_shows_what_was_said_of_it_and_how_it_failed_last() -> None:
    bench = RegionBench()
    node = bench.a_node("n1")
    bench.a_grant()
    bench.a_scheduler()
    bench.place(bench.a_workload(count=1), c.SlotPlacement(0, node))
    bench.walk(Phase.RUNNING)
    bench.move("agent/n1", Phase.FAILED, "exit", detail="exit code 3")
    failed = render_row(KINDS["replicas"], bench.state, (1, 0), bench.slot())["status"]
    assert (failed["cause"], failed["detail"], failed["failure"]["detail"]) == ("exit", "exit code 3", "exit code 3")
    bench.move("agent/n1", Phase.STARTING, "restarted")
    again = render_row(KINDS["replicas"], bench.state, (1, 0), bench.slot())["status"]
    assert (again["detail"], again["failure"]) == ("", failed["failure"])


def test_a_workload_that_is_being_deleted_is_found_until_another_takes_its_name() -> None:
    state = PlatformState()
    spec = WorkloadSpec(template=Template(), replicas=1, priority_class="normal")
    dying = Workload(meta=Meta(name="a/b", tenant="t", uid=5, deletion=Deletion(by=ROOT, at=T0)), spec=spec)
    state.workloads.put(5, dying)
    assert find_row(KINDS["workloads"], state, "t/a/b") == (5, dying)
    living = Workload(meta=Meta(name="a/b", tenant="t", uid=9), spec=spec)
    state.workloads.put(9, living)
    index_workload(state, 9, living)
    assert find_row(KINDS["workloads"], state, "t/a/b") == (9, living)


def test_the_built_in_policy_is_shown_too() -> None:
    found = find_row(KINDS["policies"], PlatformState(), "0.0")
    assert found is not None
    assert render_row(KINDS["policies"], PlatformState(), *found)["status"]["author"] == "ledger"
