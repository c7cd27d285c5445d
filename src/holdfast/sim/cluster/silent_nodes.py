"""What follows from the silence of nodes, while faults strike: it is noticed, and what stood there is given up in time;
and that a region which is gone is called lost.

    gone ──a lease, or two──▶ its session ends ──its turn──▶ what stood there is unknown ──the fence──▶ given up

Where many nodes are silent at once, two of them have their turn in a minute.
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

#: A node that is gone is noticed within this, whatever its region doubts first: a lease, a second one if many are
#: silent at once, and its turn.
SILENCE_MS = 60_000
#: So many silent nodes have their turn in one window, and what stood there is given up so much after the fence at most.
TOGETHER, WINDOW_MS, GIVEN_UP_MS = 2, 60_000, 10_000
#: A region's session ends after a lease, or two where its silence is doubted; it is called lost so much later at most.
LEASES, LOST_MS = 2, 10_000
_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING)


def unnoticed_silence(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Nodes whose machines are gone, and on which something still counts as running."""
    for name, nodes in scene.cast.nodes.items():
        state: RegionState = scene.audits[name].state
        gone = {
            state.node_names.get(node) or 0: node for node in nodes if scene.world.machines[node].incarnation is None
        }
        for uid in gone:
            slots = [slot for slot in state.slots.values() if slot.node == uid and slot.phase in _ALIVE]
            if uid and slots:
                told = f"is gone, and {len(slots)} replicas are said to live there"
                yield Unconverged("silence", f"{name} {gone[uid]}", told, SILENCE_MS + _waits(len(gone)))


def unreleased_slots(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """What stood on nodes without a session, and is not given up though their fences are past. Not while people have
    paused repair; each leader waits for fences anew."""
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
                told = f"is unknown on {nodes[slot.node].name}, which is silent, and is not given up"
                yield Unconverged("given-up", subject, told, fence + _waits(len(nodes)) + GIVEN_UP_MS)


def unnoticed_region_loss(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Regions of which no server is there, and which the platform does not call lost: before that nothing moves."""
    platform: PlatformState = scene.audits[PLATFORM_NAME].state
    settings = platform.info.settings
    for name in scene.cast.nodes:
        known = platform.regions.get(name)
        gone = all(scene.world.machines[server].incarnation is None for server in scene.cast.servers[name])
        if gone and known is not None and known.status.log_id and known.status.health is not RegionHealth.LOST:
            within = LEASES * settings.session_lease + settings.lost_after + LOST_MS
            yield Unconverged("lost", f"region {name}", f"is gone, and is called {known.status.health}", within)


def _waits(nodes: int) -> int:
    """How much later the last of so many silent nodes has its turn."""
    return (nodes - 1) // TOGETHER * WINDOW_MS
