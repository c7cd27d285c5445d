"""Swarms over all scenarios, in which nothing fails and everything is met.

Each half of the seeds is a file of its own, and a run at a time: those who run tests share files among themselves.
"""

from __future__ import annotations

import os

import pytest

from holdfast.sim.runs.coverage import GATED
from tests.support.simulator.clean_swarms import clean


@pytest.mark.timeout(900)
def test_sixty_seeds_are_clean_every_gate_acts_and_quotas_and_budgets_bind(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    result = clean(range(1, 61), capsys, caplog)
    assert GATED not in result.coverage.unjudged
    assert result.coverage.missed == ()


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seeds", [range(1, 141), range(1, 2_001)], ids=lambda seeds: f"{len(seeds)}")
def test_ten_seeds_of_each_scenario_or_more_are_clean_and_meet_everything(
    seeds: range, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    result = clean(seeds, capsys, caplog, jobs=min(2, os.cpu_count() or 1))
    assert result.coverage.missed == ()
    assert result.coverage.unjudged == {}
