"""The table of `holdfast bench limits`, and what it measures stalls with."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.fixtures.loop_stalls import longest, measure_stalls, stalls_of, write_stalls
from holdfast.bench.limits import silent_region, table
from holdfast.bench.report import BenchResult
from holdfast.core.ledger.commit.draft import BatchDraft
from holdfast.core.model.values.settings import settings_problems


def test_the_settings_of_a_small_region_that_falls_silent_are_safe() -> None:
    assert settings_problems(silent_region.SHORT) == []


def _measured(folder: Path, *names: str) -> list[BenchResult]:
    cases = [case for case in table.TABLE if case.name in names]
    return [one for case in cases for one in asyncio.run(table.measure_case(folder, case, 1.0))]


def test_the_table_of_limits_tells_of_each_how_long_its_end_takes_and_what_holds_the_loop(tmp_path: Path) -> None:
    results = _measured(tmp_path, "node", "expiry", "rights")
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
    land = BatchDraft.commit

    def slowly(draft: BatchDraft[Any]) -> None:
        _work(table.STALL_MS + 20)
        land(draft)

    monkeypatch.setattr(BatchDraft, "commit", slowly)
    (_, stall) = _measured(tmp_path, "node")
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

    with measure_stalls() as stalls:
        asyncio.run(story())
    worst = longest(stalls)
    assert worst.callback == "long: _busy"
    assert 60 <= worst.ms < 200
    assert [one.callback for one in stalls] == ["short: _busy", "long: _busy"]
    assert longest(stalls, since=worst.at + 1).ms == 0


def test_a_stall_of_another_loop_does_not_count() -> None:
    loop = asyncio.new_event_loop()
    with measure_stalls(loop) as stalls:
        asyncio.run(_busy(30))
    loop.close()
    assert stalls == []


def test_a_server_that_is_measured_writes_its_stalls_beside_its_data(tmp_path: Path) -> None:
    assert stalls_of(tmp_path) == []
    with write_stalls(tmp_path):
        asyncio.run(_busy(30))
    asyncio.run(_busy(30))
    assert [one.callback.partition(": ")[2] for one in stalls_of(tmp_path)] == ["_busy"]
