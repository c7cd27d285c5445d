"""At rest the reported status of a workload equals what its regions have, and nothing remains of failed work.

- status: the counts bound, ready and serving equal the serving replicas; `Placed` is true if all serve
- mended: no breach is open that has ended or whose deadline has passed
- deadline: work that fails at its deadline, and missed it, has no assignment and no replica
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

#: Limit for the end of a replica: its grace, the margin after it, and a fence if its node is silent.
ENDING_MS = 45_000
PLACED = "Placed"
#: The invariant of breaches about slots that may not stay on their node.
ALLOWED = "region.allowed"


def wrong_status(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Unconverged]:
    """Yield wrong parts of the status of workloads."""
    for uid, workload in platform.workloads.items():
        phases = [one.phase for state in regions.values() for one in state.slots.values() if one.workload == uid]
        if workload.meta.deletion is None:
            yield from _late(platform, workload, len(phases))
            if set(phases) <= {Phase.SERVING, Phase.PENDING}:  # other phases are reported by their own checks
                yield from _miscounted(workload, phases.count(Phase.SERVING))


def overdue_breaches(where: str, state: RegionState) -> Iterator[Unconverged]:
    """Yield breaches of a region that are open past their deadline, or that have ended and are not closed."""
    for (invariant, key), breach in state.breaches.items():
        subject = f"{where} {invariant} {key}"
        if breach.deadline <= state.info.at:
            yield Unconverged("mended", subject, f"should have been resolved by {breach.deadline}", ENDING_MS)
        elif invariant == ALLOWED and not any(_may_not_stay(state, int(key.removeprefix("node/")))):
            yield Unconverged("mended", subject, "has ended but is still open", PROMPT_MS)


def _may_not_stay(state: RegionState, uid: Revision) -> Iterator[bool]:
    """Yield for all slots of a node whether a taint, tenancy or isolation forbids them there."""
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
        yield Unconverged("status", subject, f"reports {told}, but {serving} serve")
    is_placed = any(one.type == PLACED and one.status is ConditionStatus.TRUE for one in status.conditions)
    if not workload.spec.batch and is_placed is not (serving >= workload.spec.replicas):
        told = f"{serving} of {workload.spec.replicas} have a node"
        yield Unconverged("status", subject, f"reports {'' if is_placed else 'not '}placed, but {told}")


def _late(platform: PlatformState, workload: Workload, there: int) -> Iterator[Unconverged]:
    spec = workload.spec
    if not spec.deadline or spec.on_deadline is not OnDeadline.FAIL or workload.status.succeeded >= spec.replicas:
        return
    late = platform.info.at - workload.meta.created - spec.deadline
    assigned = [one for one in platform.assignments.values() if one.workload == workload.meta.uid]
    active = sum(one.stage is ACTIVE for one in assigned)
    if late >= 0 and (there or active):
        told = f"should have failed {late} ms ago; {active} assignments and {there} replicas remain"
        yield Unconverged("deadline", f"workload {workload.meta.name}", told, ENDING_MS)
