"""`holdfast bench schedule`, with little to do: a small trace, real commits, and the processes of `holdfast dev`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import growth, latency, million, schedule
from holdfast.bench.report import Report
from holdfast.cli.main import app

NODES = """sn,cpu_milli,memory_mib,gpu,model
n1,32000,131072,0,
n2,64000,262144,2,T4
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p1,1000,2048,0,0,
p2,500,1024,1,500,T4|P100
"""


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces" / "openb"
    folder.mkdir(parents=True)
    (folder / "openb_node_list_gpu_node.csv").write_text(NODES, encoding="utf-8")
    (folder / "openb_pod_list_default.csv").write_text(PODS, encoding="utf-8")
    return folder.parent


def test_the_report_of_the_scheduler_has_the_form_of_every_benchmark_and_nothing_is_left(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = schedule.run
    monkeypatch.setattr(schedule, "run", lambda traces: whole(traces, nodes=60, slots=200, million=2_000, workloads=3))
    monkeypatch.setattr(schedule, "SINGLE_ROUNDS", 1)
    for module, name, less in ((schedule, "ROUNDS", 1), (growth, "FEW", 20), (growth, "MANY", 40),
                               (growth, "DECISIONS", 20), (million, "AT_ONCE", 1_000), (million, "EACH", 500),
                               (million, "LOOKED_UP", 20), (latency, "WARM_UP", 1), (latency, "NODES", 1)):  # fmt: skip
        monkeypatch.setattr(module, name, less)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    done = CliRunner().invoke(app, ["bench", "schedule", "--traces", str(traces), "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    figures = {result.name: (result.direction, result.target) for result in report.results}
    assert figures == {
        "schedule.group10k": (">=", 30_000),
        "schedule.spread": (">=", 10_000),
        "schedule.single10k": (">=", 6_000),
        "schedule.c1m": ("<=", 60),
        "schedule.c1m_indexed": ("<=", 60),
        "schedule.c1m_lookup_p99": ("<=", 50),
        "schedule.c1m_lookup_max": ("<=", 50),
        "schedule.latency_p99": ("<=", 50),
        "schedule.growth": ("<=", 2.5),
        "schedule.growth_score": (">=", 98),
    }
    assert all(result.value > 0 and result.baseline > 0 for result in report.results)
    assert list(here.iterdir()) == []


def test_without_the_trace_it_says_so_and_measures_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "schedule", "--traces", str(tmp_path)])
    assert done.exit_code == 1
    assert "the trace is not there" in done.stderr
    assert done.stdout == ""
