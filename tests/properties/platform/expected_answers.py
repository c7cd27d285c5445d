"""The simple platform put together: the answer it expects to an envelope, and whether the ledger holds the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin import audit, overrides, servers, sessions
from holdfast.core.ledger.builtin import log as builtin_log
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionStatus
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.resources import ZERO, Resources, amount_of
from holdfast.core.platform import commands as c
from holdfast.core.platform.state.tables import PlatformState
from tests.properties.oversized_values import excess_of
from tests.properties.platform.model import grants as lending
from tests.properties.platform.model import objects, regions, reports
from tests.properties.platform.model import platform as model
from tests.properties.platform.model.platform import Case, Denied, Lent, World, need
from tests.properties.platform.model.preconditions import FIRST, unexpected

PLANNERS = ("controller/assignment", "controller/rollout", "controller/failover")
MACHINES = ("region",)
SESSIONS = ("controller/node-health", "controller/sessions", "ledger")
PEOPLE = ("person", "tenant")

#: What each command does in the model, who may send it, and the right that a person needs.
COMMANDS: dict[type, tuple[Callable[[World, Any, Case], bytes | None], tuple[str, ...], Permission]] = {
    builtin_log.StartLog: (model.start_log, ("ledger",), Permission.OPERATE),
    builtin_log.StartTerm: (model.start_term, ("ledger",), Permission.OPERATE),
    builtin_log.RaiseLevel: (model.raise_level, ("ledger", "person"), Permission.OPERATE),
    builtin_log.RecordDigest: (model.record_digest, ("ledger",), Permission.OPERATE),
    audit.RecordDenials: (model.record_denials, ("ledger",), Permission.OPERATE),
    servers.AdmitServer: (model.servers, ("controller/servers",), Permission.OPERATE),
    servers.RevokeServer: (model.servers, ("person",), Permission.OPERATE),
    servers.ForgetServer: (model.servers, ("controller/servers",), Permission.OPERATE),
    sessions.OpenSession: (model.open_session, MACHINES, Permission.OPERATE),
    sessions.EndSession: (model.end_session, (*MACHINES, *SESSIONS), Permission.OPERATE),
    builtin_log.Configure: (model.configure, ("person",), Permission.OPERATE),
    overrides.OpenOverride: (model.open_override, ("person",), Permission.OVERRIDE),
    overrides.EndOverride: (model.end_override, ("person", "controller/override"), Permission.OVERRIDE),
    c.Put: (objects.put, ("person",), Permission.OPERATE),
    c.Delete: (objects.delete, ("person",), Permission.OPERATE),
    c.PutWorkload: (objects.put_workload, PEOPLE, Permission.WRITE),
    c.DeleteWorkload: (objects.delete_workload, PEOPLE, Permission.WRITE),
    c.ReportStatus: (objects.report_status, ("controller/status",), Permission.OPERATE),
    c.Assign: (lending.assign, PLANNERS, Permission.OPERATE),
    c.Activate: (lending.activate, ("controller/failover",), Permission.OPERATE),
    c.EndAssignment: (lending.end_assignment, PLANNERS, Permission.OPERATE),
    c.RemoveAssignment: (lending.remove_assignment, ("region",), Permission.OPERATE),
    c.ReleaseFinalizer: (lending.release_finalizer, ("controller/repair",), Permission.OPERATE),
    c.OfferBack: (reports.offer_back, ("region",), Permission.OPERATE),
    c.Adopt: (lending.adopt, ("controller/failover",), Permission.OPERATE),
    c.OfferGrant: (lending.offer_grant, ("controller/grant",), Permission.OPERATE),
    c.AcknowledgeGrant: (lending.acknowledge_grant, ("region",), Permission.OPERATE),
    c.GrantRight: (regions.grant_right, ("controller/assignment", "controller/failover"), Permission.OPERATE),
    c.ReleaseRights: (regions.release_rights, ("region",), Permission.OPERATE),
    c.AttestRight: (regions.attest_right, ("person",), Permission.BREAK_GLASS),
    c.JoinRegion: (regions.join_region, ("region",), Permission.OPERATE),
    c.Acknowledge: (regions.acknowledge, ("region",), Permission.OPERATE),
    c.Report: (reports.report, ("region",), Permission.OPERATE),
    c.BelieveRegion: (regions.believe_region, ("person",), Permission.BREAK_GLASS),
    c.JudgeRegion: (regions.judge_region, ("controller/region-health",), Permission.OPERATE),
    c.DeclareLost: (regions.declare_lost, ("person",), Permission.OVERRIDE),
    c.RetireRegion: (regions.retire_region, ("person",), Permission.BREAK_GLASS),
    c.ReleaseRetired: (regions.release_retired, ("controller/retirement",), Permission.OPERATE),
    c.PublishPolicy: (regions.publish_policy, ("person",), Permission.PROMOTE_POLICY),
    c.ActivatePolicy: (regions.activate_policy, ("person",), Permission.PROMOTE_POLICY),
    c.RollBackPolicy: (regions.roll_back_policy, ("person",), Permission.PROMOTE_POLICY),
}


@dataclass
class Verdict:
    """Accepted at a revision, refused with one of some codes, or a repeat of what was accepted at a revision."""

    revision: int = 0
    codes: tuple[Code, ...] = ()
    repeat: bool = False
    answer: bytes = b""

    @property
    def accepted(self) -> bool:
        return not self.codes and not self.repeat


def judge(world: World, envelope: Envelope[Any], at: int) -> Verdict:
    """What should be answered; the world is changed when that is "accepted", and only then."""
    handler, owners, right = COMMANDS[type(envelope.command)]
    revision = world.next
    try:
        case = model.case_of(world, envelope, at, owners, right)
        first = model.repeated(world, envelope, at)
        if first is not None:
            return Verdict(first, repeat=True, answer=world.answers.get(first, b""))
        excess = excess_of(envelope.command)
        need(excess is None, excess or Code.MALFORMED)
        wrong = unexpected(world, envelope)
        if wrong is not None:
            return Verdict(codes=_refused(world, envelope, case, handler, *wrong))
        answer: bytes = handler(world, envelope.command, case) or b""
    except Denied as denied:
        return Verdict(codes=denied.codes)
    world.seq += 1
    model.remember(world, envelope, at, revision)
    if answer:
        world.answers[revision] = answer
    return Verdict(revision, answer=answer)


def _refused(
    world: World, envelope: Envelope[Any], case: Any, handler: Any, code: Code, is_absent: bool
) -> tuple[Code, ...]:
    """What is answered to who expects something else: why not in any case, where that is not for them to know."""
    try:
        handler(deepcopy(world), envelope.command, case)
    except Denied as denied:
        before = (*FIRST, Code.NOT_FOUND) if is_absent else FIRST
        first = tuple(one for one in denied.codes if one in before)
        # Whether a record is too large is found before or after, by whoever counts its bytes.
        return first if len(first) == len(denied.codes) and Code.TOO_LARGE not in first else (*first, code)
    return (code,)


# Whether both hold the same


def differences(world: World, state: PlatformState) -> list[str]:
    """Every aspect in which the ledger is not what the model says."""
    return [
        f"{what}: the model has {mine}, the ledger {theirs}"
        for what, mine, theirs in aspects(world, state)
        if mine != theirs
    ]


TABLES = ("tenants", "quotas", "priority_classes", "principals", "tokens", "regions", "pools", "budgets")


def aspects(world: World, state: PlatformState) -> Iterator[tuple[str, Any, Any]]:
    facts = state.info
    yield "facts", (world.seq, world.log_id, world.term, world.settings), (
        facts.seq, facts.log_id, facts.term, facts.settings
    )  # fmt: skip
    for kind, table in zip(objects.KINDS, TABLES, strict=True):
        rows = dict(state.table(table).items())
        yield table, world.of_kind(kind), {k: replace(r, status=type(r.status)()) for k, r in rows.items()}
    yield "standing", world.standing, {name: standing_of(r.status) for name, r in state.regions.items()}
    yield "tombstones", world.tombstones, {log for log, _ in state.tombstones.items()}
    yield "workloads", steady(world.workloads), steady(dict(state.workloads.items()))
    yield "templates", set().union(*world.named.values()), {digest for digest, _ in state.templates.items()}
    named = {uid: list(names) for uid, names in world.named.items()}
    yield "templates of", named, {uid: list(names) for uid, names in state.templates_of.items()}
    yield "forgotten", dict(+world.spent), dict(state.grant_versions.items())
    mine = {uid: replace(a, revision=a.revision >> 20 << 20) for uid, a in state.assignments.items()}
    yield "assignments", world.assignments, mine
    yield (
        "observed",
        world.observed,
        {
            (uid, one.region): ((one.session, one.position, one.at), one.seen)
            for uid, many in state.workload_reports.items()
            for one in many
        },
    )
    before = {(uid, template): count for uid, rows in state.completed_before.items() for template, count in rows}
    yield "done before", world.done, before
    yield (
        "summaries",
        world.summaries,
        {n: ((s.session, s.position), s.at, s.summary) for n, s in state.summaries.items()},
    )
    yield (
        "overflows",
        world.overflows,
        {(uid, one.region): one for uid, many in state.overflows.items() for one in many},
    )
    yield "rebalances", world.rebalances, {n: (one.since, one.moved) for n, one in state.rebalances.items()}
    yield "grants", {k: grant_of(g) for k, g in world.grants.items()}, {
        (g.region, g.account): (
            g.uid, g.version, g.target, g.offered, g.ends, g.protected, g.weight, g.acknowledged, g.settled,
            len(g.offers),
        )
        for g in state.grants.values()
    }  # fmt: skip
    waiting: Counter[str] = Counter()
    for w in world.workloads.values():
        waiting[w.meta.tenant] += objects.waiting(w)
    yield "pending", dict(+waiting), dict(state.pending_of.items())
    yield "rights", world.rights, {key: held.region for key, held in state.rights.items()}
    leases = {(uid, region): until for uid, row in state.leases.items() for region, until in row}
    yield "told", {key: until for key, until in world.told.items() if until}, leases
    yield "policies", world.policies, {number: policy.stage for number, policy in state.policies.items()}
    yield "published", world.published, {n: (policy.name, policy.document) for n, policy in state.policies.items()}
    yield "validities", world.validities, {(v.region, v.scope): v.revision for v in state.validities.values()}
    yield "servers", world.servers, dict(state.servers.items())
    yield "overrides", world.overrides, dict(state.overrides.items())
    lives = {uid: (life.principal, life.high) for uid, life in world.sessions.items()}
    yield "sessions", lives, {uid: (session.principal, session.high) for uid, session in state.sessions.items()}
    ended = [key for key, _ in state.breaches.items() if is_of_ended_emergency(world, *key)]
    known = {key: breach.overshoot for key, breach in state.breaches.items() if key not in ended}
    yield "breaches", breaches_of(world), known


def standing_of(status: RegionStatus) -> model.Standing:
    return model.Standing(
        status.since, status.health, status.log_id, status.position, status.cursor, status.heard_at, status.session,
        list(status.tombstones), status.address, status.digest, status.unreleased,
        (status.session_lease, status.grace, status.fence_time),
    )  # fmt: skip


def steady(workloads: dict[int, Any]) -> dict[int, Any]:
    """Without the words of conditions, and the revision of what is being deleted: nobody can name it any more."""
    found = {}
    for uid, w in workloads.items():
        conditions = tuple(replace(one, message="") for one in w.status.conditions)
        meta = w.meta if w.meta.deletion is None else replace(w.meta, revision=0)
        found[uid] = replace(w, meta=meta, status=replace(w.status, conditions=conditions))
    return found


def grant_of(lent: Lent) -> tuple[Any, ...]:
    return (
        lent.uid, lent.version, lent.target, lent.charged, lent.ends, lent.protected, lent.weight, lent.acknowledged,
        lent.settled,
        len(lent.waiting),
    )  # fmt: skip


def limit_of(world: World, account: str, region: str) -> Resources | None:
    """What may be lent of an account, whatever was lent; None where there is no such promise."""
    kind, _, name = account.partition("/")
    if kind == "quota":
        quota = world.things.get(("Quota", name))
        return quota.spec.hard if quota else ZERO
    if kind == "recovery":
        budget = world.things.get(("RecoveryBudget", name))
        return budget.spec.each if budget and region in budget.spec.regions else ZERO
    override = world.overrides.get(int(name)) if kind == "emergency" else None
    return lending.amount_of(override) if override and override.action is OverrideAction.EMERGENCY_QUOTA else None


def is_of_ended_emergency(world: World, invariant: str, key: str) -> bool:
    """It is closed when its region next says what it holds."""
    kind, name, *_ = (*key.split("/"), "")
    return invariant == "platform.escrow" and kind == "emergency" and int(name) not in world.overrides


def breaches_of(world: World) -> dict[tuple[str, str], int]:
    """What is above its limit now, and by how much: nothing but a sum over what is."""
    found: dict[tuple[str, str], int] = {}
    for region, account in world.grants:
        charged, limit = world.charged(account, region), limit_of(world, account, region)
        if limit is None:
            continue
        where = f"{account}|{region}" if account.startswith("recovery/") else account
        for name in ("cpu", "memory", "disk", "gpu", *dict(charged.extended)):
            found["platform.escrow", f"{where}/{name}"] = amount_of(charged, name) - amount_of(limit, name)
    for uid, workload in world.workloads.items():
        if workload.meta.deletion is not None:
            continue
        over = lending.shared_out(world, uid) - workload.spec.disruption_max
        misplaced = [
            share.count
            for a in world.assigned(uid)
            if a.stage is not AssignmentStage.ENDED and not objects.may_hold(world, workload.spec, a.region)
            for share in a.shares
        ]
        found["platform.disruption", str(uid)] = over
        found["platform.residency", str(uid)] = sum(misplaced)
    return {key: over for key, over in found.items() if over > 0}
