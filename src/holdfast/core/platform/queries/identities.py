"""Exclusive identities in assignments: the ordinals an assignment may list, and the end of a leased right.

An assignment lists ordinals only where their right is held, and only evidence moves a right (`rights`). So no mistake
of a controller can start an identity twice (RULES 6).
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused, contradictory, malformed
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import FailoverMode, Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentStage, Share
from holdfast.core.model.values.ranges import Ranges, common, count_numbers, is_within, numbers, with_numbers, without
from holdfast.core.model.values.settings import with_drift
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.state.lookups import assignments_of, held_in, latest_lease_end
from holdfast.core.platform.state.tables import PlatformState


def refuse_identities(state: PlatformState, workload: Workload, new: Assignment) -> Refused | None:
    """Refuse ordinals that this assignment may not list, or too few of them."""
    ordinals, replicas = new.ordinals, workload.spec.replicas
    if not workload.spec.exclusive:
        return contradictory("only exclusive work has ordinals", ordinals=count_numbers(ordinals)) if ordinals else None
    if not is_within(ordinals, ((0, replicas),)):
        return malformed(f"ordinals go from 0 to below {replicas}", replicas=replicas)
    refused = refuse_uncovered(new)
    if refused is not None:
        return refused
    missing = without(ordinals, held_in(state, new.workload, new.region))
    if missing:
        ordinal = missing[0][0]
        held = state.rights.get((new.workload, ordinal))
        holder = held.region if held is not None else ""
        message = f"the right to ordinal {ordinal} is held by {holder or 'no region'}, not by {new.region}"
        return Refused(Code.RIGHT_HELD, message, {"ordinal": ordinal, "holder": holder})
    for other in assignments_of(state, new.workload):
        twice = common(ordinals, with_numbers(other.ordinals, other.returning)) if other.uid != new.uid else ()
        if twice:
            return contradictory(f"ordinal {twice[0][0]} is in assignment {other.uid}", ordinal=twice[0][0])
    return None


def refuse_uncovered(assignment: Assignment) -> Refused | None:
    """Refuse an active assignment without an identity for each replica. A standby one only reserves capacity."""
    count, listed = sum(share.count for share in assignment.shares), count_numbers(assignment.ordinals)
    if not assignment.exclusive or assignment.stage is not AssignmentStage.ACTIVE or count <= listed:
        return None
    return contradictory(f"{count} exclusive replicas need as many ordinals", count=count, ordinals=listed)


def without_ordinals(assignment: Assignment, gone: Ranges) -> Assignment:
    """Return the assignment without some ordinals. Its counts follow, the last template first."""
    ordinals = without(assignment.ordinals, gone)
    assignment = replace(assignment, ordinals=ordinals, returning=without(assignment.returning, gone))
    excess = sum(share.count for share in assignment.shares) - count_numbers(ordinals)
    if assignment.stage is not AssignmentStage.ACTIVE or excess <= 0:
        return assignment
    shares: list[Share] = []
    for share in reversed(assignment.shares):
        taken = min(excess, share.count)
        excess -= taken
        if share.count > taken:
            shares.append(Share(share.template, share.count - taken))
    return replace(assignment, shares=tuple(reversed(shares)))


def lease_end(state: PlatformState, workload: Workload, assignment: Assignment, at: Instant) -> Instant:
    """Return the end of the assignment's leased rights; 0 without leased rights.

    It advances only while the region is healthy and has rights to use. A suspect or lost region keeps the last end: a
    late extension would let it run after the platform gives the right away. So does a region that must release all
    rights: without an end, nothing would stop them if it lost the connection first.
    """
    if workload.spec.failover is not FailoverMode.LEASED or not (assignment.ordinals or assignment.returning):
        return 0
    if assignment.ordinals and state.regions[assignment.region].status.health is RegionHealth.HEALTHY:
        return at + state.info.settings.right_lease
    return assignment.right_until


def lease_needs_renewal(state: PlatformState, workload: Workload, assignment: Assignment, at: Instant) -> bool:
    """Check whether the same assignment, sent again, renews its lease and is no mere repetition."""
    renewed = lease_end(state, workload, assignment, at)
    return renewed > assignment.right_until and 2 * (assignment.right_until - at) <= renewed - at


def lease_expired_for_sure_at(state: PlatformState, workload: Revision, region: str, ordinals: Ranges) -> Instant:
    """Return from when on nothing can run on these leases of a lost region, by the slowest clock within the drift
    bound.

        lease end           the region stops it then, if one leader is there all the time. If it ends just before:
        + 1 session lease   a second leader starts before the last guard ends the process, and keeps it alive,
        + 1 session lease   waits that long to receive a new lease, and stops it; no third leader waits again
        + fence time        the longest time of a stop, or until an unreachable process is certain to have ended
        + a margin

    A longer session lease or fence time of the region counts. The defaults give 60 + 20 + 25 + 5 seconds after the
    loss, which follows 20 seconds of silence. Ledger time is even within a term and may leap between two, by as much as
    the next leader's clock is ahead; so only time within this term counts.
    """
    settings, term_at = state.info.settings, state.info.term_at
    lost_since = state.regions[region].status.since
    # Settings may have been lowered: the latest end sent to the region counts, too.
    told = max((state.rights[workload, ordinal].latest_lease_end for ordinal in numbers(ordinals)), default=0)
    lease = max(lost_since, term_at) + with_drift(settings.right_lease, settings)
    status = state.regions[region].status
    session_lease = max(settings.session_lease, status.session_lease)
    rest = with_drift(2 * session_lease + max(settings.fence_time, status.fence_time), settings)
    return max(lease, told, latest_lease_end(state, workload, region)) + rest + settings.right_margin
