"""Exclusive identities inside assignments: which ordinals an assignment may list, and how long a leased right lasts.

The one idea: an ordinal is listed only where its right is held. The right moves by evidence alone (`rights`); an
assignment merely tells the region which of its rights to use, so no mistake of a controller can start an identity
twice (RULES 6).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.model.allotment import Assignment, Share, Stage
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Failover, Workload
from holdfast.core.platform.checks import contradictory, malformed
from holdfast.core.platform.state import PlatformState, assignments_of


def refuse_identities(state: PlatformState, workload: Workload, new: Assignment) -> Refused | None:
    """Ordinals that this assignment may not list, or counts that they do not cover."""
    ordinals, replicas = new.ordinals, workload.spec.replicas
    if not workload.spec.exclusive:
        return contradictory("only exclusive work has ordinals", ordinals=len(ordinals)) if ordinals else None
    if len(set(ordinals)) != len(ordinals) or any(not 0 <= ordinal < replicas for ordinal in ordinals):
        return malformed(f"ordinals are named once each, from 0 to below {replicas}", replicas=replicas)
    refused = refuse_uncovered(new)
    if refused is not None:
        return refused
    others = [a for a in assignments_of(state, new.workload) if a.uid != new.uid]
    elsewhere = {n: a.uid for a in others for n in (*a.ordinals, *a.returning)}
    for ordinal in ordinals:
        held = state.rights.get((new.workload, ordinal))
        holder = held.region if held is not None else ""
        if holder != new.region:
            message = f"the right to ordinal {ordinal} is held by {holder or 'nobody'}, not by {new.region}"
            return Refused(Code.RIGHT_HELD, message, {"ordinal": ordinal, "holder": holder})
        if ordinal in elsewhere:
            return contradictory(f"ordinal {ordinal} is in assignment {elsewhere[ordinal]}", ordinal=ordinal)
    return None


def returned(state: PlatformState, workload: Revision, region: str, listed: Sequence[int]) -> tuple[int, ...]:
    """The ordinals whose right a region holds and no assignment of it lists: it is to give them back."""
    wanted = {*listed}
    held = [n for n in state.rights_of.get(workload) or () if n not in wanted]
    return tuple(n for n in held if state.rights[workload, n].region == region)


def refuse_uncovered(assignment: Assignment) -> Refused | None:
    """What runs has an identity each. What stands by holds room only, and gets identities when they are free."""
    count = sum(share.count for share in assignment.shares)
    if not assignment.exclusive or assignment.stage is not Stage.ACTIVE or count <= len(assignment.ordinals):
        return None
    return contradictory(
        f"{count} exclusive replicas need as many ordinals", count=count, ordinals=len(assignment.ordinals)
    )


def without_ordinals(assignment: Assignment, gone: Collection[int]) -> Assignment:
    """The assignment once the rights to some identities have left it: counts follow, the last template first."""
    returning = tuple(ordinal for ordinal in assignment.returning if ordinal not in gone)
    assignment = replace(assignment, returning=returning)
    ordinals = tuple(ordinal for ordinal in assignment.ordinals if ordinal not in gone)
    excess = sum(share.count for share in assignment.shares) - len(ordinals)
    if assignment.stage is not Stage.ACTIVE or excess <= 0:
        return replace(assignment, ordinals=ordinals)
    shares: list[Share] = []
    for share in reversed(assignment.shares):
        taken = min(excess, share.count)
        excess -= taken
        if share.count > taken:
            shares.append(Share(share.template, share.count - taken))
    return replace(assignment, ordinals=ordinals, shares=tuple(reversed(shares)))


def lease_until(state: PlatformState, workload: Workload, assignment: Assignment, at: Instant) -> Instant:
    """The end of the assignment's leased rights; 0 where nothing is leased.

    It moves on only while the region is healthy and has some to use. A region that is suspect or lost keeps the end it
    was told last: were it moved on, a region that hears of it late would run past the time after which the platform
    gives the right away. So does one that is to give all of them back: were it told none, and then cut off before it
    has stopped them, nothing would.
    """
    if workload.spec.failover is not Failover.LEASED or not (assignment.ordinals or assignment.returning):
        return 0
    if assignment.ordinals and state.regions[assignment.region].status.health is RegionHealth.HEALTHY:
        return at + state.facts.settings.right_lease
    return assignment.right_until


def lease_is_half_over(state: PlatformState, workload: Workload, assignment: Assignment, at: Instant) -> bool:
    """Whether assigning the same once more is a renewal of its lease rather than a repetition."""
    renewed = lease_until(state, workload, assignment, at)
    return renewed > assignment.right_until and 2 * (assignment.right_until - at) <= renewed - at
