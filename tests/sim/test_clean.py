"""The swarm of `make test`: two hundred runs over all scenarios, in which nothing fails and everything is met."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast.sim.scenario import all_in
from holdfast.sim.swarm import swarm

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 201)


@pytest.mark.timeout(600)
def test_two_hundred_seeds_are_clean_and_meet_everything(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="holdfast")
    scenarios = {name: one for name, one in all_in(ROOT / "scenarios").items() if not one.absent}
    result = swarm(scenarios, SEEDS, jobs=min(2, os.cpu_count() or 1))
    with capsys.disabled():
        hours = result.simulated_ms / 3_600_000
        print(f" {result.runs} runs, {hours:.1f} simulated hours in {result.seconds:.0f} s", end="")
    assert [(one.command, one.why, one.trace) for one in result.failures] == []
    assert result.coverage.missed == ()
    assert result.coverage.unjudged == {}
    assert result.runs == len(SEEDS)
    assert min(sum(verdicts.values()) for verdicts in result.verdicts.values()) >= len(SEEDS) / 20
