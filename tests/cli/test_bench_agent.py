"""`holdfast bench agent`, with few agents: the processes of `holdfast dev`, and one that is all the agents."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import agent, sessions
from holdfast.bench.report import Report
from holdfast.cli.main import app


def test_the_report_of_agents_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = agent.run
    monkeypatch.setattr(agent, "run", lambda: whole(agents=20, workloads=3))
    for name, less in (("SETTLE_SECONDS", 3.0), ("ALONE_SECONDS", 5.0), ("WATCHED_SECONDS", 3.0)):
        monkeypatch.setattr(sessions, name, less)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "agent", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    figures = {result.name: (result.direction, result.target) for result in report.results}
    assert figures == {
        "agent.serving_p50": ("<=", 1),
        "agent.serving_p99": ("<=", 3),
        "agent.sessions2000": ("<=", 20),
        "agent.sessions2000_log": ("<=", 0),
        "agent.sessions2000_rate": (">=", 6.8),
    }
    half, most, used, logged, rate = report.results
    assert 0 < half.value <= most.value
    assert used.value > 0
    assert logged.met, "agents that have nothing to tell write nothing"
    assert rate.value > 0
    assert list(tmp_path.iterdir()) == []
