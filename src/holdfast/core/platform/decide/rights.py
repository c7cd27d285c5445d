"""GrantRight, ReleaseRights, AttestRight: identities move by evidence (RULES 6).

At most one region holds the live right to an exclusive (workload uid, ordinal). The right leaves a region only

    (a) by the region's own acknowledged release      ReleaseRights, RemoveAssignment
    (b) by the end of its lease, if it is leased      GrantRight, once the holder is lost, after
                                                      `lease_expired_for_sure_at`
    (c) by an operator's attestation                  AttestRight, RetireRegion

In that same commit the ordinal leaves the region's assignment.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger import answers
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import FailoverMode, Workload
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values import ranges
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.commands import AttestRight, GrantRight, ReleaseRights
from holdfast.core.platform.decide import checks
from holdfast.core.platform.decide.assignments import assignment_events, refuse_ending, too_far
from holdfast.core.platform.decide.workload_deletion import freed_right_events
from holdfast.core.platform.events import RightGranted, RightsGranted
from holdfast.core.platform.queries.feasibility import placement_allows, within_latency_limits
from holdfast.core.platform.queries.identities import lease_expired_for_sure_at, without_ordinals
from holdfast.core.platform.state.lookups import assignments_of, held_in
from holdfast.core.platform.state.tables import PlatformState


def grant_right(state: PlatformState, command: GrantRight, ctx: CommandContext) -> answers.Accepted | answers.Refused:
    """Give the region these rights, all or none, if no other region can still act on any of them."""
    workload = state.workloads.get(command.workload)
    if workload is None:
        return answers.not_found("Workload", command.workload)
    named = ranges.as_named(command.ordinals)
    refused = (
        refuse_ending(workload)
        or _refuse_identities(workload, named)
        or _refuse_named(named)
        or _refuse_region(state, workload, command)
    )
    if refused is not None:
        return refused
    ordinals = ranges.ranges_of(named)
    wanted = ranges.without(ordinals, held_in(state, command.workload, command.region))
    if not wanted:
        held = state.rights[command.workload, ordinals[0][0]]
        return answers.already(f"right/{_named(command.workload, held.ordinal)}", held.since)
    lapsed: list[tuple[str, ranges.Ranges]] = []
    for region, theirs in state.rights_of.get(command.workload) or ():
        taken = ranges.common(wanted, theirs) if region != command.region else ()
        refused = _refuse_while_held(state, workload, region, taken, ctx) if taken else None
        if refused is not None:
            return refused
        lapsed += [(region, taken)] if taken else []
    freed = release_events(state, command.workload, lapsed, "its lease has run out", ctx) if lapsed else ()
    return answers.Accepted(
        (*freed, *_granted(state, command.workload, wanted, command.region)), rows=ranges.count_numbers(wanted)
    )


def _granted(state: PlatformState, workload: Revision, ordinals: ranges.Ranges, region: str) -> tuple[object, ...]:
    if state.info.level >= 2:
        return (RightsGranted(workload, ordinals, region),)
    return tuple(RightGranted(workload, ordinal, region) for ordinal in ranges.numbers(ordinals))


def _refuse_identities(workload: Workload, named: ranges.Named) -> answers.Refused | None:
    if not workload.spec.exclusive:
        return answers.contradictory(f"workload {workload.meta.name} is not exclusive", workload=workload.meta.uid)
    if not ranges.is_within(ranges.ranges_of(named), ((0, workload.spec.replicas),)):
        return answers.malformed(
            f"ordinals go from 0 to below {workload.spec.replicas}",
            ordinals=ranges.format_ranges(ranges.ranges_of(named))[:1],
        )
    return None


def _refuse_region(state: PlatformState, workload: Workload, command: GrantRight) -> answers.Refused | None:
    region = state.regions.get(command.region)
    if region is None:
        return answers.not_found("Region", command.region)
    health = region.status.health
    if health is not RegionHealth.HEALTHY:
        facts = {"region": command.region, "health": health.value}
        return answers.Refused(answers.Code.REGION_UNAVAILABLE, f"region {command.region} is {health}", facts)
    if not placement_allows(workload.spec, region):
        facts = {"region": command.region, "jurisdiction": region.spec.jurisdiction}
        return answers.Refused(
            answers.Code.RESIDENCY, f"workload {workload.meta.name} may not be in region {command.region}", facts
        )
    return None if within_latency_limits(workload.spec, region) else too_far(workload, command.region)


def _refuse_while_held(
    state: PlatformState, workload: Workload, region: str, ordinals: ranges.Ranges, ctx: CommandContext
) -> answers.Refused | None:
    first = state.rights[workload.meta.uid, ordinals[0][0]]
    facts = {"holder": region, "since": first.since}
    status = state.regions[region].status
    if workload.spec.failover is not FailoverMode.LEASED or status.health is not RegionHealth.LOST:
        message = f"region {region} holds the right; it must release it, or an operator attest that none runs"
        return answers.Refused(answers.Code.RIGHT_HELD, message, facts)
    until = lease_expired_for_sure_at(state, workload.meta.uid, region, ordinals)
    if ctx.at < until:
        message = f"region {region} may act on its lease until {until}"
        return answers.Refused(answers.Code.TOO_EARLY, message, {**facts, "until": until})
    return None


def release_rights(
    state: PlatformState, command: ReleaseRights, ctx: CommandContext
) -> answers.Accepted | answers.Refused:
    """Release rights that the platform requests back and has not granted again, as the holder's log reports.

    A release may arrive late. Accepted after an identity was listed again, it would let two regions run that identity.
    The region therefore names the revision of the list by which it releases. All ordinals are checked against that one
    list: the release changes it, and the region has not received the next one.
    """
    region, ordinals = checks.region_of(ctx), ranges.ranges_of(command.ordinals)
    refused = (
        checks.refuse_unjoined_session(state, region, ctx)
        or _refuse_named(command.ordinals)
        or _refuse_not_held(state, command.workload, ordinals, region)
        or _refuse_wanted(state, command, ordinals, region)
    )
    if refused is not None:
        return refused
    events = release_events(state, command.workload, [(region, ordinals)], "released by its region", ctx)
    return answers.Accepted(events, rows=ranges.count_numbers(ordinals))


def _refuse_named(named: ranges.Named) -> answers.Refused | None:
    count = ranges.count_numbers(ranges.ranges_of(named))
    if not 0 < count <= RIGHTS_MAX:
        return answers.too_large("rights in a command, which names at least one", count, RIGHTS_MAX)
    return None if ranges.is_named_once(named) else answers.malformed("each right is named once", count=count)


def _refuse_not_held(
    state: PlatformState, workload: Revision, ordinals: ranges.Ranges, region: str
) -> answers.Refused | None:
    others = ranges.without(ordinals, held_in(state, workload, region))
    if not others:
        return None
    ordinal = others[0][0]
    held = state.rights.get((workload, ordinal))
    if held is None:
        return answers.not_found("right", _named(workload, ordinal))
    facts = {"owner": f"region/{held.region}", "ordinal": ordinal}
    return answers.Refused(answers.Code.NOT_OWNER, f"region {held.region} holds the right to ordinal {ordinal}", facts)


def _refuse_wanted(
    state: PlatformState, command: ReleaseRights, ordinals: ranges.Ranges, region: str
) -> answers.Refused | None:
    """Refuse to release rights that the platform does not request back, or no longer.

    An ended assignment's ordinals are never listed again, so the region may name any list of it, and release in parts.
    """
    mine = [a for a in assignments_of(state, command.workload) if a.region == region]
    asked = next((a.returning for a in mine if a.revision == command.seen), ())
    for ended in (a for a in mine if a.stage is AssignmentStage.ENDED):
        asked = ranges.with_numbers(asked, ranges.with_numbers(ended.ordinals, ended.returning))
    kept = ranges.without(ordinals, asked)
    if not kept:
        return None
    newest = max((a.revision for a in mine), default=0)
    why = f"region {region} has no request to release it in that assignment"
    return answers.stale(f"right/{_named(command.workload, kept[0][0])}", command.seen, newest, why)


def attest_right(state: PlatformState, command: AttestRight, ctx: CommandContext) -> answers.Accepted | answers.Refused:
    """Free a right on an operator's attestation. The log contains the reason."""
    workload = state.workloads.get(command.workload)
    if workload is None:
        return answers.not_found("Workload", command.workload)
    refused = (
        checks.refuse_outside_tenant(ctx, workload.meta.tenant)
        or checks.refuse_outside_region(ctx, command.region)
        or checks.refuse_reason(command.reason)
    )
    if refused is not None:
        return refused
    held = state.rights.get((command.workload, command.ordinal))
    if held is None:
        return answers.not_found("right", _named(command.workload, command.ordinal))
    if held.region != command.region:
        message = f"region {held.region} holds that right, not {command.region}"
        return answers.Refused(answers.Code.RIGHT_HELD, message, {"holder": held.region})
    gone = [(held.region, ranges.ranges_of((held.ordinal,)))]
    return answers.Accepted(release_events(state, command.workload, gone, f"attested: {command.reason}", ctx))


def release_events(
    state: PlatformState, uid: Revision, held: Sequence[tuple[str, ranges.Ranges]], evidence: str, ctx: CommandContext
) -> tuple[object, ...]:
    """Return the events that free these rights to one workload and take their ordinals from its assignments."""
    events = list(freed_right_events(state, [(uid, region, ordinals) for region, ordinals in held], evidence))
    workload, gone = state.workloads[uid], ranges.ranges_of(run for _, ordinals in held for run in ordinals)
    for assignment in assignments_of(state, uid):
        if ranges.common(gone, ranges.with_numbers(assignment.ordinals, assignment.returning)):
            smaller = without_ordinals(assignment, gone)
            events.extend(assignment_events(state, workload, assignment, smaller, ctx))
    return tuple(events)


def _named(workload: Revision, ordinal: int) -> str:
    return f"{workload}/{ordinal}"
