"""A failing plan is made smaller until each thing in it matters, or time is up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from holdfast.replay.recording import PlannedAction, PlannedFault, RunPlan
from holdfast.sim.runs import shrink
from holdfast.sim.runs.run import RunReport
from holdfast.sim.scenario import Scenario
from tests.sim.runs.test_swarm import a_report, a_scenario

ONE = a_scenario()
KINDS = ["crash", "pause", "partition", "power-cut", "clog", "fill"]
PLAN = RunPlan(
    60_000,
    tuple(PlannedFault(1_000 * number, kind, "eu", 500) for number, kind in enumerate(KINDS * 2)),
    tuple(
        PlannedAction(900 * number, kind, 0)
        for number, kind in enumerate(["roll", "scale", "cordon", "scale", "quota"])
    ),
)

Broken = Callable[[RunPlan], str]


def planted(plan: RunPlan) -> str:
    """Broken if a store loses its power and somebody scales: everything else is beside the point."""
    cut = any(fault.what == "power-cut" for fault in plan.faults)
    return "once" if cut and any(act.kind == "scale" for act in plan.acts) else ""


def shrunk(
    monkeypatch: pytest.MonkeyPatch, broken: Broken, clock: Callable[[], float] = lambda: 0.0
) -> shrink.ShrinkResult:
    def run(scenario: Scenario, seed: int, plan: RunPlan) -> RunReport:
        return a_report(scenario, seed, plan, promise=broken(plan), lacking=() if plan.faults else ("faults",))

    monkeypatch.setattr(shrink, "run", run)
    return shrink.shrink(ONE, 7, a_report(ONE, 7, PLAN, promise=broken(PLAN)), 10.0, clock)


def test_only_what_matters_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shrunk(monkeypatch, planted)
    assert [fault.what for fault in found.plan.faults] == ["power-cut"]
    assert [act.kind for act in found.plan.acts] == ["scale"]
    assert (found.plan.length, found.fails, found.finished) == (60_000, "once", True)
    assert 0 < found.runs < 40


def test_a_plan_that_does_not_matter_at_all_becomes_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shrunk(monkeypatch, lambda _plan: "linear")
    assert found.plan == RunPlan(60_000, (), ())


def test_a_failure_of_another_kind_is_not_taken_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shrunk(monkeypatch, lambda plan: "once" if len(plan.faults) == len(PLAN.faults) else "another")
    assert len(found.plan.faults) == len(PLAN.faults)
    assert found.plan.acts == ()


def test_when_time_is_up_the_smallest_so_far_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    found = shrunk(monkeypatch, planted, clock=lambda: float(next(ticks)))
    assert not found.finished
    assert found.runs == 9
    assert planted(found.plan) == "once"


def test_a_run_that_ends_without_a_report_does_not_fail_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: RunPlan) -> str:
        assert plan.acts, "the people went home"
        return "once"

    found = shrunk(monkeypatch, broken)
    assert (len(found.plan.faults), len(found.plan.acts)) == (0, 1)


def test_a_run_that_does_not_settle_is_made_smaller_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(scenario: Scenario, seed: int, plan: RunPlan) -> RunReport:
        return a_report(scenario, seed, plan, unsettled=("web",) * any(one.what == "fill" for one in plan.faults))

    monkeypatch.setattr(shrink, "run", run)
    found = shrink.shrink(ONE, 7, run(ONE, 7, PLAN))
    assert [fault.what for fault in found.plan.faults] == ["fill"]
    assert found.fails == "liveness"
