"""One seed of each scenario, the last ring around a mutant: the judges of the simulator complain, or they do not.

`make test` runs more seeds of each in `tests/sim/runs/test_clean_swarm.py`; these are for the hunt alone, one world
a test.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.sim.runs.run import RunVerdicts, run
from holdfast.sim.scenario import Scenario, read_folder

SCENARIOS = {name: one for name, one in read_folder(Path(__file__).parents[2] / "scenarios").items() if not one.absent}


@pytest.mark.parametrize(("scenario", "seed"), [(one, seed) for seed, one in enumerate(SCENARIOS.values(), 1)])
def test_what_is_promised_holds_in_this_world(scenario: Scenario, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="holdfast")
    report = run(scenario, seed)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
