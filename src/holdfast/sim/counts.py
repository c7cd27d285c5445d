"""What happened in a run, counted: faults, packets, calls to stores, commands, refusals, moves."""

from __future__ import annotations

from holdfast.sim.gates import bound
from holdfast.sim.scene import Scene

_REFUSED = ("commands_refused", "scheduler_refused")


def counted(scene: Scene, faults: dict[str, int]) -> dict[str, int]:
    """How often everything happened, by name: what coverage is judged by."""
    found: dict[str, int] = {}

    def add(name: str, count: int) -> None:
        found[name] = found.get(name, 0) + count

    for what, count in faults.items():
        add(f"fault.{what}", count)
    for what, count in scene.world.network.tally.items():
        add(f"network.{what}", count)
    for store in scene.world.stores.values():
        for what, count in store.happened.items():
            add(f"store.{what}", count)
    for audit in scene.audits.values():
        for what, count in audit.counts.items():
            add(f"audit.{what}", count)
    for what, count in (*scene.servers.heard.items(), *scene.chronicle.counts().items(), *scene.acted.items()):
        add(what, count)
    for meters in scene.servers.meters:
        for (name, labels), count in meters.counts.items():
            # Of a proposal that is accepted otherwise only its scheduler counts what was refused.
            add(f"refused.{dict(labels)['code']}" if name in _REFUSED else f"meter.{name}", count)
    return dict(sorted({**found, **bound(found)}.items()))
