"""A recording of a simulated run."""

from __future__ import annotations

from holdfast.replay.recorder import _record_log
from holdfast.replay.recording import Recording
from holdfast.replay.recording import Run as MadeBy
from holdfast.replay.run_plan import Plan
from holdfast.sim.runs.run import Report, played
from holdfast.sim.scenario import Scenario


def record_run(scenario: Scenario, text: str, seed: int, plan: Plan | None = None) -> tuple[Report, Recording]:
    """Play a seed of a scenario, of which this is the text, and record all its ledgers from their first batches on."""
    report, run = played(scenario, seed, plan)
    made = MadeBy(seed, scenario.name, text, report.plan, report.digest)
    return report, Recording(made, tuple(_record_log(name, log) for name, log in run.logs.items()))
