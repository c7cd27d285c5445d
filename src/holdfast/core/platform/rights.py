"""GrantRight, ReleaseRights, AttestRight: identities move by evidence (RULES 6).

At most one region holds the live right to an exclusive (workload uid, ordinal). It leaves a region only

    (a) by the region's own acknowledged release        ReleaseRights, RemoveAssignment
    (b) by a lease that has run out, where it is leased GrantRight, once the holder is lost for so long: `lapsed_at`
    (c) by a person's attestation that nothing runs     AttestRight, RetireRegion

and in that same commit the ordinal leaves the region's assignment.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found, stale, too_large
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import RightHeld
from holdfast.core.model.settings import drifted
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Failover, Workload
from holdfast.core.platform.assignments import refuse_ending, replacing, too_far
from holdfast.core.platform.breaches import is_near, may_hold
from holdfast.core.platform.checks import contradictory, malformed
from holdfast.core.platform.commands import RIGHTS_MAX, AttestRight, GrantRight, ReleaseRights
from holdfast.core.platform.events import RightGranted, RightsReleased
from holdfast.core.platform.identities import without_ordinals
from holdfast.core.platform.names import refuse_reason
from holdfast.core.platform.objects import already
from holdfast.core.platform.senders import outside_region, outside_tenant, refuse_unjoined, region_of
from holdfast.core.platform.state import PlatformState, assignments_of


def grant_right(state: PlatformState, command: GrantRight, case: Case) -> Accepted | Refused:
    """The region holds the right from now on, and no other region can still act on it."""
    workload = state.workloads.get(command.workload)
    if workload is None:
        return not_found("Workload", command.workload)
    refused = refuse_ending(workload) or _refuse_identity(workload, command) or _refuse_region(state, workload, command)
    if refused is not None:
        return refused
    granted = RightGranted(command.workload, command.ordinal, command.region)
    held = state.rights.get((command.workload, command.ordinal))
    if held is None:
        return Accepted((granted,))
    if held.region == command.region:
        return already(f"right/{command.workload}/{command.ordinal}", held.since)
    refused = _refuse_while_held(state, workload, held, case)
    if refused is not None:
        return refused
    return Accepted((*freeing(state, [held], "its lease has run out", case), granted))


def _refuse_identity(workload: Workload, command: GrantRight) -> Refused | None:
    if not workload.spec.exclusive:
        return contradictory(f"workload {workload.meta.name} is not exclusive", workload=command.workload)
    if not 0 <= command.ordinal < workload.spec.replicas:
        return malformed(f"ordinals go from 0 to below {workload.spec.replicas}", ordinal=command.ordinal)
    return None


def _refuse_region(state: PlatformState, workload: Workload, command: GrantRight) -> Refused | None:
    region = state.regions.get(command.region)
    if region is None:
        return not_found("Region", command.region)
    health = region.status.health
    if health is not RegionHealth.HEALTHY:
        facts = {"region": command.region, "health": health.value}
        return Refused(Code.REGION_UNAVAILABLE, f"region {command.region} is {health}", facts)
    if not may_hold(workload.spec, region):
        facts = {"region": command.region, "jurisdiction": region.spec.jurisdiction}
        return Refused(Code.RESIDENCY, f"workload {workload.meta.name} may not be in region {command.region}", facts)
    return None if is_near(workload.spec, region) else too_far(workload, command.region)


def _refuse_while_held(state: PlatformState, workload: Workload, held: RightHeld, case: Case) -> Refused | None:
    facts = {"holder": held.region, "since": held.since}
    status = state.regions[held.region].status
    if workload.spec.failover is not Failover.LEASED or status.health is not RegionHealth.LOST:
        message = f"region {held.region} holds the right; it must release it, or a person attest that nothing runs"
        return Refused(Code.RIGHT_HELD, message, facts)
    until = lapsed_at(state, held, status.since)
    if case.at < until:
        message = f"region {held.region} may act on its lease until {until}"
        return Refused(Code.TOO_EARLY, message, {**facts, "until": until})
    return None


def lapsed_at(state: PlatformState, held: RightHeld, lost_since: Instant) -> Instant:
    """From when on nothing can run on the lease of a lost region, by the slowest clock within the drift bound.

        its end   the region stops it then, if one leader is there all the time. If the leader goes just before that:
        + 1 session lease   a next one comes before the last guard ends its process, and keeps it alive,
        + 1 session lease   waits so long to be told again, and stops it; no third leader waits again
        + fence time        which a stop takes at most, or what is not heard of to be dead
        + a margin

    With the defaults that is 60 + 20 + 25 + 5 seconds after the region is lost, which it is after 20 of silence. Ledger
    time runs evenly within a term and may leap between two, by as much as the next leader's clock is ahead: so only
    what this term has seen pass counts.
    """
    settings, term_at = state.facts.settings, state.facts.term_at
    # Settings may have been lowered since: the latest end that the region was told counts, too.
    lease = max(lost_since, term_at) + drifted(settings.right_lease, settings)
    rest = drifted(2 * settings.session_lease + settings.fence_time, settings)
    return max(lease, held.told) + rest + settings.right_margin


def release_rights(state: PlatformState, command: ReleaseRights, case: Case) -> Accepted | Refused:
    """The holder's own word, read from its log, about rights that the platform wants back and has not given again.

    A release may come late. Were it taken after an identity was listed again, the region would start it on that list
    while the right is given to another one. So the region names the revision of the list that it judged by. All of them
    are judged by that one list: giving them back changes it, and the next could not be given back before it arrived.
    """
    region, ordinals = region_of(case), sorted(command.ordinals)
    refused = refuse_unjoined(state, region, case) or _refuse_named(ordinals)
    if refused is not None:
        return refused
    for ordinal in ordinals:
        refused = _refuse_not_held(state, command.workload, ordinal, region)
        if refused is not None:
            return refused
    refused = _refuse_wanted(state, command, region)
    if refused is not None:
        return refused
    held = [state.rights[command.workload, ordinal] for ordinal in ordinals]
    return Accepted(freeing(state, held, "released by its region", case))


def _refuse_named(ordinals: Sequence[int]) -> Refused | None:
    count = len(ordinals)
    if not 0 < count <= RIGHTS_MAX:
        return too_large("rights in a command, which gives back at least one", count, RIGHTS_MAX)
    return None if len({*ordinals}) == count else malformed("each right is named once", count=count)


def _refuse_not_held(state: PlatformState, workload: Revision, ordinal: int, region: str) -> Refused | None:
    held = state.rights.get((workload, ordinal))
    if held is None:
        return not_found("right", _named(workload, ordinal))
    if held.region == region:
        return None
    facts = {"owner": f"region/{held.region}", "ordinal": ordinal}
    return Refused(Code.NOT_OWNER, f"region {held.region} holds the right to ordinal {ordinal}", facts)


def _refuse_wanted(state: PlatformState, command: ReleaseRights, region: str) -> Refused | None:
    """A right is not to be given back, or no longer."""
    mine = [a for a in assignments_of(state, command.workload) if a.region == region]
    asked = next((a.returning for a in mine if a.revision == command.seen), ())
    kept = next((ordinal for ordinal in sorted(command.ordinals) if ordinal not in asked), None)
    if kept is None:
        return None
    newest = max((a.revision for a in mine), default=0)
    why = f"region {region} is not asked to give it back by that assignment"
    return stale(f"right/{_named(command.workload, kept)}", command.seen, newest, why)


def attest_right(state: PlatformState, command: AttestRight, case: Case) -> Accepted | Refused:
    """A person's word, with the reason kept in the log."""
    workload = state.workloads.get(command.workload)
    if workload is None:
        return not_found("Workload", command.workload)
    refused = (
        outside_tenant(case, workload.meta.tenant)
        or outside_region(case, command.region)
        or refuse_reason(command.reason)
    )
    if refused is not None:
        return refused
    held = state.rights.get((command.workload, command.ordinal))
    if held is None:
        return not_found("right", _named(command.workload, command.ordinal))
    if held.region != command.region:
        message = f"region {held.region} holds that right, not {command.region}"
        return Refused(Code.RIGHT_HELD, message, {"holder": held.region})
    return Accepted(freeing(state, [held], f"attested: {command.reason}", case))


def freeing(state: PlatformState, held: Sequence[RightHeld], evidence: str, case: Case) -> tuple[object, ...]:
    """These rights to one workload are nobody's, and the assignment that listed their ordinals lists them no more."""
    events: list[object] = [RightsReleased(tuple(held), evidence)]
    workload, gone = state.workloads[held[0].workload], frozenset(one.ordinal for one in held)
    for assignment in assignments_of(state, workload.meta.uid):
        if not gone.isdisjoint((*assignment.ordinals, *assignment.returning)):
            smaller = without_ordinals(assignment, gone)
            events.extend(replacing(state, workload, assignment, smaller, case))
    return tuple(events)


def _named(workload: Revision, ordinal: int) -> str:
    return f"{workload}/{ordinal}"
