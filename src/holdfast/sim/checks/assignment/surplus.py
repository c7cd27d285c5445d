"""Whether a workload may be assigned more than it asks for, at rest: it moves, and can neither go nor come.

What moves is begun before it is ended (make before break). Where its quota cannot pay twice, and as many of it are
gone as may be, it waits: it serves where it was, and where it goes to it says what it waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import ACTIVE, Assignment, AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState

Regions = Mapping[str, RegionState]


def is_moving(platform: PlatformState, regions: Regions, workload: Workload, more: int) -> bool:
    """Whether so many more are assigned since work moves of which no more may be gone now: where it goes to it waits,
    for a reason that is judged with that slot, and where it was it serves: all of it, or what a region offered back, or
    what holds the quota that the others wait for."""
    spec, phases = workload.spec, phases_of(regions, workload)
    if not phases[Phase.PENDING] >= more > 0:
        return False
    if not spec.disruption_max and phases[Phase.SERVING] >= spec.replicas:
        return True
    return is_spent(regions, workload) and (
        _offered_back(platform, regions, workload) >= more or _unpaid(regions, workload) >= more
    )


def is_spent(regions: Regions, workload: Workload) -> bool:
    """Whether as many of its replicas do not serve, in whatever region, as may be gone at a time."""
    return workload.spec.replicas - phases_of(regions, workload)[Phase.SERVING] >= workload.spec.disruption_max


def phases_of(regions: Regions, workload: Workload) -> Counter[Phase]:
    """How many of its slots there are in each phase, over all regions."""
    slots = [one for state in regions.values() for one in state.slots.values()]
    return Counter(one.phase for one in slots if one.workload == workload.meta.uid)


def serves(assignment: Assignment) -> bool:
    """Whether its replicas are among those that people asked for."""
    return assignment.purpose is AssignmentPurpose.SERVING and assignment.stage is ACTIVE


def _offered_back(platform: PlatformState, regions: Regions, workload: Workload) -> int:
    """How many of its replicas serve in regions that have offered them back, and are assigned there still."""
    found = 0
    for one in platform.overflows.get(workload.meta.uid) or ():
        if one.until > platform.info.at:
            mine = [a for a in platform.assignments.values() if (a.workload, a.region) == (one.workload, one.region)]
            assigned = sum(share.count for assignment in mine if serves(assignment) for share in assignment.shares)
            serving = phases_of({one.region: regions[one.region]}, workload)[Phase.SERVING]
            found += max(0, min(serving, assigned - one.most))
    return found


def _unpaid(regions: Regions, workload: Workload) -> int:
    """How many of its replicas wait for quota: what serves elsewhere may be what holds it."""
    found = 0
    for state in regions.values():
        for uid in state.assignments_of.get(workload.meta.uid) or ():
            reasons = [one for request in state.requests.get(uid) or () for one in request.reasons]
            found += sum(one.count for one in reasons if one.code == Code.OVER_GRANT)
    return found
