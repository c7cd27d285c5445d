"""`holdfast sim`, as a user sees it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.cli.tools import sim
from holdfast.core.region.definition import REGION
from holdfast.host.ports.store import StoredBatch
from holdfast.replay import recording as recordings
from holdfast.replay.recording import PlannedAction, PlannedFault, RunPlan
from holdfast.sim.runs import shrink, swarm
from holdfast.sim.runs.run import RunReport
from holdfast.sim.scenario import Scenario
from holdfast.stores.files.folder import FolderLock
from holdfast.stores.sqlite.store import SqliteStore
from tests.sim.runs.test_swarm import SMALL, a_report
from tests.support.event_loop import run as in_a_loop
from tests.support.generated.golden_logs import region_story
from tests.support.hosts.stores import written

SWARM = ["swarm", "--seeds", "1..4", "--jobs", "1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Scenarios of which one can be played, and quickly."""
    made = tmp_path / "scenarios"
    made.mkdir()
    (made / "small.yaml").write_text(SMALL, encoding="utf-8")
    (made / "later.yaml").write_text("{name: later, says: To be done., absent: there is no moon yet}", encoding="utf-8")
    return made


@pytest.fixture
def holdfast(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder.parent)

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(app, ["sim", *words])

    return invoke


def broken(scenario: Scenario, seed: int, plan: RunPlan | None = None) -> RunReport:
    """Every seed fails for as long as its plan has a power cut in it."""
    whole = RunPlan(
        1_000,
        (PlannedFault(5, "crash", "eu-1", 9), PlannedFault(6, "power-cut", "eu", 9)),
        (PlannedAction(7, "scale", 1),),
    )
    has = any(fault.what == "power-cut" for fault in (plan or whole).faults)
    return a_report(scenario, seed, plan or whole, promise="once" if has else "")


# list


def test_scenarios_are_listed_and_absent_ones_are_marked(holdfast: Any) -> None:
    done = holdfast("list")
    assert done.exit_code == 0
    assert "absent: there is no moon yet" in done.stdout
    assert "One region, a few replicas" in done.stdout


# run


def test_a_run_is_told_in_words(holdfast: Any) -> None:
    done = holdfast("run", "small", "--seed", "3", "--timeline")
    assert done.exit_code == 0, done.output
    assert "small, seed 3: safety held, liveness held" in done.stdout
    for part in ("times as fast as real time", "digest", "Which repair path exists?", "  at ", " crash eu-"):
        assert part in done.stdout
    assert done.stderr == ""


def test_a_run_as_json_has_what_programs_look_for_and_is_the_same_each_time(holdfast: Any, folder: Path) -> None:
    first, second = holdfast("run", "small", "--json"), holdfast("run", str(folder / "small.yaml"), "--json")
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    found = msgspec.json.decode(first.stdout)
    wanted = {"digest", "verdicts", "answers", "timeline", "scenario", "seed", "findings", "unsettled", "lacking"}
    assert wanted | {"counts", "length", "recovered"} <= found.keys()
    assert found["verdicts"] == {"safety": "held", "liveness": "held"}
    assert set(found["answers"]) == {"desired", "first", "progress", "invariant", "telemetry", "repair"}


@pytest.mark.parametrize(
    "planted", [{"promise": "once"}, {"unsettled": ("web waits",)}, {"lacking": ("2 commands, and 80 are the least",)}]
)
def test_what_is_broken_or_inconclusive_is_said_and_ends_with_1(
    planted: dict[str, Any], holdfast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim, "play", lambda scenario, seed, plan: a_report(scenario, seed, plan, **planted))
    done = holdfast("run", "small")
    assert done.exit_code == 1
    assert any(
        said in done.stdout for said in ("violated: once", "not converged: web waits", "minimum not reached: 2 co")
    )


def test_an_unknown_scenario_is_answered_with_the_nearest_and_all_names(holdfast: Any) -> None:
    done = holdfast("run", "smal")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Did you mean small? Known: later, small" in done.stderr


@pytest.mark.parametrize("words", [["run", "later"], ["swarm", "--seeds", "1..2", "--scenario", "later"]])
def test_an_absent_scenario_is_never_green(words: list[str], holdfast: Any) -> None:
    done = holdfast(*words)
    assert done.exit_code == 2
    assert "later cannot run: there is no moon yet" in done.stderr


def test_a_file_that_is_no_scenario_and_a_folder_that_is_none_are_named(holdfast: Any, folder: Path) -> None:
    (folder / "odd.yaml").write_text("{name: odd, says: x, lenght: 5s}", encoding="utf-8")
    assert "lenght" in holdfast("run", "scenarios/odd.yaml").stderr
    assert "there is no folder nowhere" in holdfast("run", "odd", "--scenarios", "nowhere").stderr
    assert holdfast("run", "scenarios/none.yaml").exit_code == 2


def test_hosts_are_silent_unless_asked(holdfast: Any) -> None:
    level = logging.getLogger("holdfast").level
    assert "term=" not in holdfast("run", "small").stderr
    assert "term=" in holdfast("run", "small", "--verbose").stderr
    assert logging.getLogger("holdfast").level == level


# swarm


def test_a_swarm_that_holds_ends_with_0_and_says_what_it_could_not_judge(holdfast: Any) -> None:
    done = holdfast("swarm", "--seeds", "1..2", "--jobs", "1")
    assert done.exit_code == 0, done.output
    assert "2 runs, " in done.stdout
    assert "coverage not judged: small: 2 runs, at least 10 required" in done.stdout


def test_a_failing_swarm_ends_with_1_and_tells_the_command_for_each_seed(
    holdfast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swarm, "run", broken)
    done = holdfast(*SWARM)
    assert done.exit_code == 1
    for seed in range(1, 5):
        assert f"holdfast sim run small --seed {seed}\n" in done.stdout
    assert "safety: once: as planted" in done.stdout


def test_the_command_names_the_folder_or_the_file_that_was_named(
    holdfast: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swarm, "run", broken)
    assert f"run small --seed 1 --scenarios {folder}\n" in holdfast(*SWARM, "--scenarios", str(folder)).stdout
    assert "run scenarios/small.yaml --seed 1\n" in holdfast(*SWARM, "--scenario", "scenarios/small.yaml").stdout


def test_a_swarm_as_json(holdfast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm, "run", broken)
    done = holdfast(*SWARM, "--json")
    found = msgspec.json.decode(done.stdout)
    assert (found["failed"], found["runs"], found["verdicts"]) == (True, 4, {"small": {"safety": 4}})
    assert found["failures"][0]["command"] == "holdfast sim run small --seed 1"
    assert {"simulated_hours", "runs_per_second", "simulated_speed", "coverage", "counts"} <= found.keys()


def test_a_swarm_makes_its_first_failure_smaller(holdfast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((swarm, "run"), (shrink, "run"), (sim, "play")):
        monkeypatch.setattr(module, name, broken)
    done = holdfast(*SWARM, "--shrink")
    assert "small, seed 1: once fails with 1 of 3 faults and acts (all are necessary)" in done.stdout
    assert "power-cut eu" in done.stdout


@pytest.mark.parametrize("seeds", ["5", "5..1", "a..b", "..7", "-1..4"])
def test_a_row_of_seeds_is_two_numbers(seeds: str, holdfast: Any) -> None:
    done = holdfast("swarm", f"--seeds={seeds}")
    assert done.exit_code == 2
    assert "for example 1..2000" in done.stderr


# shrink


def test_a_seed_that_holds_is_not_made_smaller(holdfast: Any) -> None:
    done = holdfast("shrink", "small", "--seed", "1")
    assert done.exit_code == 0
    assert "nothing to shrink: it holds" in done.stdout


def test_a_smaller_run_is_recorded_with_its_plan(holdfast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((shrink, "run"), (sim, "play")):
        monkeypatch.setattr(module, name, broken)
    done = holdfast("shrink", "small", "--record", "one.hfr")
    assert done.exit_code == 1
    made = recordings.read(Path("one.hfr")).run
    assert made is not None
    assert made.plan == RunPlan(1_000, (PlannedFault(6, "power-cut", "eu", 9),), ())
    assert holdfast("replay", "one.hfr").exit_code == 0


# record and replay


def test_a_run_that_is_played_again_is_the_same(holdfast: Any) -> None:
    assert holdfast("run", "small", "--seed", "5", "--record", "one.hfr").exit_code == 0
    done = holdfast("replay", "one.hfr")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("the same: seed 5 of small, digest ")
    assert "  eu: " in done.stdout
    assert done.stderr == ""


def test_the_first_event_that_differs_is_told(holdfast: Any) -> None:
    holdfast("run", "small", "--seed", "5", "--record", "one.hfr")
    recorded = recordings.read(Path("one.hfr"))
    assert recorded.run is not None
    other = msgspec.structs.replace(recorded.run, seed=6)
    recordings.write(msgspec.structs.replace(recorded, run=other), Path("other.hfr"))
    done = holdfast("replay", "other.hfr")
    assert done.exit_code == 1
    assert done.stdout.startswith("first difference: ")
    assert "log differs" in done.stdout


def test_a_file_that_cannot_be_read_is_answered_in_a_sentence(holdfast: Any) -> None:
    whole = recordings.to_bytes(recordings.Recording(None, ()))
    Path("cut.hfr").write_bytes(whole[:-1])
    Path("notes.hfr").write_text("dear diary", encoding="utf-8")
    for name, said in (("cut", "damaged"), ("notes", "not a recording"), ("none", "No such file")):
        done = holdfast("replay", f"{name}.hfr")
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr


async def kept(folder: Path) -> None:
    """A folder with a region's ledger in it."""
    store = await SqliteStore.open(folder, ballast_bytes=0)
    log, head = region_story().log, await store.head()
    log_id = REGION.batches.header(log[0][0]).log_id
    for raw, digest in log:
        head = written(await store.append(head, StoredBatch(log_id, head.seq + 1, digest, raw)))
    await store.close()


def test_a_real_ledger_is_recorded_and_folded_again(holdfast: Any, tmp_path: Path) -> None:
    in_a_loop(kept(tmp_path / "store"))
    done = holdfast("record", "--store", "store", "real.hfr")
    assert done.exit_code == 0, done.output
    assert holdfast("replay", "real.hfr").stdout.startswith("the same\n  region/")


def test_a_folder_that_a_server_has_open_is_not_read(holdfast: Any, tmp_path: Path) -> None:
    in_a_loop(kept(tmp_path / "store"))
    lock = FolderLock(tmp_path / "store")
    done = holdfast("record", "--store", "store", "real.hfr")
    lock.release()
    assert (done.exit_code, done.stdout) == (2, "")
    assert "in use by process" in done.stderr
    assert "stop that server first" in done.stderr


def test_a_folder_without_a_ledger_is_left_as_it_is(holdfast: Any, tmp_path: Path) -> None:
    done = holdfast("record", "--store", "nothing", "real.hfr")
    assert done.exit_code == 2
    assert "no ledger there" in done.stderr
    assert not (tmp_path / "nothing").exists()
