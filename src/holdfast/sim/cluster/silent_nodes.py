"""Silent nodes are noticed during faults, their slots fail in time, and a lost region is marked lost.

    machine down ──a lease, or two──▶ its session expires ──its turn──▶ slots unknown ──the fence──▶ failed

If many nodes are silent at once, two of them are processed per minute.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.replay.recording import PLATFORM_NAME
from holdfast.sim.checks.deadlines import Unconverged
from holdfast.sim.cluster.cluster import SimulatedCluster

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
