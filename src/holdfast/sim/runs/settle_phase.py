"""After the faults: the world is calm, and everything comes to rest; soon, where somebody is woken for it.

calm ──▶ a look every two seconds: what is left? ──▶ nothing, and nothing changes any more ──▶ settled
                     └──▶ left for longer than it may be (`checks.deadlines`) ──▶ late
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.replay.recording import PLATFORM_NAME
from holdfast.sim.actors.process_behavior import ProcessBehaviors
from holdfast.sim.checks.assignment.relocation import unreplaced_work
from holdfast.sim.checks.deadlines import ConvergenceDeadlines, Unconverged
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.cluster.fault_injection import FaultInjector
from holdfast.sim.cluster.liveness import leaderless, unconverged
from holdfast.sim.cluster.silent_nodes import unnoticed_region_loss, unnoticed_silence, unreleased_slots
from holdfast.sim.runs.gate_coverage import HELD, held_back
from holdfast.sim.scenario import span
from holdfast.sim.world import links, store_service

LOOK_MS = 2_000
#: Once settled, everything must stay as it is for so long: whoever changes things to and fro never settles.
QUIET_MS = 6_000
#: How counters end that say what nobody was woken for and a resync found.
CAUGHT = "_caught"


class SettlePhase:
    """The end of a run."""

    def __init__(self, scene: SimulatedCluster, troubles: FaultInjector) -> None:
        self.scene = scene
        self.patience = ConvergenceDeadlines()
        #: How long it took, in simulated milliseconds.
        self.took = 0
        self._open_issues = troubles

    async def until_calm(self, goes_on: Callable[[], bool]) -> list[str]:
        """Let the world be calm until all is well and stays so; what is not, when time is up, and what was late."""
        world = self.scene.world
        self.calm()
        began, latest = world.now(), world.now() + span(self.scene.scenario.settle)[1]
        since, seen = None, self._heads()
        left = [Unconverged("settled", "everything", "was not looked at yet")]
        while world.now() < latest and goes_on():
            await asyncio.sleep(LOOK_MS / 1000)
            left, heads = list(unconverged(self.scene)), self._heads()
            self.patience.look(world.now(), [] if any(leaderless(self.scene)) else left)
            if left or since is None or heads != seen:
                since, seen = (None if left else world.now()), heads
            elif world.now() - since >= QUIET_MS:
                self.took = world.now() - began
                return self._late()
        return [*self._late(), *(map(str, left) if left else ["settled: things change to and fro"])]

    def look_meanwhile(self) -> None:
        """While faults strike: nodes that are gone are noticed, and what stood there is given up; what lost
        regions had is assigned to others; wherever somebody leads. Rollouts that wait for their budgets are counted."""
        self.scene.acted[HELD] += sum(held_back(self.scene.audits[name].state) for name in self.scene.cast.nodes)
        scene, without = self.scene, [one.subject for one in leaderless(self.scene)]
        left = [] if without else [*unnoticed_silence(scene), *unreleased_slots(scene)]
        if PLATFORM_NAME not in without:
            left += [*unnoticed_region_loss(scene), *unreplaced_work(scene.audits[PLATFORM_NAME].state)]
        self.patience.look(scene.world.now(), left)

    def calm(self) -> None:
        """Nothing is wrong with the world any more, and everybody is there. What is started from now on is well: a
        process that is in trouble whenever it is started is rightly started ever more seldom, for minutes."""
        world = self.scene.world
        for name, metal in self.scene.metals.items():
            metal.habit = ProcessBehaviors(world.chance, name, troubles={})
        for ears in self.scene.servers.watch_faults.values():
            ears.become(None)
        world.heal()
        world.network.weather = links.CALM
        for store in world.stores.values():
            store.set_weather(store_service.CALM)
            store.empty()
        for name, machine in world.machines.items():
            if machine.incarnation is None:
                world.restart(name)

    def _late(self) -> list[str]:
        """What was seen to later than somebody was woken for it. Where changes were kept from those who listen they are
        forgiven: that a resync makes up for it is what is looked for then."""
        if "deafen" in self._open_issues.happened:
            return []
        caught: dict[str, int] = {}
        for metrics in self.scene.servers.metrics:
            for (name, labels), count in metrics.counts.items():
                told = " ".join((name, *(value for _, value in labels)))
                caught[told] = caught.get(told, 0) + (count if name.endswith(CAUGHT) else 0)
        found = [f"woken: {name} {count}: only a resync has noticed" for name, count in caught.items() if count]
        return [*found, *self.patience.late()]

    def _heads(self) -> dict[str, int]:
        return {name: audit.state.info.seq for name, audit in self.scene.audits.items()}
