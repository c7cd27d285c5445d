"""Swarms in which nothing may fail."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.sim.runs.swarm import SwarmResult, swarm
from holdfast.sim.scenario import read_folder

ROOT = Path(__file__).parents[3]


def clean(
    seeds: range, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, *, jobs: int = 1
) -> SwarmResult:
    """What became of the swarm, in which no run failed."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")
    scenarios = {name: one for name, one in read_folder(ROOT / "scenarios").items() if not one.absent}
    result = swarm(scenarios, seeds, jobs=jobs)
    with capsys.disabled():
        hours = result.simulated_ms / 3_600_000
        print(f" {result.runs} runs, {hours:.1f} simulated hours in {result.seconds:.0f} s", end="")
    assert [(one.command, one.why, one.trace) for one in result.failures] == []
    assert result.runs == len(seeds)
    assert min(sum(verdicts.values()) for verdicts in result.verdicts.values()) >= len(seeds) / 20
    return result
