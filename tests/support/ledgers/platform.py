"""A platform for tests: builders, and a bench that sends commands, keeps the log and checks every promise after each.

Every command is one batch, durable at once. Its bytes are read back before it is judged, a follower folds each batch
from the log's bytes and must agree, and what is above its limit must not grow. Time only moves when told.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.servers import AdmitServer
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state.invariants import check, check_batch
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import (
    Permission,
    Principal,
    PrincipalSpec,
    Scope,
    Token,
    TokenSpec,
    hash_secret,
)
from holdfast.core.model.objects.tenants import (
    PriorityClass,
    PriorityClassSpec,
    Quota,
    QuotaSpec,
    RecoveryBudget,
    RecoveryBudgetSpec,
    Tenant,
    TenantSpec,
)
from holdfast.core.model.objects.topology import NodePool, NodePoolSpec, Region, RegionHealth, RegionSpec
from holdfast.core.model.objects.workloads import (
    FailoverMode,
    OnDisconnect,
    Placement,
    Recovery,
    Template,
    Workload,
    WorkloadSpec,
    name_key,
)
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.grants import Grant, grant_key
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, TemplateCounts, WorkloadReport
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.ranges import expanded
from holdfast.core.model.values.resources import ZERO, Resources, first_exceeded
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, GRANT, PLATFORM, REGION_HEALTH
from holdfast.core.platform.state.tables import PlatformState

T0 = 1_700_000_000_000
SECOND = 1_000
HOUR = 3_600_000
ROOT = "person/root"
#: How the digest of some batch of a region begins: what regions acknowledge with, where no log of theirs is at hand.
DIGEST = "0123456789abcdef"
ACME = "tenant/acme"


def cpu(milli: int) -> Resources:
    return Resources(cpu=milli)


def a_tenant(name: str = "acme", *classes: str, most: int = 100, **limits: int) -> Tenant:
    return Tenant(meta=Meta(name=name), spec=TenantSpec(priority_classes=classes, workloads_max=most, **limits))


def a_quota(
    tenant: str = "acme", hard: Resources = ZERO, protected: Resources = ZERO, *, reclaimable: int = 0, weight: int = 1
) -> Quota:
    spec = QuotaSpec(hard=hard, protected=protected, reclaimable=reclaimable, weight=weight)
    return Quota(meta=Meta(name=tenant), spec=spec)


def a_class(name: str = "normal", priority: int = 50, *, reclaimable: bool = False) -> PriorityClass:
    return PriorityClass(meta=Meta(name=name), spec=PriorityClassSpec(priority=priority, reclaimable=reclaimable))


def a_principal(name: str, *rights: Permission, **scope: str) -> Principal:
    return Principal(meta=Meta(name=name), spec=PrincipalSpec(rights=rights, scope=Scope(**scope)))


def a_token(name: str = "t1", principal: str = ROOT, expires: int = T0 + HOUR, *, revoked: bool = False) -> Token:
    spec = TokenSpec(principal=principal, hash=hash_secret("a secret"), expires=expires, revoked=revoked)
    return Token(meta=Meta(name=name), spec=spec)


def a_region(name: str = "eu", jurisdiction: str = "", address: str = "", **latencies: int) -> Region:
    spec = RegionSpec(jurisdiction=jurisdiction, latencies=tuple(sorted(latencies.items())), address=address)
    return Region(meta=Meta(name=name), spec=spec)


def a_pool(name: str = "small", region: str = "eu", minimum: int = 0, maximum: int = 10, cost: int = 0) -> NodePool:
    spec = NodePoolSpec(region=region, minimum=minimum, maximum=maximum, cost=cost)
    return NodePool(meta=Meta(name=name), spec=spec)


def a_budget(
    name: str = "reserve", regions: tuple[str, ...] = ("eu", "us"), each: Resources = ZERO, *tenants: str
) -> RecoveryBudget:
    return RecoveryBudget(meta=Meta(name=name), spec=RecoveryBudgetSpec(regions=regions, each=each, tenants=tenants))


def a_template(milli: int = 500, command: str = "serve") -> Template:
    return Template(command=(command,), need=cpu(milli))


def a_workload(name: str = "web", tenant: str = "acme", **fields: Any) -> Workload:
    """A workload as a tenant sends it. `regions`, `jurisdictions` and `budget` are shorthands into the spec."""
    regions, jurisdictions = fields.pop("regions", ()), fields.pop("jurisdictions", ())
    defaults: dict[str, Any] = {
        "template": a_template(),
        "replicas": 3,
        "priority_class": "normal",
        "placement": Placement(regions=regions, jurisdictions=jurisdictions),
        "recovery": Recovery(budget=fields.pop("budget", "")),
    }
    return Workload(meta=Meta(name=name, tenant=tenant), spec=WorkloadSpec(**{**defaults, **fields}))


def an_exclusive(name: str = "db", *, leased: bool = False, **fields: Any) -> Workload:
    """A workload whose ordinals are identities."""
    failover = FailoverMode.LEASED if leased else FailoverMode.ACKNOWLEDGED
    disconnect = OnDisconnect.STOP if leased else OnDisconnect.KEEP
    return a_workload(name, exclusive=True, failover=failover, on_disconnect=disconnect, **fields)


class PlatformBench:
    """The platform's ledger in a test."""

    def __init__(self, level: int = LEVEL) -> None:
        self.book = PLATFORM.of_level(level)
        self.state = PlatformState()
        self.follower = PlatformState()
        self.log: list[tuple[bytes, bytes]] = []
        self.at = T0
        self.sessions: dict[str, int] = {}
        self.sequences: dict[str, int] = {}
        self.keys = 0
        #: Whether everything is checked after each command; a test that turns it off calls `verify` itself.
        self.checked = True
        self.accept("ledger", StartLog("log-platform", "platform", ROOT))
        self.accept("ledger", StartTerm(1, "server-1", level))

    def fork(self) -> PlatformBench:
        """The same platform; from now on neither sees what happens to the other."""
        other = PlatformBench.__new__(PlatformBench)
        other.book = self.book
        other.state, other.follower = self.state.fork(), self.follower.fork()
        other.log, other.at, other.keys = self.log.copy(), self.at, self.keys
        other.sessions, other.sequences = self.sessions.copy(), self.sequences.copy()
        other.checked = self.checked
        return other

    # Sending

    def envelope(self, actor: str, command: Any, **fields: Any) -> Envelope[Any]:
        kind = actor.partition("/")[0]
        if kind == "region" and not isinstance(command, OpenSession):
            self.sequences[actor] = self.sequences.get(actor, 0) + 1
            fields.setdefault("session", self.sessions.get(actor, 0))
            fields.setdefault("sequence", self.sequences[actor])
        if kind in ("person", "tenant"):
            self.keys += 1
            fields.setdefault("key", f"k{self.keys}")
        return Envelope(actor, command, **{"sent": self.at, **fields})

    def give(self, envelope: Envelope[Any]) -> Committed | Refused | Repeated:
        assert PLATFORM.envelopes.read(encode(envelope)) == envelope
        before = dict(self.state.offered_of.items())
        draft = BatchDraft(self.book, self.state)
        answer = draft.add(envelope, self.at)
        if isinstance(answer, Committed):
            raw, digest = draft.seal()
            near = check_batch(self.state, draft.state, self.book.invariants) if self.checked else []
            draft.commit()
            self.log.append((raw, digest))
            fold(self.book, self.follower, self.book.batches.read(raw, self.follower.info.digest, digest))
            if not isinstance(envelope.command, c.AcknowledgeGrant):  # a region may claim what this log has forgotten
                self._check_growth(before)
            if self.checked:
                assert near == []
                self.verify()
        return answer

    def verify(self) -> None:
        """Every invariant holds, and the follower agrees in every row."""
        assert check(self.state, PLATFORM.invariants) == []
        for spec in PlatformState.TABLES:
            mine, theirs = self.state.table(spec.name), self.follower.table(spec.name)
            assert list(mine.shard_rows()) == list(theirs.shard_rows()), spec.name

    def _check_growth(self, before: dict[str, Resources]) -> None:
        for quota in self.state.quotas.values():
            account = f"quota/{quota.meta.name}"
            old, new = before.get(account, ZERO), self.state.offered_of.get(account) or ZERO
            if first_exceeded(old, quota.spec.hard):
                assert not first_exceeded(new, old), f"{account} was above its limit and has grown"

    def send(self, actor: str, command: Any, **fields: Any) -> Committed | Refused | Repeated:
        return self.give(self.envelope(actor, command, **fields))

    def accept(self, actor: str, command: Any, **fields: Any) -> int:
        """Send what must be accepted; its revision."""
        answer = self.send(actor, command, **fields)
        assert isinstance(answer, Committed), answer
        return answer.revision

    def refuse(self, code: Code, actor: str, command: Any, **fields: Any) -> Refused:
        """Send what must be refused with this code; nothing has changed."""
        before = self.state.info
        answer = self.send(actor, command, **fields)
        assert isinstance(answer, Refused), answer
        assert answer.code is code, answer
        assert answer.message
        assert self.state.info == before
        return answer

    def replayed(self) -> PlatformState:
        """The state that the log alone gives."""
        state = PlatformState()
        for raw, digest in self.log:
            fold(PLATFORM, state, PLATFORM.batches.read(raw, state.info.digest, digest))
        return state

    # Stories

    def open_session(self, region: str) -> int:
        actor = f"region/{region}"
        self.accept(actor, OpenSession())
        session = self.state.session_of[actor]
        self.sessions[actor], self.sequences[actor] = session, 0
        return session

    def join(self, region: str, log_id: str = "", address: str = "") -> None:
        self.open_session(region)
        self.accept(f"region/{region}", c.JoinRegion(region, log_id or f"log-{region}", address))

    def put(self, thing: Any, **fields: Any) -> int:
        """Store an object or a workload; its revision, which is its uid when it is new."""
        if isinstance(thing, Workload):
            return self.accept(f"tenant/{thing.meta.tenant}", c.PutWorkload(thing, **fields))
        return self.accept(ROOT, c.Put(thing, **fields))

    def judge(self, region: str, *healths: RegionHealth) -> None:
        for health in healths:
            self.accept(REGION_HEALTH, c.JudgeRegion(region, health, "in a test"))

    def lose(self, region: str) -> None:
        self.judge(region, RegionHealth.SUSPECT, RegionHealth.LOST)

    def retire(self, region: str) -> None:
        self.accept(ROOT, c.RetireRegion(region, "its machines are switched off"))

    def assign(self, workload: int, region: str = "eu", count: int = 0, **fields: Any) -> int:
        """Assign replicas of the workload's present template; the assignment's uid."""
        self.accept(ASSIGNMENT, self.assignment(workload, region, count, **fields))
        purpose = fields.get("purpose", AssignmentPurpose.SERVING)
        found = [a for a in self.assignments(workload) if (a.region, a.purpose) == (region, purpose)]
        return found[0].uid

    def assignment(self, workload: int, region: str = "eu", count: int = 0, **fields: Any) -> c.Assign:
        digest = template_digest(self.state.workloads[workload].spec.template)
        ordinals = fields.get("ordinals", ())
        shares = (Share(digest, count or len(ordinals)),) if count or ordinals else ()
        defaults = {"purpose": AssignmentPurpose.SERVING, "stage": AssignmentStage.ACTIVE, "shares": shares}
        return c.Assign(workload, region, **{**defaults, **fields})

    def assignments(self, workload: int) -> list[Assignment]:
        return [a for a in self.state.assignments.values() if a.workload == workload]

    def hold(self, workload: int, region: str, *ordinals: int) -> int:
        """Give a region the rights to ordinals and assign them; the assignment's uid."""
        for ordinal in ordinals:
            self.accept(ASSIGNMENT, c.GrantRight(workload, ordinal, region))
        return self.assign(workload, region, ordinals=ordinals)

    def ask_back(self, workload: int, region: str, *ordinals: int) -> int:
        """List ordinals in the region's assignment no more; the revision by which it is to give their rights back."""
        mine = next(
            (a for a in self.assignments(workload) if a.region == region and a.purpose is AssignmentPurpose.SERVING),
            None,
        )
        listed = expanded(mine.ordinals) if mine is not None else ()
        uid = self.assign(workload, region, ordinals=tuple(n for n in listed if n not in ordinals))
        return self.state.assignments[uid].revision

    def release(self, workload: int, region: str, *ordinals: int) -> None:
        """A region is asked for rights and gives them back."""
        seen = self.ask_back(workload, region, *ordinals)
        self.accept(f"region/{region}", c.ReleaseRights(workload, ordinals, seen))

    def tell(self, region: str, *workloads: int, free: Resources = ZERO, **fields: Any) -> None:
        """A region says that it has two replicas of each workload, one of them serving, and one node of 8 cpu."""
        position = self.state.summaries[region].position + 1 if region in self.state.summaries else 1
        counts = [(uid, self.state.templates_of[uid][0]) for uid in workloads]
        seen = tuple(WorkloadReport(uid, 1, (TemplateCounts(digest, 2, 1, 1),)) for uid, digest in counts)
        nodes = Nodes("small", (), (), (), (), 1, cpu(8_000), free, (cpu(8_000),), (free,))
        report = {
            "position": position,
            "seen": seen,
            "summary": RegionSummary((nodes,), (("quota/acme", cpu(500)),)),
            **fields,
        }
        self.accept(f"region/{region}", c.Report(region, **report))

    def offer(self, region: str, target: Resources, account: str = "quota/acme", **fields: Any) -> int:
        """Offer a grant; its version."""
        fields.setdefault("ends", self.at + HOUR)
        self.accept(GRANT, c.OfferGrant(account, region, target, **fields))
        return self.grant(region, account).version

    def settle(self, region: str, version: int, settled: Resources, account: str = "quota/acme") -> None:
        self.accept(f"region/{region}", c.AcknowledgeGrant(account, version, settled))

    def grant(self, region: str, account: str = "quota/acme") -> Grant:
        return self.state.grants[grant_key(region, account)]

    def charged(self, account: str = "quota/acme") -> Resources:
        return self.state.offered_of.get(account) or ZERO

    def workload(self, name: str = "web", tenant: str = "acme") -> Workload:
        """The live one of that name."""
        return self.state.workloads[self.state.workload_names[name_key(tenant, name)]]

    def emergency(self, milli: int, tenant: str = "acme", region: str = "", life: int = HOUR) -> int:
        """An emergency override; its uid."""
        facts = (("cpu", str(milli)), ("tenant", tenant))
        opened = OpenOverride(OverrideAction.EMERGENCY_QUOTA, region, tenant, "a launch", self.at + life, facts)
        return self.accept(ROOT, opened)

    def later(self, milliseconds: int) -> None:
        self.at += milliseconds


@cache
def _world(level: int = LEVEL) -> PlatformBench:
    bench = PlatformBench(level)
    for principal in (a_principal("region/*"), a_principal("tenant/*", Permission.WRITE)):
        bench.put(principal)
    for priority_class in (a_class("normal", 50), a_class("critical", 100)):
        bench.put(priority_class)
    for tenant in ("acme", "beta"):
        bench.put(a_tenant(tenant, "normal", "critical"))
        bench.put(a_quota(tenant, cpu(10_000)))
    for region, jurisdiction in (("eu", "EU"), ("us", "US"), ("us2", "US")):
        bench.put(a_region(region, jurisdiction))
        bench.join(region)
    bench.put(a_budget("reserve", ("eu", "us"), cpu(4_000)))
    return bench


def a_world(level: int = LEVEL) -> PlatformBench:
    """Tenants acme and beta with 10 cpu each, regions eu (EU), us and us2 (US), and 4 cpu to recover in eu and us."""
    return _world(level).fork()


@cache
def _full_platform() -> PlatformBench:
    bench = a_world()
    bench.put(a_token())
    bench.put(a_pool())
    web, db = bench.put(a_workload(budget="reserve")), bench.put(an_exclusive(leased=True))
    bench.assign(web, "eu", 2, disruption=1)
    bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    bench.hold(db, "eu", 0, 1)
    bench.tell("eu", web, free=cpu(3_000))
    bench.accept("region/eu", c.OfferBack(bench.assignments(web)[0].uid, 1, "no node has room"))
    bench.settle("eu", bench.offer("eu", cpu(5_000)), cpu(5_000))
    bench.offer("eu", cpu(1_000), "recovery/reserve")
    bench.put(a_quota("acme", cpu(4_000)))
    bench.put(a_budget("spare", ("eu",), cpu(1_000)))
    bench.offer("eu", ZERO, "recovery/spare")
    bench.accept(ROOT, c.Delete("RecoveryBudget", "spare"))
    policy = bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(scores=(("packing", 3),))))
    bench.accept(ROOT, c.ActivatePolicy(policy, "eu"))
    bench.emergency(1_000)
    batch = bench.put(a_workload("batch", batch=True))
    ended = bench.assign(batch, "eu", 2)
    bench.accept(ASSIGNMENT, c.EndAssignment(ended))
    bench.accept("region/eu", c.RemoveAssignment(ended, ((bench.state.templates_of[batch][0], 2),)))
    gone = bench.put(a_workload("gone"))
    bench.assign(gone, "us", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "gone"))
    bench.retire("us2")
    bench.accept("controller/servers", AdmitServer(ServerToken("server-1", "platform/s1", "0f" * 32, bench.at + HOUR)))
    return bench


def a_full_platform() -> PlatformBench:
    """The world with a row in every table, one quota overdrawn, one workload ending and one region retired."""
    return _full_platform().fork()
