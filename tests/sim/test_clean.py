"""Swarms over all scenarios, in which nothing fails and everything is met."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast.sim.coverage import GATED
from holdfast.sim.scenario import all_in
from holdfast.sim.swarm import Result, swarm

ROOT = Path(__file__).parents[2]


def clean(seeds: range, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Result:
    """What became of the swarm, in which no run failed."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")
    scenarios = {name: one for name, one in all_in(ROOT / "scenarios").items() if not one.absent}
    result = swarm(scenarios, seeds, jobs=min(2, os.cpu_count() or 1))
    with capsys.disabled():
        hours = result.simulated_ms / 3_600_000
        print(f" {result.runs} runs, {hours:.1f} simulated hours in {result.seconds:.0f} s", end="")
    assert [(one.command, one.why, one.trace) for one in result.failures] == []
    assert result.runs == len(seeds)
    assert min(sum(verdicts.values()) for verdicts in result.verdicts.values()) >= len(seeds) / 20
    return result


@pytest.mark.timeout(900)
def test_four_seeds_of_each_scenario_are_clean_every_gate_acts_and_quotas_and_budgets_bind(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    result = clean(range(1, 57), capsys, caplog)
    assert GATED not in result.coverage.unjudged
    assert result.coverage.missed == ()


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seeds", [range(1, 141), range(1, 2_001)], ids=lambda seeds: f"{len(seeds)}")
def test_ten_seeds_of_each_scenario_or_more_are_clean_and_meet_everything(
    seeds: range, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    result = clean(seeds, capsys, caplog)
    assert result.coverage.missed == ()
    assert result.coverage.unjudged == {}
