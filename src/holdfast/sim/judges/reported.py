"""At rest the platform says of a workload what regions really have of it, and nothing is left of what was to fail.

- status: bound, ready and serving are as many as serve; `Placed` is true where all do
- mended: no breach is open that is over, or whose deadline has passed
- deadline: of work that was to fail at its deadline, and has missed it, nothing is assigned and nothing is left
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core.model.allotment import ACTIVE
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.meta import Truth
from holdfast.core.model.workload import OnDeadline, Workload
from holdfast.core.platform.state import PlatformState
from holdfast.core.region.state import RegionState
from holdfast.sim.judges.patience import Left

#: Whatever is to end has ended within this: its grace, the margin after it, and a fence where nobody answers.
ENDING_MS = 45_000
PLACED = "Placed"


def misreported(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Left]:
    """What is said of workloads, and is not so."""
    for uid, workload in platform.workloads.items():
        phases = [one.phase for state in regions.values() for one in state.slots.values() if one.workload == uid]
        if workload.meta.deletion is None:
            yield from _late(platform, workload, len(phases))
            if set(phases) <= {Phase.SERVING, Phase.PENDING}:  # all else is left for another reason
                yield from _miscounted(workload, phases.count(Phase.SERVING))


def unmended(where: str, state: RegionState) -> Iterator[Left]:
    """What the world has broken in a region, and is not mended by its deadline, nor said to be over."""
    for (invariant, key), breach in state.breaches.items():
        yield Left("mended", f"{where} {invariant} {key}", "is broken", breach.deadline - breach.opened + ENDING_MS)


def _miscounted(workload: Workload, serving: int) -> Iterator[Left]:
    status, subject = workload.status, f"workload {workload.meta.name}"
    if (status.bound, status.ready, status.serving) != (serving, serving, serving):
        told = f"{status.bound} bound, {status.ready} ready and {status.serving} serving"
        yield Left("status", subject, f"is said to have {told}, and {serving} serve")
    is_placed = any(one.type == PLACED and one.status is Truth.TRUE for one in status.conditions)
    if not workload.spec.batch and is_placed is not (serving >= workload.spec.replicas):
        told = f"{serving} of {workload.spec.replicas} have a node"
        yield Left("status", subject, f"is said to be{'' if is_placed else ' not'} placed, and {told}")


def _late(platform: PlatformState, workload: Workload, there: int) -> Iterator[Left]:
    spec = workload.spec
    if not spec.deadline or spec.on_deadline is not OnDeadline.FAIL or workload.status.succeeded >= spec.replicas:
        return
    late = platform.facts.at - workload.meta.created - spec.deadline
    assigned = [one for one in platform.assignments.values() if one.workload == workload.meta.uid]
    active = sum(one.stage is ACTIVE for one in assigned)
    if late >= 0 and (there or active):
        told = f"was to fail {late} ms ago, and {active} assignments and {there} replicas are left"
        yield Left("deadline", f"workload {workload.meta.name}", told, ENDING_MS)
