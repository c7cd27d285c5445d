"""`holdfast bench sim`, in a small world."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from holdfast.bench import sim
from holdfast.cli.main import app


def test_it_reports_its_figure_with_a_target_and_a_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NODES": 2, "REPLICAS": 3, "WORKLOADS": 2, "SETTLE": 30, "WATCHED": 2, "TIMES": 2}.items():
        monkeypatch.setattr(sim, name, value)
    result = CliRunner().invoke(app, ["bench", "sim", "--json"])
    assert result.exit_code == 0, result.output
    (figure,) = json.loads(result.stdout)["results"]
    assert figure["name"] == "sim.speed"
    assert figure["value"] > 0
    assert (figure["target"], figure["direction"]) == (200, ">=")
