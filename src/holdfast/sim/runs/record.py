"""A recording of a simulated run."""

from __future__ import annotations

from holdfast.replay.recorder import record_log
from holdfast.replay.recording import RecordedRun as MadeBy
from holdfast.replay.recording import Recording, RunPlan
from holdfast.sim.runs.run import RunReport, run_with_logs
from holdfast.sim.scenario import Scenario


def record_run(scenario: Scenario, text: str, seed: int, plan: RunPlan | None = None) -> tuple[RunReport, Recording]:
    """Run a seed of a scenario with this text, and record all its ledgers from their first batches."""
    report, run = run_with_logs(scenario, seed, plan)
    made = MadeBy(seed, scenario.name, text, report.plan, report.digest)
    return report, Recording(made, tuple(record_log(name, log) for name, log in run.logs.items()))
