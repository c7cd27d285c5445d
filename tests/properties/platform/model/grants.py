"""The simple platform: what regions are given: assignments, and slices of accounts."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import FailoverMode, OnDeadline, OnDisconnect, Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.ranges import Named, ranges_of
from holdfast.core.model.values.resources import (
    AMOUNT_MAX,
    ZERO,
    Resources,
    add,
    elementwise_max,
    first_exceeded,
    subtract,
    total,
)
from holdfast.core.platform import commands as c
from tests.properties.platform.model.objects import drop_finalizer, is_near, may_hold, need_amount, need_joined
from tests.properties.platform.model.platform import (
    Case,
    Denied,
    Lent,
    World,
    deny,
    drop_assignment,
    drop_right,
    keep_done,
    need,
)

H = RegionHealth


def wanted(world: World, uid: int) -> Workload:
    workload = world.workloads.get(uid)
    if workload is None:
        deny(Code.NOT_FOUND)
    return workload


def found(world: World, uid: int) -> Assignment:
    assignment = world.assignments.get(uid)
    if assignment is None:
        deny(Code.NOT_FOUND)
    return assignment


def is_any_lost(world: World) -> bool:
    return any(standing.health is H.LOST for standing in world.standing.values())


def shared_out(world: World, workload: int, without: int = 0) -> int:
    """How much of its disruption budget the serving assignments of a workload hold."""
    return sum(
        a.disruption
        for a in world.assigned(workload)
        if a.uid != without and a.purpose is AssignmentPurpose.SERVING and a.stage is not AssignmentStage.ENDED
    )


# Who pays


def is_emergency_for(override: Override, region: str, at: int) -> bool:
    return override.action is OverrideAction.EMERGENCY_QUOTA and override.ends > at and override.region in ("", region)


def payers(world: World, workload: Workload, region: str, purpose: AssignmentPurpose, at: int) -> tuple[str, ...]:
    if purpose is AssignmentPurpose.RECOVERY:
        return (f"recovery/{workload.spec.recovery.budget}",)
    tenant = workload.meta.tenant
    cls, quota = world.things.get(("PriorityClass", workload.spec.priority_class)), world.things.get(("Quota", tenant))
    share = bool(cls and cls.spec.reclaimable and quota and quota.spec.reclaimable)
    emergencies = [
        f"emergency/{uid}"
        for uid, override in sorted(world.overrides.items())
        if is_emergency_for(override, region, at) and ("tenant", tenant) in override.facts
    ]
    return (*[f"reclaimable/{tenant}"] * share, f"quota/{tenant}", *emergencies)


def amount_of(override: Override) -> Resources:
    facts = {name: min(int(text), AMOUNT_MAX) for name, text in override.facts if text.isdigit()}
    cpu, memory, disk, gpu = (facts.get(name, 0) for name in ("cpu", "memory", "disk", "gpu"))
    return Resources(cpu, memory, disk, gpu)


def limit_of(world: World, account: str, region: str, at: int) -> tuple[Resources, Resources, int]:
    """What may be lent of an account, what of it protected, until when; denied where there is no such account."""
    kind, _, name = account.partition("/")
    latest = at + world.settings.grant_life
    if kind == "quota":
        quota = world.things.get(("Quota", name))
        return (quota.spec.hard, quota.spec.protected, latest) if quota else deny(Code.NOT_FOUND)
    if kind == "recovery":
        budget = world.things.get(("RecoveryBudget", name))
        if budget is None:
            deny(Code.NOT_FOUND)
        need(region in budget.spec.regions, Code.CONTRADICTORY)
        return budget.spec.each, ZERO, latest
    if kind == "reclaimable":
        quota = world.things.get(("Quota", name))
        if quota is None:
            deny(Code.NOT_FOUND)
        return hundredths(world, region, quota.spec.reclaimable), ZERO, latest
    need(kind == "emergency" and name.isdigit() and str(int(name)) == name, Code.MALFORMED)
    override = world.overrides.get(int(name))
    if override is None or override.action is not OverrideAction.EMERGENCY_QUOTA:
        deny(Code.NOT_FOUND)
    need(override.ends > at, Code.EXPIRED)
    need(override.region in ("", region), Code.CONTRADICTORY)
    return amount_of(override), ZERO, min(latest, override.ends)


def hundredths(world: World, region: str, percent: int) -> Resources:
    """So much of what the nodes of a region have, as far as it has told."""
    if region not in world.summaries:
        return ZERO
    whole = total(nodes.capacity for nodes in world.summaries[region][2].nodes)
    named = {name: amount * percent // 100 for name, amount in whole.extended}
    cpu, memory, disk, gpu = (n * percent // 100 for n in (whole.cpu, whole.memory, whole.disk, whole.gpu))
    return Resources(cpu, memory, disk, gpu, tuple(sorted((n, a) for n, a in named.items() if a)))


def has_limit(world: World, account: str, region: str, at: int) -> bool:
    try:
        limit_of(world, account, region, at)
    except Denied:
        return False
    return True


def ending(world: World, account: str, region: str, at: int) -> int:
    """When what is lent of an account ends, at the latest, though nobody may know the account; if it can be one."""
    need(account == account.lower() and " " not in account, Code.MALFORMED)
    try:
        return limit_of(world, account, region, at)[2]
    except Denied as denied:
        need(Code.MALFORMED not in denied.codes, Code.MALFORMED)
        return at + world.settings.grant_life


# Assignments


def assign(world: World, command: c.Assign, case: Case) -> None:
    workload = wanted(world, command.workload)
    need(command.region in world.standing, Code.NOT_FOUND)
    need(workload.meta.deletion is None, Code.WRONG_PHASE)
    need_shape(command, workload)
    old = next(
        (a for a in world.assigned(command.workload) if (a.region, a.purpose) == (command.region, command.purpose)),
        None,
    )
    new = proposed(world, command, workload, old, case)
    need(old is None or new != old or is_renewal(world, workload, old, case.at), Code.ALREADY)
    if old is not None:
        need(old.stage is not AssignmentStage.ENDED, Code.WRONG_PHASE)
        need(not (old.stage is AssignmentStage.ACTIVE and new.stage is AssignmentStage.STANDBY), Code.WRONG_PHASE)
    begins = new.stage is AssignmentStage.ACTIVE and (old is None or old.stage is not AssignmentStage.ACTIVE)
    need(new.purpose is AssignmentPurpose.SERVING or not begins or is_any_lost(world), Code.TOO_EARLY)
    # Nothing new goes there: not more than before, or only a list of rights to give back.
    nothing_new = not grows(old, new) if old is not None else not new.shares and not new.ordinals and new.returning
    need(nothing_new or world.standing[new.region].health is H.HEALTHY, Code.REGION_UNAVAILABLE)
    need(nothing_new or may_hold(world, workload.spec, new.region), Code.RESIDENCY)
    need(nothing_new or is_near(world, workload.spec, new.region), Code.LATENCY)
    if new.purpose is AssignmentPurpose.RECOVERY:
        budget = world.things.get(("RecoveryBudget", workload.spec.recovery.budget))
        if budget is None:
            deny(Code.NOT_FOUND)
        need(new.region in budget.spec.regions, Code.CONTRADICTORY)
        need(not budget.spec.tenants or new.tenant in budget.spec.tenants, Code.CONTRADICTORY)
    known = [names for uid, names in world.named.items() if world.workloads[uid].meta.tenant == new.tenant]
    need(all(share.template in set().union(*known) for share in new.shares), Code.NOT_FOUND)
    if new.disruption > (old.disruption if old else 0):
        others = shared_out(world, new.workload, new.uid) if new.purpose is AssignmentPurpose.SERVING else 0
        need(others + new.disruption <= workload.spec.disruption_max, Code.DISRUPTION)
    need_identities(world, workload, new)
    store(world, workload, replace(new, uid=new.uid or world.next), case.at, renew=True)


def each(named: Named) -> list[int]:
    """Every ordinal that is named."""
    return [n for one in named for n in ((one,) if isinstance(one, int) else range(*one))]


def need_shape(command: c.Assign, workload: Workload) -> None:
    counts, names = [s.count for s in command.shares], [s.template for s in command.shares]
    need(min([command.disruption, *counts]) >= 0, Code.MALFORMED)
    need(sum(counts) <= 100_000 and len(each(command.ordinals)) <= 100_000, Code.MALFORMED)
    need(len(set(each(command.ordinals))) == len(each(command.ordinals)), Code.MALFORMED)
    need(len(set(names)) == len(names) and command.stage is not AssignmentStage.ENDED, Code.MALFORMED)
    recovery = command.purpose is AssignmentPurpose.RECOVERY
    need(recovery or command.stage is AssignmentStage.ACTIVE, Code.CONTRADICTORY)
    gang = workload.spec.gang
    need(gang is None or all(count % gang.size == 0 for count in counts), Code.CONTRADICTORY)
    need(not recovery or workload.spec.recovery.budget, Code.CONTRADICTORY)


def proposed(world: World, command: c.Assign, workload: Workload, old: Assignment | None, case: Case) -> Assignment:
    spec, meta = workload.spec, workload.meta
    shares = tuple(sorted((s for s in command.shares if s.count), key=lambda share: share.template))
    others = [a for a in world.assigned(meta.uid) if a.region == command.region and a.purpose is not command.purpose]
    listed = [*each(command.ordinals), *(ordinal for a in others for ordinal in each(a.ordinals))]
    asks_back = spec.exclusive and command.purpose is AssignmentPurpose.SERVING
    held = sorted(n for (uid, n), holder in world.rights.items() if (uid, holder) == (meta.uid, command.region))
    return Assignment(
        uid=old.uid if old else 0, revision=old.revision if old else 0,
        workload=meta.uid, workload_name=meta.name, tenant=meta.tenant,
        region=command.region, purpose=command.purpose, stage=command.stage, generation=meta.generation, shares=shares,
        accounts=payers(world, workload, command.region, command.purpose, case.at), priority_class=spec.priority_class,
        disruption=command.disruption, exclusive=spec.exclusive, ordinals=ranges_of(command.ordinals),
        right_until=old.right_until if old else 0, jurisdictions=spec.placement.jurisdictions, batch=spec.batch,
        returning=ranges_of(n for n in held if n not in listed) if asks_back else (),
        deadline=meta.created + spec.deadline if spec.deadline else 0, fails_late=spec.on_deadline is OnDeadline.FAIL,
        stops_cut=spec.on_disconnect is OnDisconnect.STOP, gang=spec.gang,
    )  # fmt: skip


def is_renewal(world: World, workload: Workload, old: Assignment, at: int) -> bool:
    """Saying the same again means something once half of a lease is over, in a region that is heard."""
    leased = workload.spec.failover is FailoverMode.LEASED and old.ordinals
    if not leased or world.standing[old.region].health is not H.HEALTHY:
        return False
    lease, left = world.settings.right_lease, old.right_until - at
    return left < lease and 2 * left <= lease


def grows(old: Assignment, new: Assignment) -> bool:
    before = {share.template: share.count for share in old.shares}
    more = any(share.count > before.get(share.template, 0) for share in new.shares)
    return (
        more or old.stage is not new.stage or any(ordinal not in each(old.ordinals) for ordinal in each(new.ordinals))
    )


def need_identities(world: World, workload: Workload, new: Assignment) -> None:
    if not workload.spec.exclusive:
        need(not new.ordinals, Code.CONTRADICTORY)
        return
    need(all(0 <= ordinal < workload.spec.replicas for ordinal in each(new.ordinals)), Code.MALFORMED)
    need_covered(new)
    held = [world.rights.get((new.workload, ordinal)) == new.region for ordinal in each(new.ordinals)]
    need(all(held), Code.RIGHT_HELD)
    for ordinal in each(new.ordinals):
        others = [a for a in world.assigned(new.workload) if a.uid != new.uid]
        need(all(ordinal not in each(a.ordinals + a.returning) for a in others), Code.CONTRADICTORY)


def need_covered(new: Assignment) -> None:
    """What runs and is exclusive has an identity each."""
    runs = new.exclusive and new.stage is AssignmentStage.ACTIVE
    need(not runs or sum(s.count for s in new.shares) <= len(each(new.ordinals)), Code.CONTRADICTORY)


def store(world: World, workload: Workload, new: Assignment, at: int, *, renew: bool = False) -> None:
    """Keep it, and the latest end of its leases that its region was ever told."""
    if renew:
        until = 0
        if workload.spec.failover is FailoverMode.LEASED and (new.ordinals or new.returning):
            renewed = new.ordinals and world.standing[new.region].health is H.HEALTHY
            until = at + world.settings.right_lease if renewed else new.right_until
        new = replace(new, right_until=until)
    world.assignments[new.uid] = replace(new, revision=world.next)
    if new.right_until and (new.ordinals or new.returning):
        key = (new.workload, new.region)
        world.told[key] = max(world.told.get(key, 0), new.right_until)
    world.named[new.workload].update((share.template, None) for share in new.shares)


def activate(world: World, command: c.Activate, case: Case) -> None:
    standby = found(world, command.assignment)
    workload = world.workloads[standby.workload]
    need(standby.stage is not AssignmentStage.ACTIVE, Code.ALREADY)
    need(workload.meta.deletion is None and standby.stage is AssignmentStage.STANDBY, Code.WRONG_PHASE)
    need(is_any_lost(world), Code.TOO_EARLY)
    need(world.standing[standby.region].health in (H.HEALTHY, H.SUSPECT), Code.REGION_UNAVAILABLE)
    active = replace(standby, stage=AssignmentStage.ACTIVE)
    need_covered(active)
    store(world, workload, active, case.at, renew=True)


def end_assignment(world: World, command: c.EndAssignment, case: Case) -> None:
    assignment = found(world, command.assignment)
    need(assignment.stage is not AssignmentStage.ENDED, Code.ALREADY)
    ended = replace(assignment, stage=AssignmentStage.ENDED, shares=(), disruption=0, revision=world.next)
    world.assignments[assignment.uid] = ended


def remove_assignment(world: World, command: c.RemoveAssignment, case: Case) -> None:
    assignment = found(world, command.assignment)
    need_joined(world, assignment.region, case)
    need(assignment.stage is AssignmentStage.ENDED, Code.WRONG_PHASE)
    templates = [template for template, _ in command.done]
    need(len(templates) <= 16 and templates == sorted(set(templates)), Code.MALFORMED)
    need(all(count > 0 for _, count in command.done), Code.MALFORMED)
    uid, region = assignment.workload, assignment.region
    drop_assignment(world, assignment.uid)
    keep_done(world, uid, [(template, count) for template, count in command.done if template in world.named[uid]])
    for ordinal in each(assignment.ordinals + assignment.returning):
        drop_right(world, (uid, ordinal))
    if world.workloads[uid].meta.deletion is not None and all(a.region != region for a in world.assigned(uid)):
        drop_finalizer(world, uid, region, world.next)


def release_finalizer(world: World, command: c.ReleaseFinalizer, case: Case) -> None:
    """Not before its deadline, and only a lost region's; never of identities."""
    workload = world.workloads.get(command.workload)
    held = [f for f in workload.meta.finalizers if f.owner == f"region/{command.region}"] if workload else []
    if workload is None or not held:
        deny(Code.NOT_FOUND)
    need(case.at >= held[0].deadline, Code.TOO_EARLY)
    need(not workload.spec.exclusive, Code.RIGHT_HELD)
    need(world.standing[command.region].health is H.LOST, Code.NOT_OWNER)
    pauses = [o for o in world.overrides.values() if o.action is OverrideAction.PAUSE_REPAIR and o.ends > case.at]
    need(not any(o.region in ("", command.region) for o in pauses), Code.PAUSED)
    for one in world.assigned(command.workload):
        if one.region == command.region:
            drop_assignment(world, one.uid)
    drop_finalizer(world, command.workload, command.region, world.next)


def adopt(world: World, command: c.Adopt, case: Case) -> None:
    recovered = found(world, command.assignment)
    workload = world.workloads[recovered.workload]
    need(recovered.purpose is AssignmentPurpose.RECOVERY, Code.ALREADY)
    need(workload.meta.deletion is None and recovered.stage is AssignmentStage.ACTIVE, Code.WRONG_PHASE)
    others = [a for a in world.assigned(recovered.workload) if a.region == recovered.region]
    need(all(a.purpose is not AssignmentPurpose.SERVING for a in others), Code.EXISTS)
    shared = shared_out(world, recovered.workload) + recovered.disruption
    need(not recovered.disruption or shared <= workload.spec.disruption_max, Code.DISRUPTION)
    accounts = payers(world, workload, recovered.region, AssignmentPurpose.SERVING, case.at)
    store(world, workload, replace(recovered, purpose=AssignmentPurpose.SERVING, accounts=accounts), case.at)


# Escrow


def offer_grant(world: World, command: c.OfferGrant, case: Case) -> None:
    need_amount(command.target)
    need_amount(command.protected)
    target, protected = command.target, command.protected
    key = (command.region, command.account)
    old = world.grants.get(key)
    need(1 <= command.weight <= 1_000, Code.MALFORMED)
    said = target, protected, command.ends, command.weight
    need(old is None or (old.target, old.protected, old.ends, old.weight) != said, Code.ALREADY)
    need(command.region in world.standing, Code.NOT_FOUND)
    health = world.standing[command.region].health
    raises = bool(first_exceeded(target, old.target if old else ZERO))
    need(health is not H.RETIRED and not (health is H.LOST and raises), Code.REGION_UNAVAILABLE)
    prolongs = old is not None and command.ends > old.ends and target != ZERO
    if old is None or raises or prolongs or has_limit(world, command.account, command.region, case.at):
        limit, shield, latest = limit_of(world, command.account, command.region, case.at)
    else:
        limit, shield, latest = ZERO, ZERO, case.at + world.settings.grant_life
    need(case.at < command.ends <= latest, Code.EXPIRED)
    need(old is None or len(old.waiting) < 64, Code.TOO_MANY_IN_FLIGHT)
    need(not first_exceeded(protected, target), Code.CONTRADICTORY)
    if raises:
        charged = world.charged(command.account, command.region)
        before = old.charged if old else ZERO
        after = add(subtract(charged, before), elementwise_max(before, target))
        need(not first_exceeded(after, limit), Code.OVER_QUOTA)
    if first_exceeded(protected, old.protected if old else ZERO):
        others = [g.protected for (r, a), g in world.grants.items() if a == command.account and r != command.region]
        need(not first_exceeded(add(protected, total(others)), shield), Code.OVER_QUOTA)
    lent = world.grants.setdefault(key, Lent(world.next, acknowledged=world.spent[command.region]))
    lent.targets[max(lent.targets, default=world.spent[command.region]) + 1] = target
    lent.ends, lent.protected, lent.weight = command.ends, protected, command.weight


def acknowledge_grant(world: World, command: c.AcknowledgeGrant, case: Case) -> None:
    need_joined(world, case.name, case)
    need_amount(command.settled)
    version, settled = command.version, command.settled
    need(version > 0, Code.MALFORMED)
    lent = world.grants.get((case.name, command.account))
    if lent is None:
        latest = ending(world, command.account, case.name, case.at)
        need(settled != ZERO, Code.ALREADY)
        lent = world.grants[case.name, command.account] = Lent(world.next, {0: ZERO}, latest)
    if version <= lent.acknowledged:
        higher = first_exceeded(settled, lent.settled)
        is_later = case.session != lent.session or command.position > lent.position
        later = version == lent.acknowledged and is_later
        need(later if higher else version == lent.version and settled != lent.settled, Code.ALREADY)
    if version == lent.version or version > lent.acknowledged:
        need(not first_exceeded(lent.targets.get(version, ZERO), settled), Code.CONTRADICTORY)
    if version > lent.version:
        # Never offered here: the region is told the target again, under a version that it has not.
        lent.targets = {version: settled, version + 1: lent.target}
    before = lent.position if lent.session == case.session else 0
    lent.acknowledged, lent.settled, lent.position = version, settled, max(before, command.position)
    lent.session = case.session
    over = command.account.startswith("emergency/") and not has_limit(world, command.account, case.name, case.at)
    if over and lent.charged == ZERO and not lent.waiting:
        del world.grants[case.name, command.account]
    kind, _, name = command.account.partition("/")
    owner = {"quota": "Quota", "reclaimable": "Quota", "recovery": "RecoveryBudget"}.get(kind)
    if owner and (owner, name) not in world.things and lent.charged == ZERO and not lent.waiting:
        world.forget(case.name, command.account)
