"""The quiet world of `holdfast bench sim`, as it is measured."""

from __future__ import annotations

import asyncio

from holdfast.bench import sim
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.sim.loop import run_virtual


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
