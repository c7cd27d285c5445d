"""A deliberately simple platform: plain dicts, brute force, no indexes, no log. The ledger must answer as it does.

This module has the state, who may send what, repeats, and the commands that every ledger has. What operators and
tenants write is in `platform_model_objects`, what regions are given in `platform_model_regions`; `platform_judge` puts
them together. A refusal is raised as `Denied`, always before anything is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin import audit, log, overrides, sessions
from holdfast.core.ledger.builtin.servers import RevokeServer
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import Override, OverrideAction, PolicyDocument, PolicyStage
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec, Scope
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.region_reports import Overflow, RegionSummary, WorkloadReport
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources, elementwise_max, total
from holdfast.core.model.values.settings import DEFAULTS, Settings, settings_problems
from tests.properties import servers_model

WINDOW = 256
LEVEL = 3


class Denied(Exception):
    """The command is refused with one of these codes; mostly there is one."""

    def __init__(self, codes: tuple[Code, ...]) -> None:
        super().__init__(*codes)
        self.codes = codes


def deny(*codes: Code) -> NoReturn:
    raise Denied(codes)


def need(holds: object, *codes: Code) -> None:
    """Refuse with one of the codes unless it holds."""
    if not holds:
        deny(*codes)


@dataclass
class Life:
    """A session: whose, its highest number, and what a repeat of each number is answered, newest per place."""

    principal: str
    high: int = 0
    ring: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Kept:
    body: bytes
    at: int
    revision: int


@dataclass
class Standing:
    """What is known of a region besides what its operator wrote."""

    since: int
    health: RegionHealth = RegionHealth.HEALTHY
    log: str = ""
    position: int = 0
    cursor: int = 0
    heard: int = 0
    session: int = 0
    tombstones: list[str] = field(default_factory=list)
    address: str = ""
    digest: str = ""
    unreleased: int = 0
    times: tuple[int, int, int] = (0, 0, 0)


@dataclass
class Lent:
    """A grant with every target that was ever offered, by version."""

    uid: int
    targets: dict[int, Resources] = field(default_factory=dict)
    ends: int = 0
    protected: Resources = ZERO
    weight: int = 1
    acknowledged: int = 0
    settled: Resources = ZERO
    position: int = 0
    session: int = 0

    @property
    def version(self) -> int:
        return max(self.targets)

    @property
    def target(self) -> Resources:
        return self.targets[self.version]

    @property
    def waiting(self) -> list[Resources]:
        return [target for version, target in self.targets.items() if version > self.acknowledged]

    @property
    def charged(self) -> Resources:
        """The largest value offered since the last acknowledged version, and what was settled on at that."""
        most = self.settled
        for target in self.waiting:
            most = elementwise_max(most, target)
        return most


@dataclass
class World:
    """Everything that the model knows."""

    seq: int = 0
    log_id: str = ""
    term: int = 0
    #: When it began.
    term_at: int = 0
    settings: Settings = DEFAULTS
    #: The revision of the settings: the log's first until somebody has configured them.
    configured: int = 1 << 20
    #: What was first sent before this may be forgotten, whatever the window is now.
    forgotten: int = 0
    things: dict[tuple[str, str], Any] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    tombstones: set[str] = field(default_factory=set)
    workloads: dict[int, Workload] = field(default_factory=dict)
    #: By workload: the templates that it has named and keeps, in that order.
    named: dict[int, dict[str, None]] = field(default_factory=dict)
    #: By region: the highest version of a grant that was forgotten with its account.
    spent: Counter[str] = field(default_factory=Counter)
    assignments: dict[int, Assignment] = field(default_factory=dict)
    #: By region and account.
    grants: dict[tuple[str, str], Lent] = field(default_factory=dict)
    #: By revision: what whoever sent the command was told besides.
    answers: dict[int, bytes] = field(default_factory=dict)
    #: By workload and ordinal: the region.
    rights: dict[tuple[int, int], str] = field(default_factory=dict)
    #: By workload and region: the latest end of its leases that a region which holds some was ever told.
    told: dict[tuple[int, str], int] = field(default_factory=dict)
    #: By workload and region: in which session it was said, from which position in the region's log, at which time
    #: there; and what.
    observed: dict[tuple[int, str], tuple[tuple[int, int, int], WorkloadReport]] = field(default_factory=dict)
    #: By workload and template: how many were done by assignments that are gone.
    done: dict[tuple[int, str], int] = field(default_factory=dict)
    #: By region: in which session and from which position it was said, when it was heard, and what.
    summaries: dict[str, tuple[tuple[int, int], int, RegionSummary]] = field(default_factory=dict)
    #: By workload and region.
    overflows: dict[tuple[int, str], Overflow] = field(default_factory=dict)
    #: By region: when its window began, and how many it offered back since.
    rebalances: dict[str, tuple[int, int]] = field(default_factory=dict)
    policies: dict[int, PolicyStage] = field(default_factory=dict)
    #: By revision: the name it was published under, and what it says.
    published: dict[int, tuple[str, PolicyDocument]] = field(default_factory=dict)
    validities: dict[tuple[str, str], int] = field(default_factory=dict)
    overrides: dict[int, Override] = field(default_factory=dict)
    servers: servers_model.Known = field(default_factory=dict)
    sessions: dict[int, Life] = field(default_factory=dict)
    keys: dict[tuple[str, str], Kept] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """The revision of the first event of the next batch."""
        return (self.seq + 1) << 20

    def session_of(self, actor: str) -> int:
        return max((uid for uid, life in self.sessions.items() if life.principal == actor), default=0)

    def of_kind(self, kind: str) -> dict[str, Any]:
        return {name: thing for (other, name), thing in self.things.items() if other == kind}

    def assigned(self, workload: int) -> list[Assignment]:
        return [a for _, a in sorted(self.assignments.items()) if a.workload == workload]

    def live(self, tenant: str, name: str) -> Workload | None:
        """The workload of that name that is not being deleted."""
        return next(
            (
                w
                for w in self.workloads.values()
                if (w.meta.tenant, w.meta.name) == (tenant, name) and w.meta.deletion is None
            ),
            None,
        )

    def forget(self, region: str, account: str) -> None:
        """A grant goes with its account, and nothing is left of it but that its versions were used."""
        self.spent[region] = max(self.spent[region], self.grants.pop((region, account)).version)

    def charged(self, account: str, region: str) -> Resources:
        """What is charged to a limit: over all regions, but for recovery and shares of room in one."""
        alone = account.split("/")[0] in ("recovery", "reclaimable")
        mine = [
            lent for (there, paid), lent in self.grants.items() if paid == account and (not alone or there == region)
        ]
        return total(lent.charged for lent in mine)


def drop_assignment(world: World, uid: int) -> None:
    """It is gone, and with a region's last one of a workload what the region said of it."""
    gone = world.assignments.pop(uid)
    if all(a.region != gone.region for a in world.assigned(gone.workload)):
        world.observed.pop((gone.workload, gone.region), None)


def keep_done(world: World, workload: int, done: Iterable[tuple[str, int]]) -> None:
    """What was done is not forgotten with whoever did it."""
    for template, count in done:
        if count:
            world.done[workload, template] = world.done.get((workload, template), 0) + count


def drop_right(world: World, key: tuple[int, int]) -> None:
    region = world.rights.pop(key)
    if not any((uid, holder) == (key[0], region) for (uid, _), holder in world.rights.items()):
        world.told.pop((key[0], region), None)


@dataclass
class Case:
    """A command with its sender, as handlers see it."""

    actor: str
    at: int
    session: int
    principal: Principal | None

    @property
    def kind(self) -> str:
        return self.actor.partition("/")[0]

    @property
    def name(self) -> str:
        return self.actor.partition("/")[2]

    @property
    def scope(self) -> Scope:
        return self.principal.spec.scope if self.principal else Scope()

    def may_act_for(self, tenant: str) -> bool:
        if self.kind == "tenant":
            return self.name == tenant
        return self.scope.tenant in ("", tenant)

    def need_everywhere(self) -> None:
        need(self.scope == Scope(), Code.WRONG_SCOPE)

    def need_region(self, region: str) -> None:
        need(self.scope.region in ("", region), Code.WRONG_SCOPE)

    def need_whole_region(self, region: str) -> None:
        need(not self.scope.tenant and not self.scope.node, Code.WRONG_SCOPE)
        self.need_region(region)


# Who may send, and what was answered before


def case_of(world: World, envelope: Envelope[Any], at: int, owners: tuple[str, ...], right: Permission) -> Case:
    """The case, if this sender may send this command at all."""
    actor, kind = envelope.actor, envelope.actor.partition("/")[0]
    need(len(actor) <= 256 and len(envelope.key) <= 256, Code.MALFORMED)
    case = Case(actor, at, envelope.session, None)
    if kind in ("controller", "ledger"):
        need(not envelope.session and not envelope.key, Code.MALFORMED)
        need(actor in owners, Code.NO_RIGHT)
        return case
    case.principal = world.things.get(("Principal", actor)) or world.things.get(("Principal", f"{kind}/*"))
    need(case.principal is not None and not case.principal.spec.disabled and kind in owners, Code.NO_RIGHT)
    assert case.principal is not None
    if kind in ("agent", "scheduler", "region"):
        need(kind != "region" or actor.count("/") == 1, Code.NO_RIGHT)
        if envelope.session or not isinstance(envelope.command, sessions.OpenSession):
            life = world.sessions.get(envelope.session)
            need(life is not None and life.principal == actor, Code.NO_SESSION)
        return case
    need(right in case.principal.spec.rights, Code.NO_RIGHT)
    need(envelope.key and not envelope.session, Code.MALFORMED)
    scope = case.principal.spec.scope
    concerns_all = isinstance(envelope.command, log.Configure | log.RaiseLevel | RevokeServer)
    need(not scope.node and not (concerns_all and (scope.tenant or scope.region)), Code.WRONG_SCOPE)
    return case


def repeated(world: World, envelope: Envelope[Any], at: int) -> int | None:
    """The revision of the first answer, if this is a repeat."""
    window = world.settings.retry_window
    need(envelope.sent <= at + world.settings.sent_ahead, Code.MALFORMED)
    need(envelope.sent >= max(at - window, world.forgotten), Code.TOO_OLD_TO_RETRY)
    if envelope.session:
        life, number = world.sessions[envelope.session], envelope.sequence
        need(number <= life.high + WINDOW, Code.TOO_MANY_IN_FLIGHT)
        need(number >= 1, Code.MALFORMED)
        kept = life.ring.get(number % WINDOW)
        if kept is not None and kept[0] == number:
            return kept[1]
        need(number > life.high - WINDOW, Code.TOO_OLD_TO_RETRY)
        return None
    if not envelope.key:
        return None
    known = world.keys.get((envelope.actor, envelope.key))
    if known is not None and at - known.at <= window:
        need(known.body == body_digest(envelope), Code.KEY_REUSED)
        return known.revision
    live = [k for (actor, _), k in world.keys.items() if actor == envelope.actor and at - k.at <= window]
    need(len(live) < world.settings.keys_per_actor, Code.TOO_MANY_KEYS)
    return None


def remember(world: World, envelope: Envelope[Any], at: int, revision: int) -> None:
    if envelope.session:
        life = world.sessions.get(envelope.session)
        if life is not None:
            life.ring[envelope.sequence % WINDOW] = (envelope.sequence, revision)
            life.high = max(life.high, envelope.sequence)
    elif envelope.key:
        world.keys[envelope.actor, envelope.key] = Kept(body_digest(envelope), max(at, envelope.sent), revision)


# What every ledger has


def start_log(world: World, command: log.StartLog, case: Case) -> None:
    need(not world.log_id, Code.EXISTS)
    sound = not settings_problems(command.settings) and command.log_id and command.operator.startswith("person/")
    need(sound, Code.CONTRADICTORY)
    world.log_id, world.settings = command.log_id, command.settings
    uid = world.next
    meta = Meta(name=command.operator, uid=uid, revision=uid, created_by=case.actor, created=case.at)
    world.things["Principal", command.operator] = Principal(meta=meta, spec=PrincipalSpec(rights=tuple(Permission)))


def start_term(world: World, command: log.StartTerm, case: Case) -> None:
    need(world.log_id, Code.NOT_FOUND)
    need(command.term > world.term, Code.STALE)
    need(command.level == LEVEL, Code.CONTRADICTORY)
    world.term, world.term_at = command.term, case.at


def raise_level(world: World, command: log.RaiseLevel, case: Case) -> None:
    """There is one level only."""
    deny(Code.ALREADY if command.level <= LEVEL else Code.CONTRADICTORY)


def record_digest(world: World, command: log.RecordDigest, case: Case) -> None:
    need(0 < command.seq <= world.seq, Code.STALE)


def record_denials(world: World, command: audit.RecordDenials, case: Case) -> None:
    """What was denied is in the log and nowhere else."""
    need(1 <= len(command.denials) <= 200, Code.TOO_LARGE)
    for one in command.denials:
        texts = (one.actor, one.what, one.code, one.tenant)
        need(one.code and one.count > 0 and 0 <= one.first <= one.last, Code.MALFORMED)
        need(all(len(text) <= 256 for text in texts), Code.MALFORMED)


def servers(world: World, command: Any, case: Case) -> None:
    refused = servers_model.judge(world.servers, command, "platform", case.at)
    if refused is not None:
        deny(refused)


def open_session(world: World, command: sessions.OpenSession, case: Case) -> None:
    old = world.session_of(case.actor)
    world.sessions.pop(old, None)
    world.sessions[world.next + (1 if old else 0)] = Life(case.actor)


def end_session(world: World, command: sessions.EndSession, case: Case) -> None:
    life = world.sessions.get(command.session)
    if life is None:
        deny(Code.NO_SESSION)
    need(case.principal is None or life.principal == case.actor, Code.NOT_OWNER)
    del world.sessions[command.session]


def configure(world: World, command: log.Configure, case: Case) -> None:
    joined = [one for one in world.standing.values() if one.times[2] and one.health is not RegionHealth.RETIRED]
    need(all(one.times[1] >= command.settings.grace for one in joined), Code.CONTRADICTORY)
    need(not settings_problems(command.settings), Code.CONTRADICTORY)
    need(command.settings != world.settings, Code.ALREADY)
    world.forgotten = max(world.forgotten, case.at - world.settings.retry_window)
    world.settings, world.configured = command.settings, world.next


def need_scope(override: overrides.OpenOverride | Override, case: Case) -> None:
    """A region's operator acts there, a tenant's on that tenant alone, a node's nowhere."""
    need(case.scope.region in ("", override.region) and not case.scope.node, Code.WRONG_SCOPE)
    tenants = {override.target, *(value for key, value in override.facts if key == "tenant")}
    own = override.action in (OverrideAction.PAUSE_SCHEDULING, OverrideAction.EMERGENCY_QUOTA) and tenants == {
        case.scope.tenant
    }
    need(not case.scope.tenant or own, Code.WRONG_SCOPE)


def is_readable(command: overrides.OpenOverride) -> bool:
    """Whether each parameter is one that this kind of override has, and none is missing."""
    facts, target = dict(command.facts), command.target
    if command.action is OverrideAction.EMERGENCY_QUOTA:
        tenant = facts.pop("tenant", "")
        whole = all(text in map(str, (0, 2_000, 3_000, 4_000)) for text in facts.values())
        return bool(tenant) and target in ("", tenant) and set(facts) == {"cpu"} and whole and facts["cpu"] != "0"
    if facts:
        return False
    if command.action in (OverrideAction.PAUSE_REPAIR, OverrideAction.PAUSE_AUTOSCALER):
        return not target
    if command.action is OverrideAction.DECLARE_LOST:
        return bool(target) and command.region in ("", target)
    return bool(target) or command.action is OverrideAction.PAUSE_SCHEDULING


def open_override(world: World, command: overrides.OpenOverride, case: Case) -> None:
    need(command.reason.strip() and len(command.reason) <= 1_000, Code.MALFORMED)
    need(is_readable(command), Code.MALFORMED)
    need(case.at < command.ends <= case.at + world.settings.override_life, Code.EXPIRED)
    need_scope(command, case)
    world.overrides[world.next] = Override(
        uid=world.next, action=command.action, region=command.region, target=command.target, reason=command.reason,
        owner=case.actor, opened=case.at, ends=command.ends, facts=command.facts,
    )  # fmt: skip


def end_override(world: World, command: overrides.EndOverride, case: Case) -> None:
    override = world.overrides.get(command.uid)
    if override is None:
        deny(Code.NOT_FOUND)
    need(case.kind != "controller" or case.at >= override.ends, Code.TOO_EARLY)
    need_scope(override, case)
    del world.overrides[command.uid]
