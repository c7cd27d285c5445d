"""`holdfast bench ledger`, with little to do: real commits, a real restart in another process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import ledger
from holdfast.bench.report import Report
from holdfast.cli.main import app


def test_the_report_of_a_ledger_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ledger.run
    monkeypatch.setattr(ledger, "run", lambda: whole(nodes=1_000, slots=12_000, tail=100))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "ledger", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    assert [result.name for result in report.results] == [
        "ledger.batch100.sqlite",
        "ledger.single64.sqlite",
        "ledger.commit_p99.during_snapshot",
        "ledger.commit_max.during_snapshot",
        "ledger.restart.1m",
        "ledger.memory.per_slot",
    ]
    assert all(result.value > 0 and result.baseline > 0 and result.target for result in report.results)
    assert list(tmp_path.iterdir()) == []
