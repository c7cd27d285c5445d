"""PutWorkload: admission of a workload.

A workload that can never run is refused at once: by a contradiction, an unknown name, or a residency rule that no
region satisfies. One that cannot run yet is accepted, for example when quota is used up. A limit of pending replicas
keeps a tenant from filling every queue. The conditions `Fits` and `OnTime` show whether a reported node is large enough
and the deadline can be met; they refuse nothing, since nodes may be added.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, already, contradictory, in_use, malformed, not_found
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import Workload, WorkloadSpec, name_key
from holdfast.core.model.values.conditions import with_condition
from holdfast.core.platform.commands import PutWorkload
from holdfast.core.platform.decide import checks
from holdfast.core.platform.decide.breaches import recount_workload
from holdfast.core.platform.decide.objects import merge
from holdfast.core.platform.decide.workload_deletion import template_drop_events
from holdfast.core.platform.events import TemplateStored, WorkloadOf, WorkloadStored
from holdfast.core.platform.limits import COUNT_MAX
from holdfast.core.platform.queries.completion import has_deadline_condition, on_time_condition
from holdfast.core.platform.queries.feasibility import fits_condition, placement_allows, within_latency_limits
from holdfast.core.platform.state.indexes import pending
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState


def put_workload(state: PlatformState, command: PutWorkload, ctx: CommandContext) -> Accepted | Refused:
    """Store the workload as sent, with the template that it names."""
    sent = command.workload
    key = name_key(sent.meta.tenant, sent.meta.name)
    refused = (
        checks.refuse_outside_tenant(ctx, sent.meta.tenant)
        or checks.refuse_outside_placement(ctx, sent.spec)
        or checks.refuse_name("Workload", sent.meta.name)
        or checks.refuse_marks(sent.meta)
    )
    if refused is not None:
        return refused
    stored = state.workloads.get(state.workload_names.get(key) or 0)
    refused = (
        checks.refuse_outside_placement(ctx, stored.spec) if stored is not None else _refuse_deleting(state, command)
    )
    if refused is not None:
        return refused
    merged = merge(sent, stored, ctx)
    if stored is not None and merged == stored:
        return already(f"Workload/{key}", stored.meta.revision)
    for check in CHECKS:
        refused = check(state, merged, stored)
        if refused is not None:
            return refused
    return Accepted(_events(state, _judged(state, merged, stored, ctx), stored, ctx))


def _judged(state: PlatformState, merged: Workload, stored: Workload | None, ctx: CommandContext) -> Workload:
    """Return the workload with its conditions `Fits` and `OnTime`."""
    if stored is not None and stored.meta.generation == merged.meta.generation:
        return merged
    fits = fits_condition(state, merged, ctx.at)
    conditions = with_condition(merged.status.conditions, fits)
    if has_deadline_condition(merged):
        conditions = with_condition(conditions, on_time_condition(state, merged, fits, ctx.at))
    return replace(merged, status=replace(merged.status, conditions=conditions))


def _events(state: PlatformState, merged: Workload, stored: Workload | None, ctx: CommandContext) -> tuple[object, ...]:
    """Return the events, the workload's first: the sender receives its revision, which is its uid."""
    events: list[object] = [WorkloadStored(merged)]
    digest = template_digest(merged.spec.template)
    if digest not in state.templates:
        events.append(TemplateStored(digest, merged.spec.template))
    if stored is not None:
        events.extend(template_drop_events(state, WorkloadOf(stored.meta.uid, stored.meta.tenant), digest))
        events.extend(recount_workload(state, merged, assignments_of(state, merged.meta.uid), ctx))
    return tuple(events)


def _refuse_deleting(state: PlatformState, command: PutWorkload) -> Refused | None:
    """Refuse a workload that names the uid of one that is being deleted: the sender does not mean a new one."""
    meta = command.workload.meta
    old = state.workloads.get(meta.uid)
    if old is None or (old.meta.tenant, old.meta.name) != (meta.tenant, meta.name):
        return None
    facts = {"uid": meta.uid, "name": meta.name}
    return Refused(Code.WRONG_PHASE, f"workload {meta.name} is being deleted and cannot be changed", facts)


def check_shape(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Check that the workload is well formed in itself."""
    spec = new.spec
    if spec.replicas > COUNT_MAX:
        return malformed(f"a workload has at most {COUNT_MAX} replicas", replicas=spec.replicas, most=COUNT_MAX)
    found = workload_problems(spec)
    if found:
        return contradictory("; ".join(found), contradictions=found)
    return _refuse_grace(state, spec) or checks.refuse_amount("need", spec.template.need)


def _refuse_grace(state: PlatformState, spec: WorkloadSpec) -> Refused | None:
    """Refuse a grace above that of the settings: the fence time, by which an identity must end, includes that (RULES
    4)."""
    grace, most = spec.template.grace, state.info.settings.grace
    if not spec.exclusive or grace <= most:
        return None
    message = f"grace of {grace} ms is longer than the {most} ms by which exclusive work is fenced: two could run"
    return contradictory(message, grace=grace, most=most)


def check_tenant(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Check that the tenant exists, may have one more workload, and may use the priority class."""
    name, spec = new.meta.tenant, new.spec
    tenant = state.tenants.get(name)
    if tenant is None:
        return not_found("Tenant", name)
    if spec.priority_class not in state.priority_classes:
        return not_found("PriorityClass", spec.priority_class)
    if spec.priority_class not in tenant.spec.priority_classes:
        allowed = list(tenant.spec.priority_classes)
        message = f"tenant {name} may not use priority class {spec.priority_class}"
        return Refused(Code.PRIORITY, message, {"priority_class": spec.priority_class, "allowed": allowed})
    count, most = state.workload_counts.get(name) or 0, tenant.spec.workloads_max
    if stored is None and count >= most:
        facts = {"tenant": name, "workloads": count, "most": most}
        return Refused(Code.OVER_QUOTA, f"tenant {name} may have {most} workloads and has {count}", facts)
    return None


def check_pending(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Check the limit of pending replicas. A tenant above a lowered limit may still lower its counts."""
    name = new.meta.tenant
    most, before = state.tenants[name].spec.pending_max, state.pending_of.get(name) or 0
    after = before - (pending(stored) if stored is not None else 0) + pending(new)
    if after <= max(before, most):
        return None
    facts = {"tenant": name, "pending": after, "most": most}
    message = f"tenant {name} would have {after} pending replicas, and may have {most}"
    return Refused(Code.TOO_MANY_PENDING, message, facts)


def check_places(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Check that at least one allowed region exists and is not retired."""
    placement = new.spec.placement
    primary = (placement.primary,) if placement.primary else ()
    named = (*placement.regions, *(name for name, _ in placement.weights), *primary)
    refused = checks.refuse_unknown("Region", named, state.regions)
    if refused is not None:
        return refused
    if any(weight < 0 for _, weight in placement.weights):
        return malformed("weights cannot be negative", weights=list(placement.weights))
    places = _places(state, new.spec)
    limits = {rule.client: rule.limit for rule in placement.latency if rule.limit}
    facts = {"regions": list(placement.regions), "jurisdictions": list(placement.jurisdictions), "limits": limits}
    if (placement.regions or placement.jurisdictions) and not places:
        return Refused(Code.RESIDENCY, "no region satisfies these placement rules", facts)
    if limits and not any(within_latency_limits(new.spec, region) for region in places):
        return Refused(Code.LATENCY, "no region where it may run is near enough to its clients", facts)
    return None


def _places(state: PlatformState, spec: WorkloadSpec) -> list[Region]:
    return [
        region
        for region in state.regions.values()
        if region.status.health is not RegionHealth.RETIRED and placement_allows(spec, region)
    ]


def check_recovery(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Check that the recovery budget exists and reserves capacity for this tenant."""
    name = new.spec.recovery.budget
    if not name:
        return None
    budget = state.recovery_budgets.get(name)
    if budget is None:
        return not_found("RecoveryBudget", name)
    if budget.spec.tenants and new.meta.tenant not in budget.spec.tenants:
        return contradictory(f"budget {name} reserves no capacity for tenant {new.meta.tenant}", budget=name)
    return None


def check_identity(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Refuse to change `exclusive` or `failover` while a region holds the workload.

    A region without connection would follow the old rule, and take a permanent right for a lapsed lease, or its own
    ordinals for global ones. Two replicas of an identity could run.
    """
    if stored is None:
        return None
    same = (new.spec.exclusive, new.spec.failover) == (stored.spec.exclusive, stored.spec.failover)
    uid = stored.meta.uid
    if same or not (uid in state.assignments_of or uid in state.rights_of):
        return None
    regions = sorted({assignment.region for assignment in assignments_of(state, uid)})
    return in_use("exclusive and failover change only while no region holds any of it", regions=regions)


def check_gang(state: PlatformState, new: Workload, stored: Workload | None) -> Refused | None:
    """Refuse to change the size of gangs while a region has some: ordinals would belong to other gangs."""
    if stored is None or new.spec.unit == stored.spec.unit or stored.meta.uid not in state.assignments_of:
        return None
    regions = sorted({assignment.region for assignment in assignments_of(state, stored.meta.uid)})
    return in_use("gang.size changes only while no region holds any of the workload", regions=regions)


CHECKS: tuple[Callable[[PlatformState, Workload, Workload | None], Refused | None], ...] = (
    check_shape,
    check_tenant,
    check_pending,
    check_places,
    check_recovery,
    check_identity,
    check_gang,
)
