"""What controllers, regions and operators would do next with what regions are given, and how often what happens."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import ABSENT, PRESENT
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument, PolicyStage
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.region_reports import Failing, Nodes, RegionSummary, TemplateCounts, WorkloadReport
from holdfast.core.model.values.ranges import contains, first_of, numbers, ranges_of
from holdfast.core.model.values.resources import elementwise_max
from holdfast.core.platform import commands as c
from tests.properties.platform.intents import (
    BETA,
    DAY,
    NOWHERE,
    PLANNERS,
    TENANTS,
    US,
    Idle,
    about_servers,
    amount,
    can,
    come_back,
    delete_object,
    delete_workload,
    finalise,
    fitting,
    house_keeping,
    one_in,
    pick,
    place,
    put_object,
    put_workload,
    region,
    report,
    speak,
    workload,
)
from tests.properties.platform.program import Program
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, cpu

H = RegionHealth


# Assignments and rights


def assign(p: Program) -> None:
    uid = workload(p)
    w, where = p.world.workloads.get(uid), place(p, uid)
    digests = sorted(p.world.named.get(uid, {"00"}))
    if one_in(p, 12):
        digests = sorted(set().union(*p.world.named.values())) or ["00"]
    recovery = bool(w and w.spec.recovery.budget and one_in(p, 3)) or one_in(p, 20)
    mine = [n for (u, n), holder in p.world.rights.items() if (u, holder) == (uid, where)]
    purpose = AssignmentPurpose.RECOVERY if recovery else AssignmentPurpose.SERVING
    others = [a for a in p.world.assigned(uid) if (a.region, a.purpose) != (where, purpose)]
    taken = [ordinal for a in others for ordinal in a.ordinals]
    ordinals = sorted(set(mine) - set(taken)) if w and w.spec.exclusive else []
    if one_in(p, 12):
        ordinals = p.chance.sample(range(5), 2)
    if w is None or not w.spec.exclusive:
        counts = [p.chance.randrange(3) for _ in digests]
    else:
        counts = [len(ordinals) - int(one_in(p, 4))] + [0] * (len(digests) - 1)
    if w is not None and w.spec.gang is not None and sum(counts) != 1:
        counts = [count * w.spec.gang.size for count in counts]
    shares = tuple(Share(digest, max(count, 0)) for digest, count in zip(digests, counts, strict=True))
    stage = AssignmentStage.STANDBY if recovery and p.chance.randrange(4) else AssignmentStage.ACTIVE
    share = p.chance.randrange(2 if p.chance.randrange(4) else 4)
    command = c.Assign(uid, where, purpose, stage, shares, tuple(ordinals), share)
    actor = pick(p, PLANNERS, "")
    p.send(actor, command)
    if one_in(p, 5):
        p.bench.later(p.chance.choice((0, 40_000)))
        p.send(actor, command)


def stand_by(p: Program) -> None:
    """Room for recovery, where the budget holds it."""
    uid = workload(p, lambda w: w.spec.recovery.budget)
    where = pick(p, ("eu", "us"), "")
    digest = pick(p, sorted(p.world.named.get(uid, {"00"})), "")
    share = Share(digest, p.chance.randrange(1, 3))
    p.send(
        PLANNERS[2],
        c.Assign(uid, where, AssignmentPurpose.RECOVERY, AssignmentStage.STANDBY, (share,), (), int(one_in(p, 6))),
    )


def hold(p: Program) -> None:
    """Rights to identities, and their assignment: what controllers do in one go."""
    uid = workload(p, lambda w: w.spec.exclusive)
    w, where = p.world.workloads.get(uid), place(p, uid)
    if w is None or not w.spec.exclusive:
        p.send(PLANNERS[0], c.GrantRight(uid, 0, where))
        return
    free = [n for n in range(w.spec.replicas) if (uid, n) not in p.world.rights]
    some = free[: p.chance.randrange(1, 4)]
    if one_in(p, 2):
        p.send(PLANNERS[0], c.GrantRight(uid, ranges_of(some), where))
    for ordinal in some:
        p.send(PLANNERS[0], c.GrantRight(uid, ordinal, where))
    mine = [n for (u, n), holder in p.world.rights.items() if (u, holder) == (uid, where) and n < w.spec.replicas]
    listed = [n for a in p.world.assigned(uid) if a.purpose is AssignmentPurpose.RECOVERY for n in numbers(a.ordinals)]
    ordinals = tuple(n for n in sorted(mine) if n not in listed)
    share = Share(template_digest(w.spec.template), len(ordinals))
    p.send(PLANNERS[0], c.Assign(uid, where, AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, (share,), ordinals))


def move_right(p: Program) -> None:
    """A right leaves a region: by its word, by a lapsed lease, by a person's word."""
    key = fitting(p, p.world.rights, lambda holder: True, (NOWHERE, 0))
    holder = p.world.rights.get(key, "eu")
    what = p.chance.randrange(4)
    if what == 0:
        rows = [a for a in p.bench.state.assignments.values() if (a.workload, a.region) == (key[0], holder)]
        asked = [a.revision for a in rows if contains(a.returning, key[1])] or [a.revision for a in rows] or [0]
        seen = asked[0] if p.chance.randrange(5) else asked[0] - (1 << 20)
        others = [n for a in rows if p.chance.randrange(5) for n in numbers(a.returning) if n != key[1]]
        ordinals = (key[1], *others, *(() if p.chance.randrange(20) else (0, 1)))
        speak(p, holder if p.chance.randrange(5) else region(p), c.ReleaseRights(key[0], ordinals, seen))
    elif what == 1:
        where = holder if p.chance.randrange(5) else region(p)
        p.send(
            pick(p, (ROOT, ROOT, ROOT, US, BETA), ""),
            c.AttestRight(*key, where, "no power" if p.chance.randrange(6) else " "),
        )
    else:
        lost = [k for k, there in p.world.rights.items() if p.world.standing[there].health is H.LOST]
        key = pick(p, lost, key)
        others = [n for uid, n in p.world.rights if uid == key[0] and n != key[1] and one_in(p, 3)]
        p.send("controller/failover", c.GrantRight(key[0], (key[1], *others), place(p, key[0])))


def move_on(p: Program) -> None:
    """An assignment goes on: activated, ended, removed, adopted."""
    rows = p.world.assignments
    what = p.chance.randrange(7)
    if what == 0:
        p.send(
            "controller/failover", c.Activate(fitting(p, rows, lambda a: a.stage is AssignmentStage.STANDBY, NOWHERE))
        )
    elif what == 1:
        ready = fitting(
            p, rows, lambda a: a.purpose is AssignmentPurpose.RECOVERY and a.stage is AssignmentStage.ACTIVE, NOWHERE
        )
        p.send("controller/failover", c.Adopt(ready))
    elif what < 4:
        p.send(
            pick(p, PLANNERS, ""),
            c.EndAssignment(fitting(p, rows, lambda a: a.stage is not AssignmentStage.ENDED, NOWHERE)),
        )
    else:
        uid = fitting(p, rows, lambda a: a.stage is AssignmentStage.ENDED, NOWHERE)
        names = sorted(p.world.named.get(rows[uid].workload, ())) if uid in rows else ["00"]
        done = tuple((name, p.chance.choice((1, 4, 0 if one_in(p, 9) else 2))) for name in names if one_in(p, 2))
        speak(p, rows[uid].region if uid in rows else "eu", c.RemoveAssignment(uid, done))


def fail_over(p: Program) -> None:
    """A region is lost, what stands by elsewhere runs, its leases lapse, and it may be heard again."""
    where = region(p, H.HEALTHY, H.SUSPECT)
    judged(p, where, H.SUSPECT)
    judged(p, where, H.LOST)
    for uid, assignment in sorted(p.world.assignments.items()):
        if assignment.stage is AssignmentStage.STANDBY and assignment.region != where and p.chance.randrange(4):
            p.send("controller/failover", c.Activate(uid))
            if one_in(p, 2):
                p.send("controller/failover", c.Adopt(uid))
    p.bench.later(p.chance.choice((10_000, 90_000, 200_000)))
    for key, holder in sorted(p.world.rights.items()):
        if holder == where and one_in(p, 2):
            p.send("controller/failover", c.GrantRight(*key, place(p, key[0])))
    if one_in(p, 2):
        be_heard(p, where)
        judged(p, where, H.HEALTHY)


def shorten(p: Program) -> None:
    """Leases become shorter while a region that is cut off still goes by the longer ones."""
    key = fitting(p, p.world.rights, lambda holder: can("lease"), (NOWHERE, 0))
    if not can("lease"):
        raise Idle
    mine = [a for a in p.world.assigned(key[0]) if contains(a.ordinals, key[1]) and a.stage is AssignmentStage.ACTIVE]
    p.send(ROOT, Configure(replace(p.world.settings, right_lease=5_000)))
    for a in mine:
        p.send(
            PLANNERS[0],
            c.Assign(a.workload, a.region, a.purpose, a.stage, (), first_of(a.ordinals, p.chance.randrange(2))),
        )
        p.send(ROOT, c.DeclareLost(a.region, "cut"))
        p.bench.later(40_000)
        p.send("controller/failover", c.GrantRight(*key, place(p, key[0])))
    p.send(ROOT, Configure(replace(p.world.settings, right_lease=60_000)))


# Escrow


def account(p: Program) -> str:
    emergencies = [uid for uid, o in p.world.overrides.items() if o.action is OverrideAction.EMERGENCY_QUOTA]
    if emergencies and one_in(p, 3):
        return f"emergency/{p.chance.choice(emergencies)}"
    accounts = ["quota/acme", "quota/acme", "quota/beta", "recovery/reserve", "recovery/reserve"]
    shares = ["reclaimable/acme", "reclaimable/beta"] if one_in(p, 3) else []
    return pick(p, accounts + shares, "")


def offer(p: Program) -> None:
    paid, where = account(p), region(p, H.HEALTHY)
    target = amount(p, 5)
    protected = pick(p, (cpu(500), cpu(0), cpu(0), cpu(0)), cpu(0)) if paid.startswith("quota") else cpu(0)
    life = p.chance.choice((HOUR // 2, HOUR // 2, HOUR, 11 * HOUR))
    weight = pick(p, (1, 1, 7, 1_001, 0), 1)
    p.send("controller/grant", c.OfferGrant(paid, where, target, p.at + life, protected, weight))


def call_back(p: Program) -> None:
    """Less than before, also of what is ended."""
    where, paid = fitting(p, p.world.grants, lambda lent: True, ("eu", "quota/acme"))
    p.send("controller/grant", c.OfferGrant(paid, where, cpu(0), p.at + HOUR // 4))


def acknowledge_grant(p: Program) -> None:
    """Out of order, late, and of what is used: as a region would settle."""
    where, paid = fitting(p, p.world.grants, lambda lent: lent.waiting, ("eu", "quota/acme"))
    lent = p.world.grants.get((where, paid))
    if lent is None or one_in(p, 40):
        # As if this log had once lent it, and was restored since.
        unknown = p.chance.choice((paid, paid, account(p), "quota/nobody", "gold/acme", "quota/No Name"))
        speak(p, where, c.AcknowledgeGrant(unknown, p.chance.choice((0, 1, 7)), amount(p), p.chance.randrange(9)))
        return
    behind = p.chance.choice((0, 0, 0, 0, 1, 2, 2, lent.version, -1 if one_in(p, 4) else 0))
    version = max(lent.version - behind, 0)
    settled = lent.targets.get(version, cpu(0))
    if one_in(p, 3):
        settled = elementwise_max(settled, lent.settled)
    if one_in(p, 12):
        settled = amount(p)
    speak(p, where, c.AcknowledgeGrant(paid, version, settled, lent.position + p.chance.choice((0, 0, 1))))


# What regions say


def tell(p: Program) -> None:
    """Of workloads and of itself, from a position that is new, old, or the same."""
    where = region(p)
    standing = p.world.standing.get(where)
    known = [place[1:] for (_, there), (place, _) in p.world.observed.items() if there == where]
    before, at = max(known, default=(0, 0))
    position, at = before + p.chance.choice((1, 1, 1, 0, -1)), at + p.chance.choice((1, 0, -1))
    uids = sorted(
        {*p.chance.sample(sorted(p.world.workloads), min(2, len(p.world.workloads))), *[NOWHERE] * one_in(p, 6)}
    )
    digests = {uid: template_digest(one.spec.template) for uid, one in p.world.workloads.items()}
    done = p.chance.choice((0, 0, 1, 5, -1 if one_in(p, 30) else 0))
    fails = Failing("exit", p.chance.randrange(-one_in(p, 20), 3), "n1", "exit code 3")
    failing = (fails,) * (17 if one_in(p, 30) else p.chance.randrange(2))
    failed, why = p.chance.choice(((0, ""), (0, ""), (2, "exit"), (-1, "") if one_in(p, 30) else (1, "x" * 9)))
    ready = p.chance.randrange(-one_in(p, 30), 3)
    seen = [
        WorkloadReport(uid, 1, (TemplateCounts(digests.get(uid, "00"), 2, ready, 0, done, failed, why),), (), failing)
        for uid in uids
    ]
    if seen and one_in(p, 12):
        seen.append(seen[0])
    milli = p.chance.choice((200, 1_000, 8_000, 16_000))
    nodes = Nodes("small", (), (), (), (), 1, cpu(milli), cpu(milli // 2), (cpu(milli),), (cpu(milli // 2),))
    summary = RegionSummary((nodes,) * p.chance.choice((1, 1, 2, 300 if one_in(p, 9) else 1))) if one_in(p, 2) else None
    speak(p, where, c.Report(where, position if standing else 1, tuple(seen), summary, at))


def overflow(p: Program) -> None:
    """What does not fit goes back."""
    if one_in(p, 6):
        p.send(ROOT, Configure(replace(p.world.settings, rebalance_max=p.chance.choice((1, 1, 2, 100)))))
    rows = p.world.assignments
    uid = fitting(p, rows, lambda a: a.stage is AssignmentStage.ACTIVE and not a.exclusive and a.shares, NOWHERE)
    where = rows[uid].region if uid in rows else "eu"
    for _ in range(p.chance.randrange(1, 3)):
        speak(p, where, c.OfferBack(uid, p.chance.choice((1, 1, 2, 0, 9)), "x" * p.chance.choice((0, 9, 9, 9, 513))))


# Regions


def judged(p: Program, where: str, health: RegionHealth) -> None:
    p.send("controller/region-health", c.JudgeRegion(where, health, "as it is heard"))


def be_heard(p: Program, where: str) -> None:
    standing = p.world.standing.get(where)
    if standing is not None:
        p.bench.later(1)
        log = standing.log or f"log-{where}"
        position = standing.position + 1
        speak(p, where, c.Acknowledge(where, log, position, p.world.seq << 20, f"{position:016x}"))


def acknowledge(p: Program) -> None:
    where = region(p)
    standing = p.world.standing.get(where)
    if standing is None or p.chance.randrange(5):
        be_heard(p, where)
        return
    log = pick(p, (standing.log, f"log-{where}-other", ""), "")
    position = standing.position + p.chance.randrange(2)
    cursor = pick(p, (0, (p.world.seq + 1) << 20), 0)
    # Chosen by the place in the log: one more draw would change every program of every seed.
    digest = (DIGEST, "", DIGEST.upper(), DIGEST + "0", "no such digits..")[p.world.seq % 5]
    speak(p, where, c.Acknowledge(where, log, position, cursor, digest))


def judge_region(p: Program) -> None:
    where = region(p)
    health = p.world.standing[where].health if where in p.world.standing else H.LOST
    nexts = {H.HEALTHY: H.SUSPECT, H.SUSPECT: p.chance.choice((H.HEALTHY, H.LOST)), H.LOST: H.HEALTHY}
    if health is H.LOST and p.chance.randrange(4):
        be_heard(p, where)
    judged(p, where, pick(p, H, H.LOST) if one_in(p, 5) else nexts.get(health, H.HEALTHY))


def declare(p: Program) -> None:
    p.send(pick(p, (ROOT, ROOT, US), ""), c.DeclareLost(region(p, H.HEALTHY, H.SUSPECT), "" if one_in(p, 6) else "cut"))


def believe(p: Program) -> None:
    """Mostly of one that is wedged by what somebody said in its name; its own next word counts."""
    where = region(p, H.HEALTHY, H.SUSPECT, H.LOST)
    standing = p.world.standing.get(where)
    far = 10**9 + p.world.seq
    if standing and one_in(p, 2):
        speak(p, where, c.Acknowledge(where, standing.log, far, standing.cursor, DIGEST))
        speak(p, where, c.Report(where, far, (), RegionSummary(), far))
    p.send(pick(p, (ROOT, ROOT, US), ""), c.BelieveRegion(where, "" if one_in(p, 6) else "its token was stolen"))
    if one_in(p, 2):
        be_heard(p, where)


def retire(p: Program) -> None:
    where = region(p, H.LOST)
    p.send(pick(p, (ROOT, ROOT, US), ""), c.RetireRegion(where, "" if one_in(p, 6) else "switched off"))
    if one_in(p, 2):
        be_heard(p, where)
    if one_in(p, 3):
        come_back(p, where)
    go_on_retiring(p, where)
    come_back(p, where)


def go_on_retiring(p: Program, where: str | None = None) -> None:
    """Parts of a retirement, mostly as many as it takes."""
    name = where or region(p, H.RETIRED)
    for _ in range(p.chance.choice((1, 30, 30))):
        p.send("controller/retirement", c.ReleaseRetired(name if not one_in(p, 40) else "nowhere"))
        if name not in p.world.standing or not p.world.standing[name].unreleased:
            return


# How people steer


def override(p: Program) -> None:
    open_now = p.world.overrides
    if open_now and one_in(p, 2):
        uid = pick(p, open_now, NOWHERE)
        p.send(pick(p, (ROOT, ROOT, "controller/override", US), ""), EndOverride(uid, "over"))
        return
    action = pick(
        p,
        (
            OverrideAction.EMERGENCY_QUOTA,
            OverrideAction.EMERGENCY_QUOTA,
            OverrideAction.DECLARE_LOST,
            OverrideAction.PAUSE_REPAIR,
        ),
        OverrideAction.AVOID_ZONE,
    )
    where = pick(p, ("", "eu", "us"), "")
    tenant = pick(p, TENANTS[:2], "")
    facts = (
        (("cpu", p.chance.choice(("2000", "4000", "many"))), ("tenant", tenant))
        if action is OverrideAction.EMERGENCY_QUOTA
        else ()
    )
    ends = p.at + p.chance.choice((HOUR, HOUR, 2 * HOUR, 0, 30 * DAY, 60_000))
    reason = "" if one_in(p, 12) else "a launch"
    target = pick(p, ("", "eu", "us"), "") if can("declare") else where
    if action is OverrideAction.EMERGENCY_QUOTA:
        target = pick(p, ("", tenant, tenant), "eu")
    elif action is OverrideAction.PAUSE_REPAIR:
        target = "eu" if one_in(p, 8) else ""
    elif not one_in(p, 8):
        target = where or pick(p, ("eu", "us"), "")
    actor = pick(p, (ROOT, ROOT, US, BETA) if can("override") else (ROOT, ROOT, US), "")
    p.send(actor, OpenOverride(action, where, target, reason, ends, facts))


def policy(p: Program) -> None:
    known = [0, *p.world.policies]
    usable = [0, *(n for n, stage in p.world.policies.items() if stage is not PolicyStage.ROLLED_BACK)]
    what = p.chance.randrange(6)
    if what < 2:
        p.send(ROOT, publication(p))
    elif what < 5:
        revision = pick(p, known if one_in(p, 6) else usable, 0)
        scope = pick(p, ("", "acme", "beta", "gamma"), "")
        stage = pick(p, PolicyStage if one_in(p, 6) else (PolicyStage.CANARY, PolicyStage.ACTIVE), PolicyStage.CANARY)
        p.send(pick(p, (ROOT, ROOT, US, BETA), ""), c.ActivatePolicy(revision, region(p), scope, stage))
    else:
        taken = pick(p, p.world.policies if one_in(p, 3) else usable[1:], NOWHERE)
        p.send(
            pick(p, (ROOT, ROOT, ROOT, US), ""),
            c.RollBackPolicy(taken, pick(p, known if one_in(p, 4) else usable, 0), "" if one_in(p, 8) else "it packs"),
        )


def publication(p: Program) -> c.PublishPolicy:
    """One of two policies, mostly well formed, mostly another than before."""
    name = pick(p, ("packed", "packed", "even"), "") if not one_in(p, 12) else pick(p, ("built-in", "4.1"), "")
    score = pick(p, ("packing", "balance", "acme/green") if not one_in(p, 12) else ("packng", "acme/", ""), "")
    document = PolicyDocument(scores=((score, 5_000 if one_in(p, 12) else p.chance.randrange(4)),))
    if one_in(p, 3):
        of_class = pick(p, ("", "normal") if not one_in(p, 3) else ("no-such-class",), "")
        document = replace(document, freshness=((of_class, 0 if one_in(p, 6) else 500),))
    read = [revision for revision, (named, _) in p.world.published.items() if named == name]
    if read and one_in(p, 3):
        document = p.world.published[read[-1]][1]
    expect = pick(p, (*read[-2:], ABSENT, PRESENT), 0) if one_in(p, 3) else 0
    return c.PublishPolicy(name, document, expect)


#: What may happen next, with how often.
INTENTS: tuple[tuple[int, Callable[[Program], None]], ...] = (
    (8, put_object), (3, delete_object), (3, house_keeping), (8, put_workload), (3, delete_workload), (4, finalise),
    (3, report), (12, assign), (5, stand_by), (8, hold), (6, move_right), (10, move_on), (3, fail_over), (1, shorten),
    (10, offer), (3, about_servers),
    (3, call_back), (12, acknowledge_grant), (4, acknowledge), (4, judge_region), (1, declare), (2, retire),
    (1, go_on_retiring), (1, believe),
    (2, come_back), (5, override), (5, policy), (6, tell), (5, overflow),
)  # fmt: skip
