"""Whether a workload may be assigned more than its spec at rest: it is moving and can neither finish nor return.

New replicas start before old ones end (make-before-break). If the quota cannot cover both, and the disruption budget is
used up, the move waits. The old replicas serve, and the new ones have a pending reason.
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
    """Return whether `more` extra replicas are assigned because a move is stuck.

    The new replicas are pending, for a reason that is checked with their slot, and the disruption budget allows no
    further stop. The old replicas serve: all of them, or those that a region offered back, or those that hold the
    needed quota.
    """
    spec, phases = workload.spec, phases_of(regions, workload)
    if not phases[Phase.PENDING] >= more > 0:
        return False
    if not spec.disruption_max and phases[Phase.SERVING] >= spec.replicas:
        return True
    return is_spent(regions, workload) and (
        _offered_back(platform, regions, workload) >= more or _unpaid(regions, workload) >= more
    )


def is_spent(regions: Regions, workload: Workload) -> bool:
    """Return whether the disruption budget is used up over all regions."""
    return workload.spec.replicas - phases_of(regions, workload)[Phase.SERVING] >= workload.spec.disruption_max


def phases_of(regions: Regions, workload: Workload) -> Counter[Phase]:
    """Return the number of its slots in each phase, over all regions."""
    slots = [one for state in regions.values() for one in state.slots.values()]
    return Counter(one.phase for one in slots if one.workload == workload.meta.uid)


def serves(assignment: Assignment) -> bool:
    """Return whether its replicas are part of the workload's own, in contrast to recovery."""
    return assignment.purpose is AssignmentPurpose.SERVING and assignment.stage is ACTIVE


def _offered_back(platform: PlatformState, regions: Regions, workload: Workload) -> int:
    """Return how many of its replicas serve in regions that have offered them back and are still assigned there."""
    found = 0
    for one in platform.overflows.get(workload.meta.uid) or ():
        if one.until > platform.info.at:
            mine = [a for a in platform.assignments.values() if (a.workload, a.region) == (one.workload, one.region)]
            assigned = sum(share.count for assignment in mine if serves(assignment) for share in assignment.shares)
            serving = phases_of({one.region: regions[one.region]}, workload)[Phase.SERVING]
            found += max(0, min(serving, assigned - one.most))
    return found


def _unpaid(regions: Regions, workload: Workload) -> int:
    """Return how many of its replicas wait for quota, which its replicas elsewhere may hold."""
    found = 0
    for state in regions.values():
        for uid in state.assignments_of.get(workload.meta.uid) or ():
            reasons = [one for request in state.requests.get(uid) or () for one in request.reasons]
            found += sum(one.count for one in reasons if one.code == Code.OVER_GRANT)
    return found
