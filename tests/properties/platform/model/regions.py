"""The simple platform: rights to identities, what is known of regions, and which policy is valid where."""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.policies import OverrideAction, PolicyStage
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import FailoverMode, Workload
from holdfast.core.model.records.assignments import AssignmentStage, Share
from holdfast.core.model.values.ranges import as_named, ranges_of
from holdfast.core.model.values.settings import with_drift
from holdfast.core.platform import commands as c
from holdfast.core.platform import limits
from tests.properties.platform.model.grants import each, wanted
from tests.properties.platform.model.objects import drop_finalizer, is_near, may_hold, need_joined, need_region
from tests.properties.platform.model.platform import Case, World, deny, drop_assignment, drop_right, keep_done, need

H = RegionHealth


# Rights


def grant_right(world: World, command: c.GrantRight, case: Case) -> None:
    workload = wanted(world, command.workload)
    need(workload.meta.deletion is None, Code.WRONG_PHASE)
    need(workload.spec.exclusive, Code.CONTRADICTORY)
    named = each(as_named(command.ordinals))
    need(all(0 <= ordinal < workload.spec.replicas for ordinal in named), Code.MALFORMED)
    need(0 < len(named) <= 5_000, Code.TOO_LARGE)
    need(len(set(named)) == len(named), Code.MALFORMED)
    need(command.region in world.standing, Code.NOT_FOUND)
    need(world.standing[command.region].health is H.HEALTHY, Code.REGION_UNAVAILABLE)
    need(may_hold(world, workload.spec, command.region), Code.RESIDENCY)
    need(is_near(world, workload.spec, command.region), Code.LATENCY)
    keys = [(command.workload, ordinal) for ordinal in sorted(named)]
    need(any(world.rights.get(key) != command.region for key in keys), Code.ALREADY)
    taken = [key for key in keys if world.rights.get(key) not in (None, command.region)]
    # Who holds some of them is asked one region after the other.
    for key in sorted(taken, key=lambda key: world.rights[key]):
        need_lapsed(world, workload, [one for one in taken if world.rights[one] == world.rights[key]], case)
    for key in keys:
        if key in taken:
            free(world, key)
        world.rights[key] = command.region


def need_lapsed(world: World, workload: Workload, keys: list[tuple[int, int]], case: Case) -> None:
    """Of rights that one region holds: it is lost, and can act on none of them any more."""
    standing, settings = world.standing[world.rights[keys[0]]], world.settings
    need(workload.spec.failover is FailoverMode.LEASED and standing.health is H.LOST, Code.RIGHT_HELD)
    waited = max(standing.since, world.term_at) + with_drift(settings.right_lease, settings)
    lapses = max(waited, world.told.get((keys[0][0], world.rights[keys[0]]), 0))
    lease, fence = max(settings.session_lease, standing.times[0]), max(settings.fence_time, standing.times[2])
    rest = with_drift(lease * 2 + fence, settings) + settings.right_margin
    need(case.at >= lapses + rest, Code.TOO_EARLY)


def free(world: World, key: tuple[int, int]) -> None:
    """The right is nobody's, and no assignment lists its ordinal or counts on it."""
    drop_right(world, key)
    for a in world.assigned(key[0]):
        if key[1] in each(a.ordinals + a.returning):
            ordinals = ranges_of(ordinal for ordinal in each(a.ordinals) if ordinal != key[1])
            returning = ranges_of(ordinal for ordinal in each(a.returning) if ordinal != key[1])
            shares = cut(a.shares, len(each(ordinals))) if a.stage is AssignmentStage.ACTIVE else a.shares
            kept = replace(a, ordinals=ordinals, shares=shares, returning=returning, revision=world.next)
            world.assignments[a.uid] = kept


def cut(shares: tuple[Share, ...], most: int) -> tuple[Share, ...]:
    """The first `most` replicas, in the order of the shares."""
    all_of_them = [share.template for share in shares for _ in range(share.count)][:most]
    return tuple(Share(name, all_of_them.count(name)) for name in sorted(set(all_of_them)))


def release_rights(world: World, command: c.ReleaseRights, case: Case) -> None:
    need_joined(world, case.name, case)
    named = sorted(each(command.ordinals))
    need(0 < len(set(named)) <= 5_000, Code.TOO_LARGE)
    need(len(set(named)) == len(named), Code.MALFORMED)
    for ordinal in named:
        key = (command.workload, ordinal)
        need(key in world.rights, Code.NOT_FOUND)
        need(world.rights[key] == case.name, Code.NOT_OWNER)
    mine = [a for a in world.assigned(command.workload) if a.region == case.name]
    asked = {n for a in mine if a.revision >> 20 == command.seen >> 20 for n in each(a.returning)}
    asked |= {n for a in mine if a.stage is AssignmentStage.ENDED for n in each(a.ordinals + a.returning)}
    need({*named} <= asked, Code.STALE)
    for ordinal in named:
        free(world, (command.workload, ordinal))


def attest_right(world: World, command: c.AttestRight, case: Case) -> None:
    workload = wanted(world, command.workload)
    need(case.may_act_for(workload.meta.tenant), Code.WRONG_SCOPE)
    case.need_region(command.region)
    need(command.reason.strip() and len(command.reason) <= 1_000, Code.MALFORMED)
    key = (command.workload, command.ordinal)
    need(key in world.rights, Code.NOT_FOUND)
    need(world.rights[key] == command.region, Code.RIGHT_HELD)
    free(world, key)


# Regions


def need_log(world: World, log_id: str) -> None:
    need(0 < len(log_id) <= 256, Code.MALFORMED)
    need(log_id not in world.tombstones, Code.TOMBSTONED)


def join_region(world: World, command: c.JoinRegion, case: Case) -> bytes:
    need(case.name == command.region, Code.NOT_OWNER)
    need_log(world, command.log_id)
    need_region(world, command.region, case)
    need(len(command.address) <= 512 and command.address.isprintable(), Code.MALFORMED)
    times = command.session_lease, command.grace, command.fence_time
    need(not command.fence_time or command.grace >= world.settings.grace, Code.CONTRADICTORY)
    standing = world.standing[command.region]
    others = [other.log for name, other in world.standing.items() if name != command.region]
    need(not standing.unreleased, Code.IN_USE)
    before = f"{standing.session >> 20}.{standing.session & 0xFFFFF}".encode() if standing.log else b""
    if standing.log:
        need(standing.log == command.log_id, Code.DIVERGED)
        told = (standing.session, standing.address, standing.times)
        need(told != (case.session, command.address, times), Code.ALREADY)
    else:
        need(command.log_id not in others, Code.EXISTS)
        standing.log, standing.position, standing.cursor, standing.digest = command.log_id, 0, 0, ""
        if standing.health is H.RETIRED:
            standing.health = H.LOST if is_declared_lost(world, command.region, case.at) else H.HEALTHY
            standing.since = case.at
    standing.session, standing.heard, standing.address = case.session, case.at, command.address
    standing.times = times
    return before


def acknowledge(world: World, command: c.Acknowledge, case: Case) -> None:
    need(case.name == command.region, Code.NOT_OWNER)
    need_log(world, command.log_id)
    need_region(world, command.region, case)
    standing = world.standing[command.region]
    need(standing.log in ("", command.log_id), Code.DIVERGED)
    need_joined(world, command.region, case)
    need(command.cursor >> 20 <= world.seq, Code.MALFORMED)
    need(re.fullmatch("[0-9a-f]{16}", command.digest), Code.MALFORMED)
    need(command.position > standing.position, Code.ALREADY)
    need(command.cursor >= standing.cursor, Code.CONTRADICTORY)
    standing.position, standing.cursor, standing.heard = command.position, command.cursor, case.at
    standing.digest = command.digest


def judge_region(world: World, command: c.JudgeRegion, case: Case) -> None:
    need(command.region in world.standing, Code.NOT_FOUND)
    standing = world.standing[command.region]
    need(standing.health is not command.health, Code.ALREADY)
    steps = {(H.HEALTHY, H.SUSPECT), (H.SUSPECT, H.HEALTHY), (H.SUSPECT, H.LOST), (H.LOST, H.HEALTHY)}
    need((standing.health, command.health) in steps, Code.WRONG_PHASE)
    if command.health is H.HEALTHY:
        need(not is_declared_lost(world, command.region, case.at), Code.PAUSED)
    if standing.health is H.LOST:
        need(standing.heard > standing.since, Code.TOO_EARLY)
    standing.health, standing.since = command.health, case.at


def is_declared_lost(world: World, region: str, at: int) -> bool:
    """Whether a person holds that the region is lost, for now."""
    declared = [o for o in world.overrides.values() if o.action is OverrideAction.DECLARE_LOST and o.ends > at]
    return any(o.region in ("", region) and o.target in ("", region) for o in declared)


def need_word(world: World, command: c.BelieveRegion | c.DeclareLost | c.RetireRegion, case: Case) -> None:
    need(command.region in world.standing, Code.NOT_FOUND)
    case.need_whole_region(command.region)
    need(command.reason.strip() and len(command.reason) <= 1_000, Code.MALFORMED)


def believe_region(world: World, command: c.BelieveRegion, case: Case) -> None:
    need_word(world, command, case)
    standing = world.standing[command.region]
    need(standing.health is not H.RETIRED, Code.WRONG_PHASE)
    need(standing.position, Code.ALREADY)
    standing.position, standing.cursor, standing.digest = 0, 0, ""


def declare_lost(world: World, command: c.DeclareLost, case: Case) -> None:
    need_word(world, command, case)
    standing = world.standing[command.region]
    need(standing.health is not H.LOST, Code.ALREADY)
    need(standing.health is not H.RETIRED, Code.WRONG_PHASE)
    standing.health, standing.since = H.LOST, case.at


def retire_region(world: World, command: c.RetireRegion, case: Case) -> None:
    need_word(world, command, case)
    name, standing = command.region, world.standing[command.region]
    need(standing.health is not H.RETIRED, Code.ALREADY)
    if standing.log:
        world.tombstones.add(standing.log)
        standing.tombstones.append(standing.log)
    standing.health, standing.since, standing.log, standing.session = H.RETIRED, case.at, "", 0
    standing.address = ""
    world.summaries.pop(name, None)
    release_part(world, name)


def release_retired(world: World, command: c.ReleaseRetired, case: Case) -> None:
    need(command.region in world.standing, Code.NOT_FOUND)
    standing = world.standing[command.region]
    need(standing.health is H.RETIRED, Code.WRONG_PHASE)
    need(standing.unreleased > 0, Code.ALREADY)
    release_part(world, command.region)


def release_part(world: World, name: str) -> None:
    """So many workloads, the oldest first, with all that a region has of them; or grants, when no workload is left."""
    held = {a.workload for a in world.assignments.values() if a.region == name}
    held |= {uid for (uid, _), holder in world.rights.items() if holder == name}
    mine = sorted(held)[: limits.OBJECTS_MAX]
    room = limits.OBJECTS_MAX - len(mine) if len(mine) == len(held) else 0
    for assignment in [a for a in world.assignments.values() if a.region == name and a.workload in mine]:
        _, said = world.observed.get((assignment.workload, name), (0, None))
        drop_assignment(world, assignment.uid)
        if (assignment.workload, name) not in world.observed and said is not None:
            keep_done(world, assignment.workload, [(count.template, count.done) for count in said.counts])
    for key in [key for key, holder in world.rights.items() if holder == name and key[0] in mine]:
        drop_right(world, key)
    for grant in sorted(key for key in world.grants if key[0] == name)[:room]:
        del world.grants[grant]
    for uid, workload in sorted(world.workloads.items()):
        if uid in mine and any(f.owner == f"region/{name}" for f in workload.meta.finalizers):
            drop_finalizer(world, uid, name, 0)
    assigned = sum(a.region == name for a in world.assignments.values())
    rights = sum(holder == name for holder in world.rights.values())
    world.standing[name].unreleased = assigned + rights + sum(key[0] == name for key in world.grants)


# Policies

RANK = [PolicyStage.DRAFT, PolicyStage.CANARY, PolicyStage.ACTIVE]
BUILT_IN_SCORES = ["fragmentation", "packing", "emptiness", "balance", "near", "cost", "evenness", "warm", "load"]


def publish_policy(world: World, command: c.PublishPolicy, case: Case) -> None:
    document, name = command.document, command.name
    need(name[:1].isalpha() and name != "built-in", Code.MALFORMED)
    newest = max((revision for revision, said in world.published.items() if said[0] == name), default=0)
    again = newest and world.published[newest][1] == document
    need(not again or world.policies[newest] is PolicyStage.ROLLED_BACK, Code.ALREADY)
    for pairs in (document.scores, document.freshness):
        names = [name for name, _ in pairs]
        need(names == sorted(set(names)), Code.MALFORMED)
    for score, weight in document.scores:
        need(score in BUILT_IN_SCORES or 0 < score.find("/") < len(score) - 1, Code.MALFORMED)
        need(0 <= weight <= 1_000, Code.MALFORMED)
    need(all(age > 0 for _, age in document.freshness), Code.MALFORMED)
    for cls, _ in document.freshness:
        need(not cls or ("PriorityClass", cls) in world.things, Code.NOT_FOUND)
    world.policies[world.next] = PolicyStage.DRAFT
    world.published[world.next] = (name, document)
    named = sorted(revision for revision, said in world.published.items() if said[0] == command.name)
    for revision in named[:-10]:
        if revision not in world.validities.values():
            del world.policies[revision], world.published[revision]


def stage_of(world: World, revision: int) -> PolicyStage:
    stage = PolicyStage.ACTIVE if revision == 0 else world.policies.get(revision)
    return stage if stage else deny(Code.NOT_FOUND)


def raise_stage(world: World, revision: int, stage: PolicyStage) -> None:
    if revision:
        world.policies[revision] = max(world.policies[revision], stage, key=RANK.index)


def activate_policy(world: World, command: c.ActivatePolicy, case: Case) -> None:
    need(command.stage in (PolicyStage.CANARY, PolicyStage.ACTIVE), Code.MALFORMED)
    case.need_region(command.region)
    need(case.may_act_for(command.scope), Code.WRONG_SCOPE)
    need(command.region in world.standing, Code.NOT_FOUND)
    need(not command.scope or ("Tenant", command.scope) in world.things, Code.NOT_FOUND)
    stage = stage_of(world, command.revision)
    need(stage is not PolicyStage.ROLLED_BACK, Code.WRONG_PHASE)
    key = (command.region, command.scope)
    risen = command.revision and RANK.index(command.stage) > RANK.index(stage)
    need(world.validities.get(key) != command.revision or risen, Code.ALREADY)
    world.validities[key] = command.revision
    raise_stage(world, command.revision, command.stage)


def roll_back_policy(world: World, command: c.RollBackPolicy, case: Case) -> None:
    case.need_everywhere()
    need(command.reason.strip(), Code.MALFORMED)
    stage, after = stage_of(world, command.revision), stage_of(world, command.successor)
    need(command.revision and command.revision != command.successor, Code.CONTRADICTORY)
    need(stage is not PolicyStage.ROLLED_BACK, Code.ALREADY)
    need(after is not PolicyStage.ROLLED_BACK, Code.WRONG_PHASE)
    for key, revision in list(world.validities.items()):
        if revision == command.revision:
            world.validities[key] = command.successor
            raise_stage(world, command.successor, stage)
    world.policies[command.revision] = PolicyStage.ROLLED_BACK
