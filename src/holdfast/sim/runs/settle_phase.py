"""The phase after the faults: the world is calm and everything must converge, soon if an event triggers it.

calm ──▶ examine every two seconds: what is open? ──▶ nothing, and nothing changes any more ──▶ settled
                     └──▶ open for longer than its limit (`checks.deadlines`) ──▶ late
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
#: How long nothing may change before the run has settled: controllers that undo each other's work never settle.
QUIET_MS = 6_000
#: Suffix of the counters of changes that triggered nothing and that a resync found.
CAUGHT = "_caught"


class SettlePhase:
    """The last phase of a run, and the checks of convergence meanwhile."""

    def __init__(self, scene: SimulatedCluster, troubles: FaultInjector) -> None:
        self.scene = scene
        self.patience = ConvergenceDeadlines()
        self.took = 0
        self._open_issues = troubles

    async def until_calm(self, goes_on: Callable[[], bool]) -> list[str]:
        """Calm the world and wait until everything has converged. Return what did not, and what was late."""
        world = self.scene.world
        self.calm()
        began, latest = world.now(), world.now() + span(self.scene.scenario.settle)[1]
        since, seen = None, self._heads()
        left = [Unconverged("settled", "everything", "was not checked yet")]
        while world.now() < latest and goes_on():
            await asyncio.sleep(LOOK_MS / 1000)
            left, heads = list(unconverged(self.scene)), self._heads()
            self.patience.look(world.now(), [] if any(leaderless(self.scene)) else left)
            if left or since is None or heads != seen:
                since, seen = (None if left else world.now()), heads
            elif world.now() - since >= QUIET_MS:
                self.took = world.now() - began
                return self._late()
        return [*self._late(), *(map(str, left) if left else ["settled: the ledgers keep changing"])]

    def look_meanwhile(self) -> None:
        """Check convergence during faults: lost nodes are noticed, their slots fail, work of lost regions is assigned
        to others. Ledgers without a leader are left out. Count rollouts that wait for their budgets."""
        self.scene.acted[HELD] += sum(held_back(self.scene.audits[name].state) for name in self.scene.cast.nodes)
        scene, without = self.scene, [one.subject for one in leaderless(self.scene)]
        left = [] if without else [*unnoticed_silence(scene), *unreleased_slots(scene)]
        if PLATFORM_NAME not in without:
            left += [*unnoticed_region_loss(scene), *unreplaced_work(scene.audits[PLATFORM_NAME].state)]
        self.patience.look(scene.world.now(), left)

    def calm(self) -> None:
        """End all faults and start every machine. New processes have no faults: a process that fails at every start
        would rightly be restarted ever more slowly, for minutes."""
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
        """Return what converged too late, or only by a resync. Runs with watch faults are exempt: there a resync must
        repair what was dropped."""
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
