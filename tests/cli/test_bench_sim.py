"""`holdfast bench sim`, in a small world, and the quiet world as it is measured."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.bench import sim
from holdfast.cli.main import app
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.sim.loop import run_virtual


def test_it_reports_its_figures_with_a_target_and_a_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "FULL", sim.SMALL)
    result = CliRunner().invoke(app, ["bench", "sim", "--json"])
    assert result.exit_code == 0, result.output
    speed, cost = json.loads(result.stdout)["results"]
    assert (speed["name"], speed["target"], speed["direction"]) == ("sim.speed", 120, ">=")
    assert (cost["name"], cost["target"], cost["direction"]) == ("sim.run_s", 1.5, "<=")
    assert min(speed["value"], cost["value"]) > 0


def test_in_the_quiet_world_every_replica_serves_and_none_has_ever_failed() -> None:
    size = sim.Size(nodes=5, replicas=15, workloads=5)

    async def watch() -> list[Slot]:
        scene = sim.quiet_scene(size)
        try:
            await asyncio.sleep(size.settle + size.watched)
            return [slot for name in sim.REGIONS for slot in scene.audits[name].state.slots.values()]
        finally:
            await scene.world.end()

    slots = run_virtual(watch())
    assert [slot.phase for slot in slots] == [Phase.SERVING] * 75
    assert [slot for slot in slots if slot.failure or slot.restarts or slot.attempts] == []
