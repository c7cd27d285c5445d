"""`holdfast bench limits`, with few of everything, and what it measures stalls with."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from holdfast.bench import limits, limits_exclusive, limits_silence, limits_table, region
from holdfast.bench.report import Report, Result
from holdfast.bench.stalls import longest, stalls_of, watched, written
from holdfast.cli.main import app
from holdfast.core.ledger.draft import Draft
from holdfast.core.model.settings import Settings, unsafe

#: So that a region falls silent within seconds.
SHORT = Settings(
    proposal_life=120_000, session_lease=1_500, proof_interval=200, grace=100, kill_margin=100, fence_time=2_000
)


async def _exclusive(folder: Path) -> list[Result]:
    return await limits_exclusive.measure_exclusive(folder, replicas=50)


async def _silence(folder: Path) -> list[Result]:
    return await limits_silence.measure_silence(folder, nodes=500)


def test_the_report_of_limits_has_the_form_of_every_benchmark_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unsafe(SHORT) == []
    monkeypatch.setattr(region, "SETTINGS", SHORT)
    monkeypatch.setattr(limits, "PARTS", {"silence": _silence, "exclusive": _exclusive})
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "limits", "--json"])
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(done.stdout, type=Report)
    assert {result.name: (result.direction, result.target) for result in report.results} == {
        "limits.silence_stall_ms": ("<=", 100),
        "limits.exclusive_100k_s": ("<=", 60),
        "limits.exclusive_stall_ms": ("<=", 100),
        "limits.neighbour_p99_ms": ("<=", 100),
    }
    assert all(result.baseline > 0 for result in report.results)
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_limits_tells_of_each_how_long_its_end_takes_and_what_holds_the_loop(tmp_path: Path) -> None:
    few = tuple(case for case in limits_table.TABLE if case.name in ("node", "expiry", "rights"))
    results = asyncio.run(limits_table.measure_table(tmp_path, few))
    assert [(one.name, one.unit, one.target) for one in results] == [
        ("limits.rights_end_s", "s", 60),
        ("limits.rights_stall_ms", "ms", 100),
        ("limits.node_end_s", "s", 60),
        ("limits.node_stall_ms", "ms", 100),
    ]
    assert all(one.value > 0 and one.baseline > 0 for one in results if one.unit == "s")


def test_the_table_of_limits_notices_a_callback_that_holds_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land = Draft.land

    def slowly(draft: Draft[Any]) -> None:
        _work(limits_table.STALL_MS + 20)
        land(draft)

    few = tuple(case for case in limits_table.TABLE if case.name == "node")
    monkeypatch.setattr(Draft, "land", slowly)
    (_, stall) = asyncio.run(limits_table.measure_table(tmp_path, few))
    assert (stall.name, stall.met) == ("limits.node_stall_ms", False)


def _work(ms: float) -> None:
    until = time.thread_time() + ms / 1_000
    while time.thread_time() < until:
        pass


async def _busy(ms: float) -> None:
    await asyncio.sleep(0)
    _work(ms)
    await asyncio.sleep(0)


def test_the_longest_callback_is_named_by_its_task_and_measured_in_processor_time() -> None:
    async def story() -> None:
        await asyncio.create_task(_busy(30), name="short")
        await asyncio.create_task(_busy(60), name="long")
        await asyncio.sleep(0.2)  # a wait is no work

    with watched() as stalls:
        asyncio.run(story())
    worst = longest(stalls)
    assert worst.callback == "long: _busy"
    assert 60 <= worst.ms < 200
    assert [one.callback for one in stalls] == ["short: _busy", "long: _busy"]
    assert longest(stalls, since=worst.at + 1).ms == 0


def test_a_stall_of_another_loop_does_not_count() -> None:
    loop = asyncio.new_event_loop()
    with watched(loop) as stalls:
        asyncio.run(_busy(30))
    loop.close()
    assert stalls == []


def test_a_server_that_is_measured_writes_its_stalls_beside_its_data(tmp_path: Path) -> None:
    assert stalls_of(tmp_path) == []
    with written(tmp_path):
        asyncio.run(_busy(30))
    asyncio.run(_busy(30))
    assert [one.callback.partition(": ")[2] for one in stalls_of(tmp_path)] == ["_busy"]
