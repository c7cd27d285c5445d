"""What is odd in a world is drawn from the seed, is something that people may ask for, and can be left out."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.driver import RunSpec
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import Region, RegionSpec
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import OnDeadline, Template, Workload, WorkloadSpec, WorkloadStatus
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources, first_exceeded
from holdfast.core.platform.queries.feasibility import placement_allows, within_latency_limits
from holdfast.core.region import commands as c
from holdfast.replay.recording import PlannedVariant, RunPlan
from holdfast.sim import scenario, variety
from holdfast.sim.actors.process_behavior import STARTUP, ProcessBehaviors
from holdfast.sim.cluster.cluster import roster_of
from holdfast.sim.cluster.liveness import _asked_for
from holdfast.sim.plan import SCARCE, draw_plan
from holdfast.sim.runs.gate_coverage import held_back
from holdfast.sim.runs.shrink import plan_of
from holdfast.sim.world.machine import SeedStreams
from tests.architecture.checkout import ROOT as FOLDER
from tests.support.ledgers.region import RegionBench, a_template

ROOM = Resources(4_000, 8_192)
PLAIN = variety.NodeProfile(ROOM)
SITES = tuple(variety.region_specs(("eu", "us", "ap")).values())
TEMPLATE = Template(command=("run", "web"), need=Resources(500, 512), ports=1)
SPEC = WorkloadSpec(template=TEMPLATE, replicas=4, priority_class="normal", disruption_max=9)


def test_the_standing_scenarios_draw_every_kind_there_is() -> None:
    standing = [one for one in scenario.read_folder(FOLDER / "scenarios").values() if not one.absent]
    found = {
        one.kind for each in standing for seed in range(20) for one in draw_plan(each, roster_of(each), seed).fittings
    }
    kinds = scenario.NODE_VARIANTS, scenario.RULES, scenario.TENANT_VARIANTS, scenario.PLACES, scenario.REGION_VARIANTS
    assert found == {kind for each in kinds for kind in each}


@pytest.mark.parametrize("kind", scenario.NODE_VARIANTS)
def test_each_oddity_makes_a_node_unlike_the_others(kind: str) -> None:
    assert variety.node_profile(ROOM, [(kind, Random(1))], ["data"]) != PLAIN
    assert variety.node_profile(ROOM, [], ["data"]) == PLAIN


@pytest.mark.parametrize("kind", [*scenario.RULES, *scenario.PLACES])
@pytest.mark.parametrize("seed", range(5))
def test_each_rule_changes_a_workload_into_one_that_makes_sense(kind: str, seed: int) -> None:
    one = variety.apply_rules(SPEC, [(kind, Random(seed))], SITES)
    assert one != SPEC
    assert workload_problems(one) == []


def test_all_rules_together_make_sense_whatever_is_drawn() -> None:
    for seed in range(200):
        chance = Random(seed)
        kinds = [kind for kind in (*scenario.RULES, *scenario.PLACES) if chance.random() < 0.5]
        one = variety.apply_rules(SPEC, [(kind, Random(chance.getrandbits(32))) for kind in kinds], SITES)
        assert workload_problems(one) == [], (seed, kinds)


def test_what_is_an_identity_or_asked_whether_it_is_ready_is_no_batch_work() -> None:
    for spec in (replace(SPEC, exclusive=True), replace(SPEC, template=replace(TEMPLATE, startup=STARTUP))):
        assert variety.apply_rules(spec, [("batch", Random(1))], SITES) == spec


def test_a_quota_that_is_odd_is_less_than_what_is_asked_for_and_protects_no_more_than_it_allows() -> None:
    for seed in range(20):
        odd = [("quota", Random(seed)), ("protected", Random(seed)), ("reclaimable", Random(seed))]
        quota = variety.quota_of(Resources(24_000, 48_000), [SPEC], odd)
        assert quota.hard.cpu < 4 * 500
        assert not first_exceeded(quota.protected, quota.hard)
        assert quota.protected.cpu
        assert quota.reclaimable


def test_who_must_come_back_elsewhere_within_a_time_has_no_rules() -> None:
    loss = scenario.read_folder(FOLDER / "scenarios")["regional-loss"]
    odd = {one.subject for seed in range(40) for one in draw_plan(loss, roster_of(loss), seed).fittings}
    assert not odd & {"risk-api", "billing-api"}
    assert odd >= {"ledger-db", "analytics"}


def test_the_first_workload_of_a_scenario_asks_for_nothing_that_only_some_nodes_have() -> None:
    for one in scenario.read_folder(FOLDER / "scenarios").values():
        if one.absent:
            continue
        first = next(iter(one.workloads), "")
        odd = [fitting for seed in range(40) for fitting in draw_plan(one, roster_of(one), seed).fittings]
        assert not {fitting.kind for fitting in odd if fitting.subject == first} & {*SCARCE}


def test_what_is_odd_does_not_change_what_happens_and_can_be_left_out_piece_by_piece() -> None:
    loss = scenario.read_folder(FOLDER / "scenarios")["zone-loss"]
    plain = replace(loss, variety=scenario.VarietySpec({}, {}, {}, {}, {}, {}))
    one, other = draw_plan(loss, roster_of(loss), 3), draw_plan(plain, roster_of(plain), 3)
    assert (one.faults, one.acts, other.fittings) == (other.faults, other.acts, ())
    assert plan_of(one.length, [*one.faults, *one.acts, *one.fittings]) == one
    fitting = PlannedVariant("eu-n1", "taint", 7)
    assert [kind for kind, _ in RunPlan(1, (), (), (fitting, PlannedVariant("eu-n2", "size", 7))).odd("eu-n1")] == [
        "taint"
    ]


def test_where_a_workload_may_be_leaves_it_a_region_and_keeps_it_from_some() -> None:
    found = set()
    for seed in range(60):
        odd = [(kind, Random(f"{seed} {kind}")) for kind in scenario.PLACES]
        spec = variety.apply_rules(SPEC, odd, SITES)
        found.add(
            sum(placement_allows(spec, a_site(one)) and within_latency_limits(spec, a_site(one)) for one in SITES)
        )
    assert found == {1, 2}


def a_site(spec: RegionSpec) -> Region:
    return Region(meta=Meta(name="eu"), spec=spec)


def test_a_region_that_has_two_schedulers_has_no_third() -> None:
    cache = scenario.read_folder(FOLDER / "scenarios")["stale-cache"]
    odd = [one.kind for seed in range(40) for one in draw_plan(cache, roster_of(cache), seed).fittings]
    assert "scheduler" not in odd


def test_an_oddity_that_nobody_knows_is_refused() -> None:
    with pytest.raises(scenario.InvalidScenario, match="workload rule"):
        scenario.parse("{name: x, says: x, variety: {rules: {far: 10}}}", "x")


def test_batch_work_ends_by_itself_and_nothing_else_does() -> None:
    habits = ProcessBehaviors(SeedStreams(1), "eu-n1", troubles={})
    ends = {word: habits(RunSpec((1, 0), 7, "t/web/0", (word, "web"))).runs_ms > 0 for word in ("run", variety.BATCH)}
    assert ends == {"run": False, variety.BATCH: True}


# Judges


def a_job(**fields: Any) -> Workload:
    spec = replace(SPEC, batch=True, deadline=1_000, **fields)
    return Workload(meta=Meta(name="job", created=5_000), spec=spec, status=WorkloadStatus(succeeded=3, failed=0))


def test_of_batch_work_what_is_done_need_not_be_assigned_and_nothing_once_it_was_to_fail() -> None:
    assert _asked_for(a_job(), 9_000) == (1, 4)
    assert _asked_for(a_job(replicas=2), 9_000) == (-1, 3), "what is over cannot be taken back"
    assert _asked_for(a_job(on_deadline=OnDeadline.FAIL), 5_999) == (1, 4)
    assert _asked_for(a_job(on_deadline=OnDeadline.FAIL), 6_000) == (0, 4)
    assert _asked_for(replace(a_job(), spec=SPEC), 9_000) == (4, 4)


@pytest.mark.parametrize(("share", "held"), [(0, 1), (1, 1), (2, 0)])
def test_a_rollout_is_held_back_while_as_many_are_gone_as_may_be(share: int, held: int) -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node, old = bench.a_node(), a_template()
    work = bench.a_workload(old, 3, disruption=share)
    bench.place(work, *[c.SlotPlacement(ordinal, node) for ordinal in range(2)])
    for ordinal in range(2):
        bench.walk(Phase.SERVING, ordinal)
    assert held_back(bench.state) == 0, "nothing is to be changed"
    new = a_template(2_000)
    changed = replace(work, revision=work.revision + 1, shares=(Share(template_digest(new), 3),))
    bench.ship(c.ShippedTemplate(template_digest(new), new), c.ShippedAssignment(changed))
    assert held_back(bench.state) == held
