"""`holdfast bench` as a user sees it: every benchmark in its small form, to its end; and what cannot be measured."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import core, ledger, report, sim, store
from holdfast.bench.limits import suite
from holdfast.bench.limits.table import TABLE
from holdfast.bench.report import BenchReport, ReportBuilder, at_least, at_most, p99, require
from holdfast.cli.main import app

RUN = CliRunner()
#: Of each benchmark every figure, which way it should be, and its target.
CHECKOUT = Path(__file__).parents[2]
FIGURES: dict[str, dict[str, tuple[str, float]]] = {
    "core": {
        "core.batch100": (">=", 80_000),
        "core.single": (">=", 40_000),
        "core.fork": ("<=", 10),
        "core.memory.per_slot": ("<=", 1_200),
    },
    "ledger": {
        "ledger.batch100.sqlite": (">=", 60_000),
        "ledger.single64.sqlite": (">=", 30_000),
        "ledger.commit_p99.during_snapshot": ("<=", 25),
        "ledger.commit_max.during_snapshot": ("<=", 60),
        "ledger.restart.1m": ("<=", 10),
        "ledger.memory.per_slot": ("<=", 1_536),
    },
    "store": {
        "store.sqlite.group100": ("<=", 2.5),
        "store.sqlite.snapshot.p99": ("<=", 25),
        "store.sqlite.snapshot.max": ("<=", 60),
    },
    "api": {
        "api.batch100": (">=", 35_000),
        "api.single": (">=", 4_000),
        "api.watch1000": ("<=", 100),
        "cli.get": ("<=", 0.25),
    },
    "road": {
        "road.ship_p99": ("<=", 50),
        "road.apply1000": ("<=", 5),
        "road.apply1000_bytes": ("<=", 2_000_000),
        "road.c1m_s": ("<=", 90),
    },
    "schedule": {
        "schedule.group10k": (">=", 30_000),
        "schedule.spread": (">=", 10_000),
        "schedule.unlike": (">=", 4_000),
        "schedule.single10k": (">=", 6_000),
        "schedule.c1m": ("<=", 60),
        "schedule.c1m_indexed": ("<=", 60),
        "schedule.c1m_lookup_p99": ("<=", 50),
        "schedule.c1m_lookup_max": ("<=", 50),
        "schedule.latency_p99": ("<=", 50),
        "schedule.latency_busy_p99": ("<=", 150),
        "schedule.growth": ("<=", 2.5),
        "schedule.growth_score": (">=", 99),
    },
    "openb": {
        "openb.default.bestfit": ("<=", 7.44),
        "openb.default.cost": ("<=", 3),
        "openb.default.ours": ("<=", 4.77),
        "openb.gpushare40.ours": ("<=", 6.04),
        "openb.multigpu20.ours": ("<=", 4.47),
        "openb.gpuspec10.ours": ("<=", 5.34),
        "openb.cpu100.ours": ("<=", 4.79),
        "openb.default.schedulers4": ("<=", 7.14),
        "openb.default.regions3": ("<=", 7.14),
    },
    "sharing": {
        "sharing.conflicts4": ("<=", 0.1),
        "sharing.scale4": (">=", 0.8),
        "sharing.waits4": ("<=", 1.5),
        "sharing.standalone4": (">=", 0),
        "sharing.standalone4_conflicts": (">=", 0),
        "sharing.conflicts_all_or_nothing": (">=", 0),
        "sharing.conflicts_versions": (">=", 0),
        "sharing.gang_rounds": ("<=", 10),
        "sharing.preempt": (">=", 1_000),
    },
    "sim": {"sim.speed": (">=", 120), "sim.run_s": ("<=", 1.5)},
    "agent": {
        "agent.serving_p50": ("<=", 1),
        "agent.serving_p99": ("<=", 3),
        "agent.sessions2000": ("<=", 20),
        "agent.sessions2000_log": ("<=", 0),
        "agent.sessions2000_rate": (">=", 6.8),
    },
    "limits": {
        "limits.silence_stall_ms": ("<=", 100),
        **{f"limits.{case.name}_end_s": ("<=", 60) for case in TABLE if case.is_timed},
        **{f"limits.{case.name}_stall_ms": ("<=", 100) for case in TABLE if case.is_timed},
        "limits.exclusive_100k_s": ("<=", 60),
        "limits.exclusive_stall_ms": ("<=", 100),
        "limits.neighbour_p99_ms": ("<=", 100),
    },
}
#: What may be nothing, or so little that it does not show: stalls, batches of who has nothing to tell, memory that
#: earlier tests of this process gave back, and what a server on a busy machine does not come to in the moment in which
#: the small form watches it.
NOTHING = (
    "stall_ms",
    "conflicts4",
    "standalone4_conflicts",
    "_log",
    "memory.per_slot",
    "agent.sessions2000",
    "agent.sessions2000_rate",
)


@pytest.mark.timeout(600)  # processes of `holdfast dev` start in their own time
@pytest.mark.parametrize("name", FIGURES)
def test_every_benchmark_runs_to_its_end_in_its_small_form_with_every_figure_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, config = tmp_path / "here", tmp_path / "config.yaml"
    here.mkdir()
    monkeypatch.chdir(here if name != "sim" else CHECKOUT)  # whose scenarios lie in the project
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    done = RUN.invoke(app, ["bench", name, "--small", "--json"])
    assert done.exit_code == 0, done.output
    found = msgspec.json.decode(done.stdout, type=BenchReport)
    assert found.failures == ()
    assert {one.name: (one.direction, one.target) for one in found.results} == FIGURES[name]
    for one in found.results:
        assert one.baseline > 0, one
        assert one.value > 0 or one.name.endswith(NOTHING), one
        low, high = sorted((one.best, one.worst))
        assert low <= one.value <= high, one
    assert found.machine.cores > 0
    assert list(here.iterdir()) == []
    assert not config.exists(), "people's own contexts stay as they are"


def test_people_see_a_table_and_progress_stays_off_stdout() -> None:
    done = RUN.invoke(app, ["bench", "core", "--small"])
    assert "core.memory.per_slot" in done.stdout
    assert "measuring" not in done.stdout
    assert "measuring" in done.stderr


# What cannot be measured


def test_a_row_that_cannot_be_measured_says_why_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> Any:
        require(False, "the disk is full")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "_against_raw_appends", broken)
    done = RUN.invoke(app, ["bench", "store", "--small", "--json"])
    assert done.exit_code == 1
    found = msgspec.json.decode(done.stdout, type=BenchReport)
    assert {one.name: one.why for one in found.failures} == {"store.sqlite.group100": "the disk is full"}
    assert {one.name for one in found.results} == FIGURES["store"].keys() - {"store.sqlite.group100"}
    assert "store.sqlite.group100 could not be measured: the disk is full" in done.stderr
    assert "Traceback" not in done.output


def test_a_benchmark_of_which_nothing_can_be_measured_says_so_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> float:
        raise MemoryError("no more")

    monkeypatch.setattr(report, "stores_per_second", broken)
    done = RUN.invoke(app, ["bench", "core", "--small"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "core.fork could not be measured: MemoryError: no more (test_commands.py:" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in ("core", "openb", "sim")])
def test_a_benchmark_that_has_no_folder_to_measure_in_says_so_without_a_traceback(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    done = RUN.invoke(app, ["bench", name, "--small", "--json"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    found = msgspec.json.decode(done.stdout, type=BenchReport)
    said = {*(one.name for one in found.failures), *(one.name for one in found.results)}
    assert said == FIGURES[name].keys()
    assert {one.why.partition(" (")[0] for one in found.failures} == {"OSError: [Errno 28] No space left on device"}
    in_memory = ("schedule.growth", "sharing.conflicts_", "sharing.gang_")
    assert all(one.name.startswith(in_memory) for one in found.results), "which write nothing"


def test_a_benchmark_whose_baseline_cannot_be_measured_says_so_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> float:
        raise MemoryError("no more")

    for one in (sim, suite):
        monkeypatch.setattr(one, "stores_per_second", broken)
    for name in ("sim", "limits"):
        done = RUN.invoke(app, ["bench", name, "--small", "--json"])
        assert done.exit_code == 1
        assert isinstance(done.exception, SystemExit)
        found = msgspec.json.decode(done.stdout, type=BenchReport)
        assert {one.name for one in found.failures} == FIGURES[name].keys()


def test_a_missed_target_is_a_figure_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = ReportBuilder()
    sheet.add(at_least("core.single", 1, "placements/s", 1, 40_000))
    monkeypatch.setattr(core, "run", lambda small: sheet.report())
    done = RUN.invoke(app, ["bench", "core", "--json"])
    assert done.exit_code == 0
    assert [one.met for one in msgspec.json.decode(done.stdout, type=BenchReport).results] == [False]


def test_a_part_keeps_what_it_had_found_before_it_failed() -> None:
    sheet = ReportBuilder()
    with sheet.part("first", "second"):
        sheet.add(at_most("first", 1, "s", 1, 2))
        Path("/nowhere/at/all").read_bytes()
    with sheet.part("third"):
        pass
    found = sheet.report()
    assert [one.name for one in found.results] == ["first"]
    assert [one.name for one in found.failures] == ["second", "third"]
    assert found.failures[0].why.startswith("FileNotFoundError: ")
    assert found.failures[1].why == "not measured"


def test_the_reason_of_an_inner_part_is_the_one_that_counts() -> None:
    sheet = ReportBuilder()
    with sheet.part("first", "second"):
        with sheet.part("first"):
            require(False, "the first thing that went wrong")
        require(False, "what followed")
    assert {one.name: one.why for one in sheet.report().failures} == {
        "first": "the first thing that went wrong",
        "second": "what followed",
    }


# What a value is

#: What a figure is of those that it stands for, by the end of its name; of all others it is the median.
OTHER_THAN_MEDIAN = {"p99": "p99", "max": "max", "watch1000": "p99", "neighbour_p99_ms": "p99", "growth_score": "min",
                     "p99.during_snapshot": "p99", "max.during_snapshot": "max", "snapshot.p99": "p99",
                     "sim.run_s": "mean", "openb.LIST": "mean", "gang_rounds": "max"}  # fmt: skip
#: What each name is given by who calls it.
NAMED = {("latency.py", "name"): "latency_p99", ("suite.py", "figure"): "openb.LIST"}


def figures() -> Iterator[tuple[str, str, str, str]]:
    """Of every figure with a best and a worst: its file, its name, how it is made of what, and what stands beside."""
    for path in sorted(Path(report.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func).removeprefix("report.") in ("at_least", "at_most")
                and len(call.args) > 5
            ):
                name = ast.unparse(call.args[0]).strip("'")
                yield (
                    path.name,
                    NAMED.get((path.name, name), name),
                    ast.unparse(call.args[1]),
                    ast.unparse(call.args[5]),
                )


def test_every_figure_is_the_median_of_what_stands_beside_it_or_what_its_name_says() -> None:
    found = list(figures())
    assert len(found) >= 20
    for file, name, value, among in found:
        how = next((how for end, how in OTHER_THAN_MEDIAN.items() if name.endswith(end)), "median")
        made = f"{how}({among})"
        ratio = "median(stored) / median(plain)" if name == "store.sqlite.group100" else made
        assert value.removeprefix("report.") in (made, f"statistics.{made}", ratio), (
            f"{file}: {name} is {value}, and beside it is {among}"
        )


def test_of_the_core_and_the_ledger_the_later_half_of_the_tenths_counts() -> None:
    for module in (core, ledger):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        halves = [
            one
            for one in ast.walk(tree)
            if isinstance(one, ast.Call) and ast.unparse(one.func).removeprefix("report.") == "later_half"
        ]
        assert halves, f"{module.__name__} measures its warm-up"


def test_the_best_of_a_rate_is_its_highest_and_of_a_cost_its_lowest() -> None:
    rate, cost = at_least("r", 2, "/s", 1, 2, [1, 2, 3]), at_most("c", 2, "s", 1, 2, [1, 2, 3])
    assert (rate.value, rate.best, rate.worst) == (2, 3, 1)
    assert (cost.value, cost.best, cost.worst) == (2, 1, 3)
    alone = at_most("a", 2, "s", 1, 2)
    assert (alone.best, alone.worst) == (2, 2)


def test_the_later_half_of_a_run_counts() -> None:
    assert list(report.later_half([1, 2, 3, 4])) == [3, 4]
    assert list(report.later_half([1])) == [1]


def test_of_a_hundred_values_the_second_largest_is_what_99_do_not_exceed() -> None:
    assert p99([float(number) for number in range(100, 0, -1)]) == 99
    assert p99([float(number) for number in range(1, 1_001)]) == 990
    assert p99([3.0, 1.0]) == 3
    assert p99([7.0]) == 7
