"""Silent nodes are noticed during faults, their slots fail in time, and a lost region is marked lost. Measures how long
a region's lost capacity is missing, until it is served elsewhere.

    machine down ──a lease, or two──▶ its session expires ──its turn──▶ slots unknown ──the fence──▶ failed

If many nodes are silent at once, two of them are processed per minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.replay.recording import PLATFORM_NAME, PlannedFault, RunPlan
from holdfast.sim.checks.deadlines import Unconverged
from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.scenario import Scenario, span

#: A silent node is noticed within this time: a lease, a second one if many nodes are silent at once, and its turn.
SILENCE_MS = 60_000
#: Silent nodes that are processed per window; and the time after the fence within which their slots fail.
TOGETHER, WINDOW_MS, GIVEN_UP_MS = 2, 60_000, 10_000
#: A region's session expires after a lease, or two if many expire at once; the region is marked lost within this time
#: after it.
LEASES, LOST_MS = 2, 10_000
_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING)


def unnoticed_silence(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Yield nodes whose machines are down and whose slots still count as running."""
    for name, nodes in scene.cast.nodes.items():
        state: RegionState = scene.audits[name].state
        gone = {
            state.node_names.get(node) or 0: node for node in nodes if scene.world.machines[node].incarnation is None
        }
        for uid in gone:
            slots = [slot for slot in state.slots.values() if slot.node == uid and slot.phase in _ALIVE]
            if uid and slots:
                told = f"is down, but {len(slots)} replicas count as running there"
                yield Unconverged("silence", f"{name} {gone[uid]}", told, SILENCE_MS + _waits(len(gone)))


def unreleased_slots(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Yield slots on nodes without a session that did not fail though the fence has passed. Not while repair is paused;
    each new leader restarts the fence."""
    for name in scene.cast.nodes:
        state: RegionState = scene.audits[name].state
        nodes = {uid: node for uid, node in state.nodes.items() if not node.session}
        paused = any(
            one.action is OverrideAction.PAUSE_REPAIR and one.ends > state.info.at for one in state.every_override()
        )
        if not nodes or paused:
            continue
        fence = max([state.info.settings.fence_time, *(node.fence for node in nodes.values())])
        for slot in state.slots.values():
            if slot.node in nodes and slot.phase is Phase.UNKNOWN:
                subject = f"{name} slot {slot.workload}/{slot.ordinal} under {slot.epoch} in term {state.info.term}"
                told = f"is unknown on {nodes[slot.node].name}, which is silent, but has not failed"
                yield Unconverged("given-up", subject, told, fence + _waits(len(nodes)) + GIVEN_UP_MS)


def unnoticed_region_loss(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Yield regions without a running server that are not marked lost: until then no work moves."""
    platform: PlatformState = scene.audits[PLATFORM_NAME].state
    settings = platform.info.settings
    for name in scene.cast.nodes:
        known = platform.regions.get(name)
        gone = all(scene.world.machines[server].incarnation is None for server in scene.cast.servers[name])
        if gone and known is not None and known.status.log_id and known.status.health is not RegionHealth.LOST:
            within = LEASES * settings.session_lease + settings.lost_after + LOST_MS
            yield Unconverged("lost", f"region {name}", f"is down, but is marked {known.status.health}", within)


def _waits(nodes: int) -> int:
    """Return how much later the last of several silent nodes is processed."""
    return (nodes - 1) // TOGETHER * WINDOW_MS


class RecoveryTimer:
    """Measures when critical workloads serve their minimum in one healthy region."""

    def __init__(self, scenario: Scenario, plan: RunPlan) -> None:
        self.took: dict[str, int] = {}
        lost = [fault for fault in plan.faults if fault.what == "lose-region"]
        self._loss = lost[0] if lost and scenario.recovers else None
        self._limit = span(scenario.recovers)[1] if scenario.recovers else 0
        self._critical = [name for name, one in scenario.workloads.items() if one.recovery]
        self._struck: list[str] = []
        self._looked: int | None = None

    def look(self, scene: SimulatedCluster, struck: Mapping[PlannedFault, int]) -> None:
        """Record which workloads serve while the region is lost; `struck` has the start of each fault."""
        now, loss = scene.world.now(), self._loss
        if loss is None or loss not in struck or now > struck[loss] + loss.lasts:
            return
        since = now - struck[loss]
        platform = scene.audits[PLATFORM_NAME].state
        for name in self._critical:
            workload = next((one for one in platform.workloads.values() if one.meta.name == name), None)
            if workload is None or name in self.took:
                continue
            theirs = [a.purpose for a in assignments_of(platform, workload.meta.uid) if a.region == loss.where]
            if self._looked is None and AssignmentPurpose.SERVING in theirs:
                self._struck.append(name)
            for region in scene.cast.nodes:
                slots = scene.audits[region].state.slots.values() if region != loss.where else []
                serving = sum(s.phase is Phase.SERVING and s.workload == workload.meta.uid for s in slots)
                if serving >= workload.spec.recovery.min_serving:
                    self.took.setdefault(name, since)
        self._looked = since

    def late(self) -> list[str]:
        """Return workloads that did not recover within the limit, if the region was lost for that long."""
        if self._loss is None:
            return []
        missed = [name for name in self._struck if name not in self.took and (self._looked or 0) >= self._limit]
        slow = [name for name, took in self.took.items() if took > self._limit]
        return [f"recovers: {name} did not recover within {self._limit} ms of the loss" for name in (*missed, *slow)]
