"""What waits in a region for room that another one has is moved there, at rest; and what a lost region had is assigned
to others, meanwhile.

    waits for room in eu ──▶ eu offers it back ──▶ the platform assigns it to us, where a node would take it

A region says so after half a minute, and the platform is woken by that. Not judged: identities, which are moved for
other reasons only, batch work, what stands in for a lost region; and a region that has offered some of the same back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workloads import WorkloadSpec
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.assignment.surplus import serves
from holdfast.sim.checks.deadlines import PROMPT_MS, Unconverged
from holdfast.sim.checks.placement.oracle import PlacementOracle

#: What is told of whoever lacks room on nodes, and nothing else.
FULL = (Code.CAPACITY, Code.DEVICE, Code.PORT)
#: For so long it may be so without a break: until it is offered back, and that is heard of, twice.
MOVED_MS = 110_000


def unrelocated_work(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Unconverged]:
    """Slots that wait for room, and could be placed in another region that has some of the same workload."""
    oracles: dict[str, PlacementOracle] = {}
    for name, state in regions.items():
        for slot in [one for one in state.slots.values() if one.phase is Phase.PENDING]:
            if not _waits_for_room(state, slot):
                continue
            for other in _others(platform, slot, name):
                there = regions[other.region]
                if other.uid not in there.assignments or slot.template not in there.templates:
                    continue
                oracle = oracles.setdefault(other.region, PlacementOracle(there, there.info.at))
                node = oracle.verdict(replace(slot, assignment=other.uid, account="")).node
                if node:
                    subject = f"{name} slot {slot.workload}/{slot.ordinal}"
                    told = f"waits for room, and {node} of {other.region} would take it"
                    yield Unconverged("moved", subject, told, MOVED_MS)
                    break


def unreplaced_work(platform: PlatformState) -> Iterator[Unconverged]:
    """Work of lost regions that the others are not asked for, though one of them could be. Not identities, nor what has
    room kept for it elsewhere: who takes these over is judged by what they serve."""
    health = {name: one.status.health for name, one in platform.regions.items()}
    lost = [name for name, one in health.items() if one is RegionHealth.LOST]
    for uid, workload in platform.workloads.items() if lost else ():
        spec = workload.spec
        if spec.exclusive or spec.batch or spec.recovery.budget or workload.meta.deletion is not None:
            continue
        mine = [one for one in platform.assignments.values() if one.workload == uid]
        ending = {one.region for one in mine if one.stage is AssignmentStage.ENDED}
        able = [name for name in health if health[name] is RegionHealth.HEALTHY and name not in ending]
        asked = sum(share.count for one in mine if serves(one) and one.region not in lost for share in one.shares)
        if asked < spec.replicas and any(_may_be_in(spec, platform.regions[name]) for name in able):
            told = f"has {asked} of {spec.replicas} replicas assigned outside of {', '.join(lost)}"
            yield Unconverged("replaced", f"workload {workload.meta.name} {workload.meta.generation}", told, PROMPT_MS)


def _may_be_in(spec: WorkloadSpec, region: Region) -> bool:
    rules, far = spec.placement, dict(region.spec.latencies)
    named = not rules.regions or region.meta.name in rules.regions
    lawful = not rules.jurisdictions or region.spec.jurisdiction in rules.jurisdictions
    near = all(far.get(one.client, one.limit + 1) <= one.limit for one in rules.latency if one.limit)
    return named and lawful and near


def _waits_for_room(state: RegionState, slot: Slot) -> bool:
    assignment = state.assignments[slot.assignment]
    if assignment.exclusive or assignment.batch or not serves(assignment):
        return False
    requests = [one for one in state.requests.get(slot.assignment) or () if one.template == slot.template]
    return any(one.reasons and one.reasons[0].code in FULL for one in requests)


def _others(platform: PlatformState, slot: Slot, name: str) -> list[Assignment]:
    """The same workload in other regions that take more of it."""
    now, overflows = platform.info.at, platform.overflows.get(slot.workload) or ()
    strained = {one.region for one in overflows if one.until > now}
    mine = [one for one in platform.assignments.values() if one.workload == slot.workload and one.region != name]
    return [one for one in mine if serves(one) and one.region not in strained]
