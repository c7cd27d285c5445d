"""`holdfast bench api`, with little to do: a real server, and a real process at the other end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import api
from holdfast.bench.report import Report
from holdfast.cli.main import app


def test_the_report_of_the_api_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = api.run
    monkeypatch.setattr(api, "run", lambda: whole(nodes=50))
    for name, less in (("ROUNDS", 1), ("BATCH_WORKLOADS", 2), ("SINGLE_WORKLOADS", 1), ("WATCHERS", 5),
                       ("SUBSCRIPTIONS", 10), ("CHANGES", 2), ("CLI_RUNS", 1)):  # fmt: skip
        monkeypatch.setattr(api, name, less)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "api", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    figures = {result.name: (result.direction, result.target) for result in report.results}
    assert figures == {
        "api.batch100": (">=", 35_000),
        "api.single": (">=", 4_000),
        "api.watch1000": ("<=", 100),
        "cli.get": ("<=", 0.25),
    }
    assert all(result.value > 0 and result.baseline > 0 for result in report.results)
    assert list(tmp_path.iterdir()) == []
