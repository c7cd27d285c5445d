"""A swarm plays every scenario, tells which seed failed and how to play it again, and what was never met."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.replay.recording import RunPlan
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.runs import coverage, gate_coverage, swarm
from holdfast.sim.runs.run import RunReport, RunVerdicts
from holdfast.sim.scenario import Scenario, parse, read_folder
from tests.architecture.checkout import ROOT
from tests.support.simulator.codes_not_required import NOT_REQUIRED

NAMES = [f"scenario-{number}" for number in range(10)]
NOTHING_PLANNED = RunPlan(0, (), ())
SMALL = """
name: small
says: One region, a few replicas, a little trouble.
length: 14s
topology:
  platform: 1
  regions:
    eu: {servers: 2, nodes: 2}
tenants: {payments: {}}
variety: {nodes: {}, rules: {}, tenants: {}}
workloads:
  web: {replicas: 2}
traffic: {every: 2s..3s, kinds: {scale: 1}}
faults: {every: 2s..3s, lasts: 1s..2s, kinds: {crash: 1}}
least: {commands: 5, acknowledged: 5, faults: 1, started: 1, refused: 0}
"""


def a_scenario(name: str = "one", faults: str = "crash", covers: str = "") -> Scenario:
    return parse(f"{{name: {name}, says: x, faults: {{kinds: {{{faults}: 1}}}}, covers: [{covers}]}}", name)


def a_report(
    scenario: Scenario,
    seed: int,
    plan: RunPlan | None = None,
    *,
    promise: str = "",
    unsettled: tuple[str, ...] = (),
    lacking: tuple[str, ...] = (),
    counts: dict[str, int] | None = None,
) -> RunReport:
    """A report of a run that held, apart from what is named."""
    said = "inconclusive" if lacking else "held"
    verdicts = RunVerdicts("broken" if promise else said, "broken" if unsettled else said)
    findings = (Finding(promise, "as planted"),) if promise else ()
    found = {"fault.crash": 1} if counts is None else counts
    plan = plan or NOTHING_PLANNED
    return RunReport(
        scenario.name, seed, "digest", verdicts, findings, unsettled, lacking, {}, (), 60_000, 0, {}, found, plan
    )


Playing = Callable[..., RunReport]


def playing(monkeypatch: pytest.MonkeyPatch, run: Playing) -> None:
    monkeypatch.setattr(swarm, "run", run)


# Which seed plays what


def test_each_scenario_gets_an_equal_share_of_any_row_of_seeds() -> None:
    shares = Counter(swarm.scenario_of(seed, NAMES) for seed in range(7, 2_007))
    assert sorted(shares) == NAMES
    assert min(shares.values()) == 200


def test_what_a_seed_plays_depends_on_no_order_and_no_range() -> None:
    assert [swarm.scenario_of(seed, reversed(NAMES)) for seed in (3, 1_003)] == ["scenario-3", "scenario-3"]


# Failures


def test_a_failing_seed_is_told_with_the_first_finding_and_the_command_that_plays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    playing(monkeypatch, lambda scenario, seed: a_report(scenario, seed, promise="once" if seed == 4 else ""))
    result = swarm.swarm({"one": a_scenario()}, range(1, 7))
    assert result.failed
    assert result.verdicts == {"one": {"held": 5, "safety": 1}}
    (failure,) = result.failures
    assert (failure.why, failure.command) == ("once: as planted", "holdfast sim run one --seed 4")


@pytest.mark.parametrize(
    ("planted", "verdict", "why"),
    [
        ({"promise": "linear", "unsettled": ("web",)}, "safety", "linear: as planted"),
        ({"unsettled": ("web has no replicas",)}, "liveness", "web has no replicas"),
        ({"lacking": ("3 commands, and 80 are the least",)}, "inconclusive", "3 commands, and 80 are the least"),
    ],
)
def test_whatever_is_not_held_is_a_failure(
    planted: dict[str, Any], verdict: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing(monkeypatch, lambda scenario, seed: a_report(scenario, seed, **planted))
    (failure,) = swarm.swarm({"one": a_scenario()}, range(1)).failures
    assert (failure.verdict, failure.why) == (verdict, why)


def test_a_run_that_raises_is_a_failure_with_its_traceback_and_the_others_are_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(scenario: Scenario, seed: int) -> RunReport:
        assert seed != 2, "the world is inside out"
        return a_report(scenario, seed)

    playing(monkeypatch, run)
    result = swarm.swarm({"one": a_scenario()}, range(1, 5))
    assert result.verdicts == {"one": {"held": 3, "died": 1}}
    (failure,) = result.failures
    assert "the world is inside out" in failure.why
    assert "in run\n" in failure.trace


def test_a_swarm_that_is_interrupted_tells_what_it_has_and_is_not_green(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(scenario: Scenario, seed: int) -> RunReport:
        if seed == 3:
            raise KeyboardInterrupt
        return a_report(scenario, seed)

    playing(monkeypatch, run)
    result = swarm.swarm({"one": a_scenario()}, range(1, 9))
    assert (result.runs, result.interrupted, result.failed) == (2, True, True)


# Workers


def test_workers_play_the_same_runs_as_this_process() -> None:
    scenarios = {"small": parse(SMALL, "small")}
    here = swarm.swarm(scenarios, range(1, 3))
    told: list[swarm.RunSummary] = []
    there = swarm.swarm(scenarios, range(1, 3), jobs=2, tell=told.append)
    assert (there.verdicts, there.counts, there.simulated_ms) == (here.verdicts, here.counts, here.simulated_ms)
    assert sorted(played.seed for played in told) == [1, 2]


def dies(pipe: Any, scenarios: dict[str, Scenario], _levels: object) -> None:
    """A worker that ends itself in the middle of an odd seed."""
    while True:
        name, seed = pipe.recv()
        if seed % 2:
            os._exit(3)
        pipe.send(swarm.RunSummary(name, seed, "held"))


def hangs(pipe: Any, _scenarios: object, _levels: object) -> None:
    pipe.recv()
    time.sleep(600)


def test_a_worker_that_dies_is_a_failure_of_its_seed_and_another_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm, "_work", dies)
    result = swarm.swarm({"one": a_scenario()}, range(4), jobs=2)
    assert result.verdicts == {"one": {"held": 2, "died": 2}}
    assert [(failure.seed, failure.why) for failure in result.failures] == [
        (1, "its worker process ended with 3"),
        (3, "its worker process ended with 3"),
    ]


def test_a_run_that_hangs_is_a_failure_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm, "_work", hangs)
    monkeypatch.setattr(swarm, "RUN_SECONDS_MAX", 0.2)
    result = swarm.swarm({"one": a_scenario()}, range(2), jobs=2)
    assert [failure.why for failure in result.failures] == ["it took more than 0.2 s of real time"] * 2


def test_nothing_of_a_world_that_has_ended_is_permanent() -> None:
    swarm.play(parse(SMALL, "small"), 1)
    assert gc.get_freeze_count() == 0, "a swarm of thousands would fill the memory"


# Coverage


def test_a_fault_that_never_happened_fails_the_swarm(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, a_report)
    result = swarm.swarm({"one": a_scenario(faults="crash: 1, power-cut", covers="watch.stale")}, range(20))
    assert [missed.counter for missed in result.coverage.missed] == ["fault.power-cut", "watch.stale"]
    assert result.failed
    assert not result.failures


def test_a_few_runs_are_not_judged_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, a_report)
    result = swarm.swarm({"one": a_scenario(faults="power-cut")}, range(9))
    assert not result.failed
    assert result.coverage.unjudged["one"] == "9 runs, at least 10 required"


def test_all_scenarios_together_must_have_met_what_every_swarm_must(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"fault.crash": 1, "command.start-term": 2, "command.start-log": 1}
    everything |= dict.fromkeys(coverage.REQUIRED_EVENTS.keys() - {"terms.taken-over"}, 1)
    two = {"one": a_scenario("one"), "two": a_scenario("two")}
    playing(monkeypatch, lambda scenario, seed: a_report(scenario, seed, counts=everything))
    assert not swarm.swarm(two, range(20)).failed
    everything |= {"command.start-term": 1, "network.late": 0}
    missed = swarm.swarm(two, range(20)).coverage.missed
    assert [(one.scenario, one.counter) for one in missed] == [
        (coverage.ALL, "network.late"),
        (coverage.ALL, "terms.taken-over"),
    ]
    assert swarm.swarm(two, range(19)).coverage.unjudged.keys() == {"two", coverage.ALL, coverage.GATED}


def test_a_scenario_must_have_met_its_faults_in_its_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {"one": a_scenario("one"), "two": a_scenario("two", faults="fill")}
    playing(monkeypatch, lambda scenario, seed: a_report(scenario, seed, counts={"fault.crash": 1}))
    assert [(one.scenario, one.counter) for one in swarm.swarm(two, range(20)).coverage.missed][:1] == [
        ("two", "fault.fill")
    ]


def test_the_scenarios_of_the_project_cover_kinds_of_counters_that_runs_have() -> None:
    kinds = {name.partition(".")[0] for name in coverage.REQUIRED_EVENTS} | {"fault", "command", "stopped"}
    for scenario in read_folder(ROOT / "scenarios").values():
        assert {name.partition(".")[0] for name in coverage.required_counters(scenario)} <= kinds, scenario.name


# Gates


def the_gates(**others: int) -> dict[str, int]:
    """Counts of one run in which every gate has acted, and quotas and budgets have bound."""
    acted = {gate_coverage.counters(code)[0]: 1 for code in gate_coverage.GATES}
    return {"fault.crash": 1, **acted, gate_coverage.QUOTA_BOUND: 1, gate_coverage.BUDGET_BOUND: 1, **others}


def test_every_code_of_the_ledgers_is_a_gate_that_must_act_or_says_why_it_need_not() -> None:
    assert gate_coverage.GATES.keys() | NOT_REQUIRED.keys() == set(Code)
    assert not gate_coverage.GATES.keys() & NOT_REQUIRED.keys()
    assert all(text for text in (*gate_coverage.GATES.values(), *NOT_REQUIRED.values()))


@pytest.mark.parametrize("code", gate_coverage.GATES)
def test_a_gate_that_never_acted_fails_a_swarm_of_the_size_that_tests_run(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = {"one": a_scenario("one"), "two": a_scenario("two")}
    without = the_gates(**{gate_coverage.counters(code)[0]: 0})
    playing(monkeypatch, lambda scenario, seed: a_report(scenario, seed, counts=without))
    missed = swarm.swarm(two, range(coverage.GATED_RUNS_MINIMUM)).coverage.missed
    assert (coverage.ALL, f"gate.{code.value}") in {(one.scenario, one.counter) for one in missed}
    for other in gate_coverage.counters(code):
        playing(
            monkeypatch,
            lambda scenario, seed, other=other: a_report(scenario, seed, counts={**without, other: 1}),
        )
        named = {one.counter for one in swarm.swarm(two, range(coverage.GATED_RUNS_MINIMUM)).coverage.missed}
        assert f"gate.{code.value}" not in named


def test_quotas_and_budgets_must_have_bound_in_a_third_of_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {"one": a_scenario("one"), "two": a_scenario("two")}
    for name in (gate_coverage.QUOTA_BOUND, gate_coverage.BUDGET_BOUND):
        for every, missed in ((3, set()), (4, {name})):
            playing(
                monkeypatch,
                lambda scenario, seed, name=name, every=every: a_report(
                    scenario, seed, counts=the_gates(**{name: int(seed % every == 0)})
                ),
            )
            found = {one.counter for one in swarm.swarm(two, range(60)).coverage.missed}
            assert {one for one in found if one.startswith("bound.")} == missed


def test_of_too_few_runs_no_gate_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {"one": a_scenario("one"), "two": a_scenario("two")}
    playing(monkeypatch, a_report)
    found = swarm.swarm(two, range(coverage.GATED_RUNS_MINIMUM - 1)).coverage
    assert not any(one.counter.startswith(("gate.", "bound.")) for one in found.missed)
    assert coverage.GATED in found.unjudged
