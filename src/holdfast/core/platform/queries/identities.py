"""Exclusive identities inside assignments: which ordinals an assignment may list, and how long a leased right lasts.

The one idea: an ordinal is listed only where its right is held. The right moves by evidence alone (`rights`); an
assignment merely tells the region which of its rights to use, so no mistake of a controller can start an identity
twice (RULES 6).
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
    """Ordinals that this assignment may not list, or counts that they do not cover."""
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
        message = f"the right to ordinal {ordinal} is held by {holder or 'nobody'}, not by {new.region}"
        return Refused(Code.RIGHT_HELD, message, {"ordinal": ordinal, "holder": holder})
    for other in assignments_of(state, new.workload):
        twice = common(ordinals, with_numbers(other.ordinals, other.returning)) if other.uid != new.uid else ()
        if twice:
            return contradictory(f"ordinal {twice[0][0]} is in assignment {other.uid}", ordinal=twice[0][0])
    return None


def refuse_uncovered(assignment: Assignment) -> Refused | None:
    """What runs has an identity each. What stands by holds room only, and gets identities when they are free."""
    count, listed = sum(share.count for share in assignment.shares), count_numbers(assignment.ordinals)
    if not assignment.exclusive or assignment.stage is not AssignmentStage.ACTIVE or count <= listed:
        return None
    return contradictory(f"{count} exclusive replicas need as many ordinals", count=count, ordinals=listed)


def without_ordinals(assignment: Assignment, gone: Ranges) -> Assignment:
    """The assignment once the rights to some identities have left it: counts follow, the last template first."""
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
    """The end of the assignment's leased rights; 0 where nothing is leased.

    It moves on only while the region is healthy and has some to use. A region that is suspect or lost keeps the end it
    was told last: were it moved on, a region that hears of it late would run past the time after which the platform
    gives the right away. So does one that is to give all of them back: were it told none, and then cut off before it
    has stopped them, nothing would.
    """
    if workload.spec.failover is not FailoverMode.LEASED or not (assignment.ordinals or assignment.returning):
        return 0
    if assignment.ordinals and state.regions[assignment.region].status.health is RegionHealth.HEALTHY:
        return at + state.info.settings.right_lease
    return assignment.right_until


def lease_needs_renewal(state: PlatformState, workload: Workload, assignment: Assignment, at: Instant) -> bool:
    """Whether assigning the same once more is a renewal of its lease rather than a repetition."""
    renewed = lease_end(state, workload, assignment, at)
    return renewed > assignment.right_until and 2 * (assignment.right_until - at) <= renewed - at


def lease_expired_for_sure_at(state: PlatformState, workload: Revision, region: str, ordinals: Ranges) -> Instant:
    """From when on nothing can run on these leases of a lost region, by the slowest clock within the drift bound.

        its end   the region stops it then, if one leader is there all the time. If the leader goes just before that:
        + 1 session lease   a next one comes before the last guard ends its process, and keeps it alive,
        + 1 session lease   waits so long to be told again, and stops it; no third leader waits again
        + fence time        which a stop takes at most, or what is not heard of to be dead
        + a margin

    The session lease and the fence time are those of the region, if it has longer ones than the platform. With the
    defaults that is 60 + 20 + 25 + 5 seconds after the region is lost, which it is after 20 of silence. Ledger
    time runs evenly within a term and may leap between two, by as much as the next leader's clock is ahead: so only
    what this term has seen pass counts.
    """
    settings, term_at = state.info.settings, state.info.term_at
    lost_since = state.regions[region].status.since
    # Settings may have been lowered since: the latest end that the region was told counts, too.
    told = max((state.rights[workload, ordinal].latest_lease_end for ordinal in numbers(ordinals)), default=0)
    lease = max(lost_since, term_at) + with_drift(settings.right_lease, settings)
    status = state.regions[region].status
    session_lease = max(settings.session_lease, status.session_lease)
    rest = with_drift(2 * session_lease + max(settings.fence_time, status.fence_time), settings)
    return max(lease, told, latest_lease_end(state, workload, region)) + rest + settings.right_margin
