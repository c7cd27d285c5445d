"""Swarms over all scenarios, in which nothing fails and everything is met."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast.sim.scenario import all_in
from holdfast.sim.swarm import Result, swarm

ROOT = Path(__file__).parents[2]


def clean(seeds: range, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Result:
    """What became of the swarm, in which no run failed and nothing was missed."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")
    scenarios = {name: one for name, one in all_in(ROOT / "scenarios").items() if not one.absent}
    result = swarm(scenarios, seeds, jobs=min(2, os.cpu_count() or 1))
    with capsys.disabled():
        hours = result.simulated_ms / 3_600_000
        print(f" {result.runs} runs, {hours:.1f} simulated hours in {result.seconds:.0f} s", end="")
    assert [(one.command, one.why, one.trace) for one in result.failures] == []
    assert result.coverage.missed == ()
    assert result.coverage.unjudged == {}
    assert result.runs == len(seeds)
    assert min(sum(verdicts.values()) for verdicts in result.verdicts.values()) >= len(seeds) / 20
    return result


@pytest.mark.timeout(600)
def test_ten_seeds_of_each_scenario_are_clean_and_meet_everything(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    clean(range(1, 141), capsys, caplog)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_two_thousand_seeds_are_clean_and_meet_everything(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert clean(range(1, 2_001), capsys, caplog).simulated_ms > 24 * 3_600_000
