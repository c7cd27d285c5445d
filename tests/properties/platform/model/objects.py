"""The simple platform: what operators and tenants write, and how workloads end."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import RECORD_BYTES_MAX, encode, template_digest
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import Workload, WorkloadSpec, WorkloadStatus
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.region_reports import Nodes
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus, with_condition
from holdfast.core.model.values.metadata import Deletion, Finalizer, Meta
from holdfast.core.model.values.resources import ZERO, Resources, amount_problem, first_exceeded, times
from holdfast.core.platform import commands as c
from tests.properties.platform.model.platform import Case, Standing, World, deny, drop_right, need

KINDS = ("Tenant", "Quota", "PriorityClass", "Principal", "Token", "Region", "NodePool", "RecoveryBudget")
_WORD = "[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?"
_FORMS = {
    "Workload": "[a-z0-9]([-a-z0-9./]{0,126}[a-z0-9])?",
    "Principal": r"(agent|scheduler|region|person|tenant)/(\*|[a-z0-9]([-a-z0-9._@/]{0,126}[a-z0-9])?)",
}


def need_name(kind: str, meta: Meta) -> None:
    need(re.fullmatch(_FORMS.get(kind, _WORD), meta.name), Code.MALFORMED)
    for marks, most in ((meta.labels, 256), (meta.annotations, 4_096)):
        keys = [key for key, _ in marks]
        need(len(set(keys)) == len(keys) and all(keys), Code.MALFORMED)
        need(all(len(key) <= 256 and len(value) <= most for key, value in marks), Code.MALFORMED)


def need_amount(amount: Resources) -> None:
    need(not amount_problem(amount), Code.MALFORMED)


def need_scope(thing: Any, case: Case) -> None:
    """A region's operator may write the region and its pools; all else concerns everybody."""
    kind = type(thing).__name__
    if kind in ("Region", "NodePool"):
        case.need_whole_region(thing.meta.name if kind == "Region" else thing.spec.region)
    else:
        case.need_everywhere()


def as_sent(sent: Any, old: Any, case: Case, revision: int) -> Any:
    """What the sender wants of the object, with what only the ledger may say."""
    meta = Meta(
        name=sent.meta.name, uid=old.meta.uid if old else revision, revision=revision, tenant="",
        generation=old.meta.generation + (old.spec != sent.spec) if old else 1,
        labels=tuple(sorted(sent.meta.labels)), annotations=tuple(sorted(sent.meta.annotations)),
        created_by=old.meta.created_by if old else case.actor, created=old.meta.created if old else case.at,
    )  # fmt: skip
    if isinstance(sent, Workload):
        status = old.status if old else WorkloadStatus()
        return Workload(meta=replace(meta, tenant=sent.meta.tenant), spec=sent.spec, status=status)
    return type(sent)(meta=meta, spec=sent.spec)


def need_change(new: Any, old: Any) -> None:
    need(old is None or new != replace(old, meta=replace(old.meta, revision=new.meta.revision)), Code.ALREADY)


def put(world: World, command: c.Put, case: Case) -> None:
    sent = command.object
    kind, name = type(sent).__name__, sent.meta.name
    need_scope(sent, case)
    need_name(kind, sent.meta)
    old = world.things.get((kind, name))
    if old is not None:
        need_scope(old, case)
    new = as_sent(sent, old, case, world.next)
    need_change(new, old)
    CHECKS[kind](world, new, old, case)
    world.things[kind, name] = new
    if isinstance(new, Region) and old is None:
        world.standing[name] = Standing(case.at)


def check_tenant(world: World, new: Any, old: Any, case: Case) -> None:
    limits = (new.spec.workloads_max, new.spec.pending_max, new.spec.submits_per_minute)
    need(min(limits) >= 0, Code.MALFORMED)
    need(all(("PriorityClass", name) in world.things for name in new.spec.priority_classes), Code.NOT_FOUND)


def check_quota(world: World, new: Any, old: Any, case: Case) -> None:
    need_amount(new.spec.hard)
    need_amount(new.spec.protected)
    need(0 <= new.spec.reclaimable <= 100, Code.MALFORMED)
    need(1 <= new.spec.weight <= 1_000, Code.MALFORMED)
    need(not first_exceeded(new.spec.protected, new.spec.hard), Code.CONTRADICTORY)
    need(("Tenant", new.meta.name) in world.things, Code.NOT_FOUND)


def check_class(world: World, new: Any, old: Any, case: Case) -> None:
    need(abs(new.spec.priority) <= 1_000_000, Code.MALFORMED)


def need_rights(rights: Any, case: Case) -> None:
    """Nobody hands out or takes away what they do not have."""
    assert case.principal is not None
    own = {*case.principal.spec.rights}
    own |= {Permission.AUDIT} if Permission.OPERATE in own else set()  # who operates may let others read the audit
    need(set(rights) <= own, Code.NO_RIGHT)


def check_principal(world: World, new: Any, old: Any, case: Case) -> None:
    of_a_region = new.meta.name.partition("/")[0] in ("agent", "scheduler") and not new.meta.name.endswith("/*")
    need(not of_a_region or new.spec.scope.region or (old and not old.spec.scope.region), Code.MALFORMED)
    need_rights((*new.spec.rights, *(old.spec.rights if old else ())), case)


def check_token(world: World, new: Any, old: Any, case: Case) -> None:
    need(re.fullmatch("[0-9a-f]{64}", new.spec.hash), Code.MALFORMED)
    need(not (old and old.spec.revoked and not new.spec.revoked), Code.CONTRADICTORY)
    need(new.spec.expires > case.at, Code.EXPIRED)
    principal = principal_of(world, new.spec.principal)
    before = principal_of(world, old.spec.principal) if old else None
    if principal is None:
        deny(Code.NOT_FOUND)
    need(new.spec.expires <= max(case.at + 8_640_000_000, old.spec.expires if old else 0), Code.MALFORMED)
    if not old or (old.spec.principal, old.spec.any) != (new.spec.principal, new.spec.any):
        kind, _, one = new.spec.principal.partition("/")
        wide = one == "*" or not principal.spec.scope.region
        need(new.spec.any == wide if kind in ("agent", "scheduler") else not new.spec.any and one != "*",
             Code.CONTRADICTORY)  # fmt: skip
    need_rights((*principal.spec.rights, *(before.spec.rights if before else ())), case)


def principal_of(world: World, name: str) -> Any:
    return world.things.get(("Principal", name)) or world.things.get(("Principal", f"{name.partition('/')[0]}/*"))


def check_region(world: World, new: Any, old: Any, case: Case) -> None:
    need(all(latency >= 0 for _, latency in new.spec.latencies), Code.MALFORMED)
    need(re.fullmatch(r"(https://[a-z0-9.]+(:\d+)?)?", new.spec.address), Code.MALFORMED)
    if old is None or old.spec.jurisdiction == new.spec.jurisdiction:
        return
    for assignment in world.assignments.values():
        wanted = world.workloads[assignment.workload].spec.placement.jurisdictions
        for lawful in (assignment.jurisdictions, wanted):
            was, will = old.spec.jurisdiction in lawful, new.spec.jurisdiction in lawful
            need(assignment.region != new.meta.name or not was or will, Code.IN_USE)


def check_pool(world: World, new: Any, old: Any, case: Case) -> None:
    need(new.spec.minimum >= 0 and new.spec.cost >= 0, Code.MALFORMED)
    need(new.spec.minimum <= new.spec.maximum, Code.CONTRADICTORY)
    need(("Region", new.spec.region) in world.things, Code.NOT_FOUND)


def check_budget(world: World, new: Any, old: Any, case: Case) -> None:
    spec = new.spec
    need(len(set(spec.regions)) == len(spec.regions), Code.MALFORMED)
    need_amount(spec.each)
    need(all(("Region", name) in world.things for name in spec.regions), Code.NOT_FOUND)
    need(all(("Tenant", name) in world.things for name in spec.tenants), Code.NOT_FOUND)
    for region in world.standing:
        each = spec.each if region in spec.regions else ZERO
        need(not first_exceeded(world.charged(f"recovery/{new.meta.name}", region), each), Code.IN_USE)


CHECKS: dict[str, Any] = dict(zip(
    KINDS,
    (check_tenant, check_quota, check_class, check_principal, check_token, check_region, check_pool, check_budget),
    strict=True,
))  # fmt: skip


def delete(world: World, command: c.Delete, case: Case) -> None:
    need(command.kind in KINDS, Code.MALFORMED)
    old = world.things.get((command.kind, command.name))
    if old is None:
        deny(Code.NOT_FOUND)
    need_scope(old, case)
    need(command.uid in (0, old.meta.uid), Code.STALE)
    need_unused(world, command.kind, command.name, old, case)
    del world.things[command.kind, command.name]
    if command.kind == "Region":
        del world.standing[command.name]
        del world.spent[command.name]
    for where, account in list(world.grants):
        if account in accounts_of(command.kind, command.name):
            world.forget(where, account)
    gone = {"Region": 0, "Tenant": 1}.get(command.kind)
    for key in list(world.validities):
        if gone is not None and key[gone] == command.name:
            del world.validities[key]


def accounts_of(kind: str, name: str) -> list[str]:
    """The accounts that are an object's own."""
    return {"Quota": [f"quota/{name}", f"reclaimable/{name}"], "RecoveryBudget": [f"recovery/{name}"]}.get(kind, [])


def need_unused(world: World, kind: str, name: str, old: Any, case: Case) -> None:
    """Nothing refers to it."""
    wanted = list(world.workloads.values())
    budgets = world.of_kind("RecoveryBudget").values()
    used = False
    match kind:
        case "Tenant":
            used = ("Quota", name) in world.things or any(w.meta.tenant == name for w in wanted)
            used = used or any(name in budget.spec.tenants for budget in budgets)
        case "Quota":
            used = world.charged(f"quota/{name}", "") != ZERO
            used = used or any(world.charged(f"reclaimable/{name}", region) != ZERO for region in world.standing)
        case "PriorityClass":
            used = any(name in tenant.spec.priority_classes for tenant in world.of_kind("Tenant").values())
            used = used or any(w.spec.priority_class == name for w in wanted)
            used = used or any(a.priority_class == name for a in world.assignments.values())
        case "Principal":
            tokens = world.of_kind("Token").values()
            mine = [t.spec for t in tokens if t.spec.principal == name and not t.spec.revoked]
            need(all(spec.expires <= case.at for spec in mine), Code.IN_USE)
            need_rights(old.spec.rights, case)
        case "Token":
            need(old.spec.revoked or old.spec.expires <= case.at, Code.TOO_EARLY)
        case "Region":
            used = world.standing[name].health is not RegionHealth.RETIRED or world.standing[name].unreleased > 0
            used = used or any(pool.spec.region == name for pool in world.of_kind("NodePool").values())
            used = used or any(name in budget.spec.regions for budget in budgets)
            places = [w.spec.placement for w in wanted]
            named = [(*place.regions, *dict(place.weights), place.primary) for place in places]
            used = used or any(name in regions for regions in named)
        case "RecoveryBudget":
            used = any(world.charged(f"recovery/{name}", region) != ZERO for region in world.standing)
            used = used or any(w.spec.recovery.budget == name for w in wanted)
    need(not used, Code.IN_USE)


# Workloads


def may_hold(world: World, spec: WorkloadSpec, region: str) -> bool:
    rules, law = spec.placement, world.things["Region", region].spec.jurisdiction
    return (not rules.regions or region in rules.regions) and (not rules.jurisdictions or law in rules.jurisdictions)


def is_near(world: World, spec: WorkloadSpec, region: str) -> bool:
    """A region that does not say how far it is counts as too far."""
    known = dict(world.things["Region", region].spec.latencies)
    limits = [(rule.client, rule.limit) for rule in spec.placement.latency if rule.limit > 0]
    return all(client in known and known[client] <= limit for client, limit in limits)


def need_placement(case: Case, spec: WorkloadSpec) -> None:
    """Who may act in one region only writes only what can be nowhere else."""
    need(not case.scope.region or spec.placement.regions == (case.scope.region,), Code.WRONG_SCOPE)


def put_workload(world: World, command: c.PutWorkload, case: Case) -> None:
    sent = command.workload
    tenant, name = sent.meta.tenant, sent.meta.name
    need(case.may_act_for(tenant), Code.WRONG_SCOPE)
    need_placement(case, sent.spec)
    need_name("Workload", sent.meta)
    old = world.live(tenant, name)
    if old is not None:
        need_placement(case, old.spec)
    else:
        ending = world.workloads.get(sent.meta.uid)
        need(ending is None or (ending.meta.tenant, ending.meta.name) != (tenant, name), Code.WRONG_PHASE)
    new: Workload = as_sent(sent, old, case, world.next)
    need_change(new, old)
    check_workload(world, new, old)
    if old is None or old.meta.generation != new.meta.generation:
        found = with_condition(new.status.conditions, fits(world, new, case.at))
        if new.spec.deadline or any(one.type == "OnTime" for one in found):
            found = with_condition(found, on_time(world, new, case.at))
        new = replace(new, status=replace(new.status, conditions=found))
    digest = template_digest(new.spec.template)
    copies = 1 if any(digest in known for known in world.named.values()) else 2
    need(copies * len(encode(new.spec.template)) < RECORD_BYTES_MAX, Code.TOO_LARGE)
    world.workloads[new.meta.uid] = new
    named = world.named.setdefault(new.meta.uid, {})
    named.pop(digest, None)
    named[digest] = None
    assigned = [s.template for a in world.assignments.values() if a.workload == new.meta.uid for s in a.shares]
    for old_one in [one for one in list(named)[:-10] if one not in assigned]:
        del named[old_one]
        world.done.pop((new.meta.uid, old_one), None)


def fits(world: World, workload: Workload, at: int) -> Condition:
    """Whether some node of a region where it may be is large enough, as far as regions have told. Without its words."""
    spec = workload.spec
    there = [r for r, standing in world.standing.items() if standing.log and may_hold(world, spec, r)]
    told = {region: world.summaries.get(region) for region in there if is_near(world, spec, region)}
    together = (spec.gang.min or spec.gang.size) if spec.gang else 1
    large = [
        any(not first_exceeded(spec.template.need, piece) for nodes in summary[2].nodes for piece in nodes.largest)
        and sum(_holds(nodes, spec.template.need, together) for nodes in summary[2].nodes) >= together
        for summary in told.values()
        if summary is not None and summary[2].nodes
    ]
    truth = (
        (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
        if any(large)
        else (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    )
    if not any(large) and (len(large) < len(told) or not told):
        truth = (ConditionStatus.UNKNOWN, ConditionReason.NOT_YET_KNOWN)
    generation = workload.meta.generation
    return Condition(type="Fits", status=truth[0], reason=truth[1], since=at, observed_generation=generation)


def _holds(nodes: Nodes, need: Resources, together: int) -> int:
    """How many replicas nodes that are large enough hold together if they are empty."""
    if not any(not first_exceeded(need, piece) for piece in nodes.largest):
        return 0
    return max(n for n in range(together + 1) if not first_exceeded(times(need, n), nodes.capacity))


def on_time(world: World, workload: Workload, at: int) -> Condition:
    """Whether its deadline can be met, as far as is certain, when it is asked for anew. Without its words."""
    spec, digest = workload.spec, template_digest(workload.spec.template)
    said = [one for (uid, _), (_, one) in world.observed.items() if uid == workload.meta.uid]
    done = sum(count.done for one in said for count in one.counts if count.template == digest)
    done += world.done.get((workload.meta.uid, digest), 0)
    truth = (ConditionStatus.TRUE, ConditionReason.PROGRESSING)
    if not spec.deadline or done >= spec.replicas:
        truth = (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
    elif workload.meta.created + spec.deadline <= at:
        truth = (ConditionStatus.FALSE, ConditionReason.DEADLINE_MISSED)
    elif fits(world, workload, at).status is ConditionStatus.FALSE:
        truth = (ConditionStatus.FALSE, ConditionReason.NEVER_FITS)
    generation = workload.meta.generation
    return Condition(type="OnTime", status=truth[0], reason=truth[1], since=at, observed_generation=generation)


def check_workload(world: World, new: Workload, old: Workload | None) -> None:
    spec, tenant = new.spec, world.things.get(("Tenant", new.meta.tenant))
    need(spec.replicas <= 100_000, Code.MALFORMED)
    need(not workload_problems(spec), Code.CONTRADICTORY)
    need(not spec.exclusive or spec.template.grace <= world.settings.grace, Code.CONTRADICTORY)
    need_amount(spec.template.need)
    if tenant is None or ("PriorityClass", spec.priority_class) not in world.things:
        deny(Code.NOT_FOUND)
    need(spec.priority_class in tenant.spec.priority_classes, Code.PRIORITY)
    count = sum(w.meta.tenant == new.meta.tenant for w in world.workloads.values())
    need(old is not None or count < tenant.spec.workloads_max, Code.OVER_QUOTA)
    before = sum(waiting(w) for w in world.workloads.values() if w.meta.tenant == new.meta.tenant)
    after = before + waiting(new) - (waiting(old) if old else 0)
    need(after <= before or after <= tenant.spec.pending_max, Code.TOO_MANY_PENDING)
    places = spec.placement
    named = (*places.regions, *dict(places.weights), *([places.primary] if places.primary else []))
    need(all(r in world.standing for r in named), Code.NOT_FOUND)
    need(all(weight >= 0 for _, weight in places.weights), Code.MALFORMED)
    live = [r for r, standing in world.standing.items() if standing.health is not RegionHealth.RETIRED]
    free = not places.regions and not places.jurisdictions
    lawful = [region for region in live if may_hold(world, spec, region)]
    need(free or lawful, Code.RESIDENCY)
    far = any(rule.limit for rule in places.latency) and not any(is_near(world, spec, region) for region in lawful)
    need(not far, Code.LATENCY)
    if spec.recovery.budget:
        budget = world.things.get(("RecoveryBudget", spec.recovery.budget))
        if budget is None:
            deny(Code.NOT_FOUND)
        need(not budget.spec.tenants or new.meta.tenant in budget.spec.tenants, Code.CONTRADICTORY)
    if old is not None and (old.spec.exclusive, old.spec.failover) != (spec.exclusive, spec.failover):
        need(not world.assigned(new.meta.uid), Code.IN_USE)
        need(all(uid != new.meta.uid for uid, _ in world.rights), Code.IN_USE)
    sizes = [one.spec.gang.size if one.spec.gang else 1 for one in (new, old or new)]
    need(sizes[0] == sizes[1] or not world.assigned(new.meta.uid), Code.IN_USE)


def waiting(workload: Workload) -> int:
    """Replicas that are wanted, and neither bound nor over."""
    status = workload.status
    there = status.bound + status.succeeded + status.failed
    return 0 if workload.meta.deletion else max(workload.spec.replicas - there, 0)


def delete_workload(world: World, command: c.DeleteWorkload, case: Case) -> None:
    need(case.may_act_for(command.tenant), Code.WRONG_SCOPE)
    workload = world.live(command.tenant, command.name)
    if workload is None:
        ending = world.workloads.get(command.uid)
        same = ending is not None and (ending.meta.tenant, ending.meta.name) == (command.tenant, command.name)
        deny(Code.ALREADY if same else Code.NOT_FOUND)
    need_placement(case, workload.spec)
    uid = workload.meta.uid
    need(command.uid in (0, uid), Code.STALE)
    held = world.assigned(uid)
    if not held:
        forget(world, uid)
        return
    deadline = case.at + world.settings.finalizer_deadline
    finalizers = tuple(
        Finalizer(name=f"slots/{region}", owner=f"region/{region}", deadline=deadline)
        for region in sorted({a.region for a in held})
    )
    deletion = Deletion(by=case.actor, at=case.at)
    meta = replace(workload.meta, revision=world.next, deletion=deletion, finalizers=finalizers)
    world.workloads[uid] = replace(workload, meta=meta)
    for a in held:
        if a.stage is not AssignmentStage.ENDED:
            ended = replace(a, stage=AssignmentStage.ENDED, shares=(), disruption=0, revision=world.next)
            world.assignments[a.uid] = ended


def forget(world: World, uid: int) -> None:
    """The workload is gone, with its rights."""
    del world.workloads[uid]
    del world.named[uid]
    for key in [key for key in world.rights if key[0] == uid]:
        drop_right(world, key)
    for place in [place for place in world.overflows if place[0] == uid]:
        del world.overflows[place]
    for name in [name for name in world.done if name[0] == uid]:
        del world.done[name]


def drop_finalizer(world: World, uid: int, region: str, revision: int) -> None:
    """The last one takes the workload with it."""
    workload = world.workloads[uid]
    left = tuple(f for f in workload.meta.finalizers if f.owner != f"region/{region}")
    meta = replace(workload.meta, finalizers=left, revision=revision)
    world.workloads[uid] = replace(workload, meta=meta)
    if not left:
        forget(world, uid)


def need_region(world: World, region: str, case: Case) -> None:
    """A region speaks only for itself."""
    need(case.name == region, Code.NOT_OWNER)
    need(region in world.standing, Code.NOT_FOUND)


def need_joined(world: World, region: str, case: Case) -> None:
    """And only in the session that has joined with its log."""
    need_region(world, region, case)
    standing = world.standing[region]
    retired = standing.health is RegionHealth.RETIRED
    need(standing.session == case.session, Code.TOMBSTONED if retired else Code.NO_SESSION)


def report_status(world: World, command: c.ReportStatus, case: Case) -> None:
    workload = world.workloads.get(command.workload)
    if workload is None:
        deny(Code.NOT_FOUND)
    counts = (command.bound, command.ready, command.serving, command.succeeded, command.failed)
    need(min(counts) >= 0, Code.MALFORMED)
    types = [condition.type for condition in command.conditions]
    need(len(set(types)) == len(types) and all(types), Code.MALFORMED)
    seen = command.observed_generation
    need(seen <= workload.meta.generation, Code.MALFORMED)
    need(seen >= workload.status.observed_generation, Code.STALE)
    found = workload.status.conditions
    for condition in command.conditions:
        found = with_condition(found, replace(condition, since=case.at))
    status = WorkloadStatus(
        observed_generation=seen, bound=command.bound, ready=command.ready, serving=command.serving,
        conditions=found, succeeded=command.succeeded, failed=command.failed,
    )  # fmt: skip
    need(status != workload.status, Code.ALREADY)
    world.workloads[command.workload] = replace(workload, status=status)
