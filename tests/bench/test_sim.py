"""The quiet world of `holdfast bench sim`, as it is measured."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.bench import sim
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.host.runtime.telemetry import Logger
from holdfast.sim.world.virtual_loop import run_virtual


def test_in_the_quiet_world_every_replica_serves_and_none_has_ever_failed() -> None:
    size = sim.SimSize(nodes=5, replicas=15, workloads=5)

    async def watch() -> list[Slot]:
        scene = sim.quiet_cluster(size)
        try:
            await asyncio.sleep(size.settle + size.watched)
            return [slot for name in sim.REGIONS for slot in scene.audits[name].state.slots.values()]
        finally:
            await scene.world.end()

    slots = run_virtual(watch())
    assert [slot.phase for slot in slots] == [Phase.SERVING] * 75
    assert [slot for slot in slots if slot.failure or slot.restarts or slot.attempts] == []


def test_what_made_up_servers_log_is_not_heard_beside_the_table(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def plays(_: sim.SimSize) -> list[float]:
        Logger("ledger").error("snapshot-failed")
        return [1.0]

    async def watches(_: sim.SimSize) -> list[float]:
        return plays(_)

    monkeypatch.setattr(sim, "_play", plays)
    monkeypatch.setattr(sim, "_watch", watches)
    before = logging.getLogger("holdfast").level
    assert len(sim.run(small=True).results) == 2
    assert caplog.records == []
    assert logging.getLogger("holdfast").level == before
