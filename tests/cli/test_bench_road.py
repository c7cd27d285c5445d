"""`holdfast bench road`, with little to do: the processes of `holdfast dev`, and clients of their APIs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import road
from holdfast.bench.report import Report
from holdfast.cli.main import app


def test_the_report_of_the_road_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, config = tmp_path / "here", tmp_path / "config.yaml"
    here.mkdir()
    whole = road.run
    monkeypatch.setattr(road, "run", lambda: whole(changes=2, workloads=3))
    monkeypatch.setattr(road, "WARM_UP", 1)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.chdir(here)
    done = CliRunner().invoke(app, ["bench", "road", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    figures = {result.name: (result.direction, result.target) for result in report.results}
    assert figures == {
        "road.ship_p99": ("<=", 50),
        "road.apply1000": ("<=", 5),
        "road.apply1000_bytes": ("<=", 2_000_000),
    }
    assert all(result.value > 0 and result.baseline > 0 for result in report.results)
    assert list(here.iterdir()) == []
    assert not config.exists(), "people's own contexts stay as they are"
