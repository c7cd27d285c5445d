"""At rest the platform says of a workload what regions really have of it, and nothing is left of what was to fail.

- status: bound, ready and serving are as many as serve; `Placed` is true where all do
- mended: no breach is open that is over, or whose deadline has passed
- deadline: of work that was to fail at its deadline, and has missed it, nothing is assigned and nothing is left
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.objects.workloads import OnDeadline, Workload
from holdfast.core.model.records.assignments import ACTIVE
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.conditions import ConditionStatus
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.deadlines import PROMPT_MS, Unconverged

#: Whatever is to end has ended within this: its grace, the margin after it, and a fence where nobody answers.
ENDING_MS = 45_000
PLACED = "Placed"
#: Of a breach: what stands on a node may not stay there.
ALLOWED = "region.allowed"


def wrong_status(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Unconverged]:
    """What is said of workloads, and is not so."""
    for uid, workload in platform.workloads.items():
        phases = [one.phase for state in regions.values() for one in state.slots.values() if one.workload == uid]
        if workload.meta.deletion is None:
            yield from _late(platform, workload, len(phases))
            if set(phases) <= {Phase.SERVING, Phase.PENDING}:  # all else is left for another reason
                yield from _miscounted(workload, phases.count(Phase.SERVING))


def overdue_breaches(where: str, state: RegionState) -> Iterator[Unconverged]:
    """What the world has broken in a region, and is not mended by its deadline; or is over, and nobody says so."""
    for (invariant, key), breach in state.breaches.items():
        subject = f"{where} {invariant} {key}"
        if breach.deadline <= state.info.at:
            yield Unconverged("mended", subject, f"should have been mended by {breach.deadline}", ENDING_MS)
        elif invariant == ALLOWED and not any(_may_not_stay(state, int(key.removeprefix("node/")))):
            yield Unconverged("mended", subject, "is over, and said to be broken", PROMPT_MS)


def _may_not_stay(state: RegionState, uid: Revision) -> Iterator[bool]:
    """Of all that stands on a node: whether a taint evicts it, the node is kept for others, or isolates too little."""
    node, there = state.nodes[uid], [slot for slot in state.slots.values() if slot.node == uid]
    tenants = {state.assignments[slot.assignment].tenant for slot in there}
    yield len(tenants) > 1 and not node.shares_user and Capability.USERS not in node.capabilities
    for slot in there:
        template, tenant = state.templates[slot.template], state.assignments[slot.assignment].tenant
        for taint in [one for one in node.taints if one.effect is TaintEffect.EVICT]:
            yield not any(one.key == taint.key and one.value in ("", taint.value) for one in template.tolerate)
        yield bool(node.tenancy and tenant not in node.tenancy) or node.tenant not in ("", tenant)
        yield template.isolation is Isolation.STRICT and not set(STRICT) <= set(node.capabilities)


def _miscounted(workload: Workload, serving: int) -> Iterator[Unconverged]:
    status, subject = workload.status, f"workload {workload.meta.name}"
    if (status.bound, status.ready, status.serving) != (serving, serving, serving):
        told = f"{status.bound} bound, {status.ready} ready and {status.serving} serving"
        yield Unconverged("status", subject, f"is said to have {told}, and {serving} serve")
    is_placed = any(one.type == PLACED and one.status is ConditionStatus.TRUE for one in status.conditions)
    if not workload.spec.batch and is_placed is not (serving >= workload.spec.replicas):
        told = f"{serving} of {workload.spec.replicas} have a node"
        yield Unconverged("status", subject, f"is said to be{'' if is_placed else ' not'} placed, and {told}")


def _late(platform: PlatformState, workload: Workload, there: int) -> Iterator[Unconverged]:
    spec = workload.spec
    if not spec.deadline or spec.on_deadline is not OnDeadline.FAIL or workload.status.succeeded >= spec.replicas:
        return
    late = platform.info.at - workload.meta.created - spec.deadline
    assigned = [one for one in platform.assignments.values() if one.workload == workload.meta.uid]
    active = sum(one.stage is ACTIVE for one in assigned)
    if late >= 0 and (there or active):
        told = f"was to fail {late} ms ago, and {active} assignments and {there} replicas are left"
        yield Unconverged("deadline", f"workload {workload.meta.name}", told, ENDING_MS)
