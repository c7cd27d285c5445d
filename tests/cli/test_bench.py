"""`holdfast bench` and `holdfast version`, as a user sees them."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import core
from holdfast.bench.report import Report, p99
from holdfast.cli.main import app

RUN = CliRunner()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = core.run
    monkeypatch.setattr(core, "run", lambda: whole(nodes=50, slots=4_000))


def test_the_report_has_the_form_of_every_benchmark(small: None) -> None:
    done = RUN.invoke(app, ["bench", "core", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    names = [result.name for result in report.results]
    assert names == ["core.batch100", "core.single", "core.fork", "core.memory.per_slot"]
    assert all(result.baseline > 0 and result.target for result in report.results)
    # So few slots hide in what earlier tests of this process gave back: the memory may even have shrunk.
    assert all(result.value > 0 for result in report.results if result.name != "core.memory.per_slot")
    assert report.machine.cores > 0


def test_people_see_a_table_and_progress_stays_off_stdout(small: None) -> None:
    done = RUN.invoke(app, ["bench", "core"])
    assert "core.memory.per_slot" in done.stdout
    assert "measuring" not in done.stdout
    assert "measuring" in done.stderr


def test_of_a_hundred_values_the_second_largest_is_what_99_do_not_exceed() -> None:
    assert p99([float(number) for number in range(100, 0, -1)]) == 99
    assert p99([float(number) for number in range(1, 1_001)]) == 990
    assert p99([3.0, 1.0]) == 3
    assert p99([7.0]) == 7
