"""At rest, work that waits in one region for capacity that another region has is moved there; work of a lost region is
assigned to other regions meanwhile.

    waits for capacity in eu ──▶ eu offers it back ──▶ the platform assigns it to us, where a node accepts it

A region offers work back after half a minute, which triggers the platform. Not checked: identities, which move for
other reasons; batch work; recovery; regions that have offered back some of the same workload.
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

#: Reason codes of work that lacks only capacity on nodes.
FULL = (Code.CAPACITY, Code.DEVICE, Code.PORT)
#: Limit without a break: the time of two offers and their handling.
MOVED_MS = 110_000


def unrelocated_work(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Unconverged]:
    """Yield slots that wait for capacity, though another region of the same workload could place them."""
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
                    told = f"waits for capacity, but {node} of {other.region} would accept it"
                    yield Unconverged("moved", subject, told, MOVED_MS)
                    break


def unreplaced_work(platform: PlatformState) -> Iterator[Unconverged]:
    """Yield workloads of lost regions that are not assigned to other regions though one is possible. Identities and
    workloads with a recovery budget are checked by what serves."""
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
    """Return assignments of the same workload in other regions that accept more of it."""
    now, overflows = platform.info.at, platform.overflows.get(slot.workload) or ()
    strained = {one.region for one in overflows if one.until > now}
    mine = [one for one in platform.assignments.values() if one.workload == slot.workload and one.region != name]
    return [one for one in mine if serves(one) and one.region not in strained]
