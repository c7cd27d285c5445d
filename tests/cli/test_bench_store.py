"""`holdfast bench store`, with little to do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import store
from holdfast.bench.report import Report
from holdfast.cli.main import app


def test_the_report_of_the_store_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = store.run
    monkeypatch.setattr(store, "run", lambda: whole(blocks=2, chunks=3))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "store", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    names = [result.name for result in report.results]
    assert names == ["store.sqlite.group100", "store.sqlite.snapshot.p99", "store.sqlite.snapshot.max"]
    assert all(result.value > 0 and result.baseline > 0 and result.target for result in report.results)
    assert list(tmp_path.iterdir()) == []


def test_the_batch_that_is_measured_holds_a_hundred_records() -> None:
    assert 10_000 < len(store.a_hundred_placements()) < 30_000
