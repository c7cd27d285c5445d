"""Assign: how many of a workload's replicas a region runs, of which template, for which purpose.

There is one assignment for each workload, region and purpose. It contains all that the region needs, so a region
without connection continues. The region's checks apply to new and raised counts; lowered counts are always accepted.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, malformed, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workloads import OnDeadline, OnDisconnect, Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.ranges import Ranges, count_numbers, is_named_once, is_within, ranges_of, without
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.commands import Assign
from holdfast.core.platform.decide.breaches import disruption_shared, recount_workload
from holdfast.core.platform.events import AssignmentStored
from holdfast.core.platform.limits import COUNT_MAX
from holdfast.core.platform.queries.accounts import paying_accounts
from holdfast.core.platform.queries.completion import deadline_of
from holdfast.core.platform.queries.feasibility import placement_allows, within_latency_limits
from holdfast.core.platform.queries.identities import lease_end, lease_needs_renewal, refuse_identities
from holdfast.core.platform.state.lookups import assignments_of, held_in
from holdfast.core.platform.state.tables import PlatformState


def assign(state: PlatformState, command: Assign, ctx: CommandContext) -> Accepted | Refused:
    """Create or change the assignment of a workload to a region for a purpose."""
    workload = state.workloads.get(command.workload)
    region = state.regions.get(command.region)
    if workload is None:
        return not_found("Workload", command.workload)
    if region is None:
        return not_found("Region", command.region)
    refused = refuse_ending(workload) or _refuse_shape(command, workload)
    if refused is not None:
        return refused
    old = assignment_in(state, workload.meta.uid, command.region, command.purpose)
    new = _proposed(state, command, workload, old, ctx)
    if old is not None and new == old and not lease_needs_renewal(state, workload, old, ctx.at):
        return already(f"assignment/{old.uid}", old.revision)
    refused = (
        _refuse_phase(state, new, old)
        or _refuse_place(state, workload, region, new, old)
        or _refuse_templates(state, new)
        or _refuse_disruption(state, workload, new, old)
        or refuse_identities(state, workload, new)
    )
    if refused is not None:
        return refused
    leased = replace(new, right_until=lease_end(state, workload, new, ctx.at))
    return Accepted(assignment_events(state, workload, old, leased, ctx))


def assignment_in(
    state: PlatformState, workload: Revision, region: str, purpose: AssignmentPurpose
) -> Assignment | None:
    """Return the assignment of a workload to a region for a purpose."""
    found = (a for a in assignments_of(state, workload) if a.region == region and a.purpose is purpose)
    return next(found, None)


def assignment_events(
    state: PlatformState, workload: Workload, old: Assignment | None, new: Assignment, ctx: CommandContext
) -> tuple[object, ...]:
    """Return the events that store the new assignment in place of the old one, with the workload's breaches."""
    others = [a for a in assignments_of(state, workload.meta.uid) if old is None or a.uid != old.uid]
    return (AssignmentStored(new), *recount_workload(state, workload, [*others, new], ctx))


def refuse_ending(workload: Workload) -> Refused | None:
    """Refuse to change a workload that is being deleted."""
    if workload.meta.deletion is None:
        return None
    facts = {"workload": workload.meta.uid}
    return Refused(Code.WRONG_PHASE, f"workload {workload.meta.name} is being deleted", facts)


def _refuse_shape(command: Assign, workload: Workload) -> Refused | None:
    names = [share.template for share in command.shares]
    counts = [share.count for share in command.shares]
    if (
        min((command.disruption, *counts)) < 0
        or sum(counts) > COUNT_MAX
        or count_numbers(ranges_of(command.ordinals)) > COUNT_MAX
    ):
        return malformed(f"counts are between 0 and {COUNT_MAX}", counts=counts, disruption=command.disruption)
    if not is_named_once(command.ordinals):
        return malformed("ordinals are named once each", ordinals=len(command.ordinals))
    if len(set(names)) != len(names):
        return malformed("each template is named once", templates=sorted(names))
    if command.stage is AssignmentStage.ENDED:
        return malformed("an assignment is ended by EndAssignment", stage=command.stage.value)
    if command.stage is AssignmentStage.STANDBY and command.purpose is not AssignmentPurpose.RECOVERY:
        return contradictory("only recovery assignments can be standby", purpose=command.purpose.value)
    if any(count % workload.spec.unit for count in counts):
        message = f"a gang of {workload.spec.unit} is never split: counts are multiples of it"
        return contradictory(message, counts=counts, size=workload.spec.unit)
    if command.purpose is AssignmentPurpose.RECOVERY and not workload.spec.recovery.budget:
        return contradictory(f"workload {workload.meta.name} names no recovery budget", workload=workload.meta.uid)
    return None


def _proposed(
    state: PlatformState, command: Assign, workload: Workload, old: Assignment | None, ctx: CommandContext
) -> Assignment:
    spec = workload.spec
    shares = tuple(sorted((s for s in command.shares if s.count), key=lambda share: share.template))
    return Assignment(
        uid=old.uid if old is not None else 0,
        revision=old.revision if old is not None else 0,
        workload=workload.meta.uid,
        workload_name=workload.meta.name,
        tenant=workload.meta.tenant,
        region=command.region,
        purpose=command.purpose,
        stage=command.stage,
        generation=workload.meta.generation,
        shares=shares,
        accounts=paying_accounts(state, workload, command.region, command.purpose, ctx.at),
        priority_class=spec.priority_class,
        disruption=command.disruption,
        exclusive=spec.exclusive,
        ordinals=ranges_of(command.ordinals),
        right_until=old.right_until if old is not None else 0,
        jurisdictions=spec.placement.jurisdictions,
        batch=spec.batch,
        returning=_returning(state, command) if spec.exclusive else (),
        deadline=deadline_of(workload),
        fails_late=spec.on_deadline is OnDeadline.FAIL,
        stops_cut=spec.on_disconnect is OnDisconnect.STOP,
        gang=spec.gang,
    )


def _returning(state: PlatformState, command: Assign) -> Ranges:
    """Return the ordinals to be released: held rights that no assignment of the region lists. Only the serving one has
    them."""
    if command.purpose is not AssignmentPurpose.SERVING:
        return ()
    left = without(held_in(state, command.workload, command.region), ranges_of(command.ordinals))
    for other in assignments_of(state, command.workload):
        if other.region == command.region and other.purpose is not command.purpose:
            left = without(left, other.ordinals)
    return left


def _refuse_phase(state: PlatformState, new: Assignment, old: Assignment | None) -> Refused | None:
    if old is not None and old.stage is AssignmentStage.ENDED:
        facts = {"assignment": old.uid, "region": old.region}
        return Refused(Code.WRONG_PHASE, f"region {old.region} has not released the ended assignment yet", facts)
    running = old is not None and old.stage is AssignmentStage.ACTIVE
    if running and new.stage is AssignmentStage.STANDBY:
        return Refused(Code.WRONG_PHASE, "an active assignment never stands by again; end it", {"assignment": new.uid})
    if new.purpose is AssignmentPurpose.RECOVERY and new.stage is AssignmentStage.ACTIVE and not running:
        return refuse_without_loss(state)
    return None


def refuse_without_loss(state: PlatformState) -> Refused | None:
    """Refuse to run recovery before a region is lost: its budget is no second quota."""
    if any(region.status.health is RegionHealth.LOST for region in state.regions.values()):
        return None
    return Refused(Code.TOO_EARLY, "no region is lost, so there is nothing to recover", {})


def _refuse_place(
    state: PlatformState, workload: Workload, region: Region, new: Assignment, old: Assignment | None
) -> Refused | None:
    name, health = new.region, region.status.health
    # An empty assignment may always request rights back that were granted to the region and never reached it.
    more = _raises(old, new) if old is not None else bool(new.shares or new.ordinals or not new.returning)
    if health is not RegionHealth.HEALTHY and more:
        facts = {"region": name, "health": health.value, "since": region.status.since}
        return Refused(Code.REGION_UNAVAILABLE, f"region {name} is {health}: nothing new is assigned there", facts)
    if not placement_allows(workload.spec, region) and more:
        facts = {"region": name, "jurisdiction": region.spec.jurisdiction}
        return Refused(Code.RESIDENCY, f"workload {workload.meta.name} may not be in region {name}", facts)
    if not within_latency_limits(workload.spec, region) and more:
        return too_far(workload, name)
    if new.purpose is AssignmentPurpose.RECOVERY:
        return _refuse_budget(state, workload, name)
    return None


def too_far(workload: Workload, region: str) -> Refused:
    """Refuse a region outside the latency limits of a workload."""
    limits = {rule.client: rule.limit for rule in workload.spec.placement.latency if rule.limit}
    message = f"region {region} is too far from the clients of workload {workload.meta.name}, or its latency is unknown"
    return Refused(Code.LATENCY, message, {"region": region, "limits": limits})


def _raises(old: Assignment, new: Assignment) -> bool:
    """Check whether the count of a template, the identities or the stage grow."""
    counts = {share.template: share.count for share in old.shares}
    more = any(share.count > counts.get(share.template, 0) for share in new.shares)
    return more or new.stage is not old.stage or not is_within(new.ordinals, old.ordinals)


def _refuse_budget(state: PlatformState, workload: Workload, region: str) -> Refused | None:
    name = workload.spec.recovery.budget
    budget = state.recovery_budgets.get(name)
    if budget is None:
        return not_found("RecoveryBudget", name)
    if region not in budget.spec.regions:
        return contradictory(f"budget {name} reserves no capacity in region {region}", budget=name, region=region)
    if budget.spec.tenants and workload.meta.tenant not in budget.spec.tenants:
        return contradictory(f"budget {name} reserves no capacity for tenant {workload.meta.tenant}", budget=name)
    return None


def _refuse_templates(state: PlatformState, new: Assignment) -> Refused | None:
    unknown = [s.template for s in new.shares if not is_known_to(state, new.tenant, s.template)]
    return not_found("template", unknown[0]) if unknown else None


def _refuse_disruption(
    state: PlatformState, workload: Workload, new: Assignment, old: Assignment | None
) -> Refused | None:
    """Refuse to raise a share if all shares then exceed the disruption budget."""
    most, before = workload.spec.disruption_max, old.disruption if old is not None else 0
    if new.disruption <= before:
        return None
    others = [a for a in assignments_of(state, new.workload) if a.uid != new.uid]
    shared = disruption_shared([*others, new]) if new.purpose is AssignmentPurpose.SERVING else new.disruption
    if shared <= most:
        return None
    facts = {"shared": shared, "most": most, "workload": new.workload}
    return Refused(Code.DISRUPTION, f"regions would hold {shared} of a disruption budget of {most}", facts)


def is_known_to(state: PlatformState, tenant: str, digest: str) -> bool:
    """Check whether a workload of this tenant names the template, or has named it."""
    return any(name == tenant for name, _ in state.template_uses.get(digest) or ())
