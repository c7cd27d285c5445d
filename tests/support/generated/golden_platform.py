"""The platform's golden story: a short life in which every event of the platform happens.

It stands on the bench alone and not on the worlds of other tests: those may change, and what is golden may not.
"""

from __future__ import annotations

from unittest import mock

from msgspec.structs import replace

from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.builtin.log import Configure, RecordDigest, StartTerm
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.envelope import ABSENT
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.objects.policies import OverrideAction, PlacementStrategy, PolicyDocument, PolicyStage
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.records.region_reports import TemplateCounts, WorkloadReport
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.core.model.values.limits import POLICIES_MAX, TEMPLATES_MAX
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform import commands as c
from holdfast.core.platform.decide import region_retirement
from holdfast.core.platform.definition import FAILOVER, RETIREMENT, STATUS
from tests.support.generated.golden_servers import servers_of
from tests.support.ledgers.platform import (
    DIGEST,
    HOUR,
    ROOT,
    SECOND,
    PlatformBench,
    a_budget,
    a_class,
    a_pool,
    a_principal,
    a_quota,
    a_region,
    a_template,
    a_tenant,
    a_token,
    a_workload,
    an_exclusive,
    cpu,
)


def platform_story(level: int = LEVEL) -> PlatformBench:
    """A short life of a platform in which every event of a level happens."""
    bench = PlatformBench(level)
    _found(bench)
    web, db = _want(bench)
    _lend(bench)
    _steer(bench)
    _recover(bench, web, db)
    _end(bench, web)
    if level >= 2:
        _leave_behind(bench)
        servers_of(bench, "platform", ROOT)
    bench.accept("ledger", RecordDigest(bench.state.info.seq, state_digest(bench.state)))
    return bench


def _found(bench: PlatformBench) -> None:
    bench.put(a_principal("region/*"))
    bench.put(a_principal("tenant/*", Permission.WRITE))
    bench.put(a_class("normal", 50))
    bench.put(a_class("critical", 100))
    bench.put(a_tenant("acme", "normal", "critical", pending_max=50, submits_per_minute=120), expect=ABSENT)
    bench.put(a_tenant("beta", "normal"))
    bench.put(a_quota("acme", Resources(10_000, 16_384, 0, 1_000, (("fpga", 2),)), cpu(1_000)))
    for name, jurisdiction in (("eu", "EU"), ("us", "US"), ("us2", "US")):
        bench.put(a_region(name, jurisdiction, user=20))
        bench.join(name, address=f"https://{name}.example:7400" if name == "eu" else "")
    bench.put(a_pool("small", "eu", 1, 8))
    bench.put(a_budget("reserve", ("eu", "us"), cpu(4_000), "acme"))
    bench.put(a_token("ci"))
    bench.accept("ledger", StartTerm(2, "server-2", bench.book.level))
    bench.accept(ROOT, Configure(replace(DEFAULTS, right_lease=30_000)))
    bench.open_session("us2")
    bench.accept("region/us2", c.JoinRegion("us2", "log-us2"))
    bench.accept("region/us2", c.JoinRegion("us2", "log-us2", "https://us2.example:7400"))
    bench.accept("controller/sessions", EndSession(bench.sessions["region/us2"], "silent"))


def _want(bench: PlatformBench) -> tuple[int, int]:
    web = bench.put(a_workload(budget="reserve", replicas=4, disruption_max=2))
    bench.put(
        a_workload(
            budget="reserve", replicas=4, disruption_max=2, template=replace(a_template(1_000), restarted=bench.at)
        )
    )
    bench.assign(web, "eu", 2, disruption=1)
    bench.assign(web, "us", 2, disruption=1)
    bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    db = bench.put(an_exclusive(leased=True, replicas=2))
    bench.hold(db, "eu", 0, 1)
    progress = Condition(
        type="Progressing", status=ConditionStatus.TRUE, reason=ConditionReason.PROGRESSING, message="two are up"
    )
    bench.accept(STATUS, c.ReportStatus(web, 1, 4, 3, 2, (progress,)))
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 5, pack_revision(bench.state.info.seq), DIGEST))
    bench.tell("eu", web, free=cpu(3_000))
    bench.accept("region/eu", c.OfferBack(bench.assignments(web)[0].uid, 1, "no node has room"))
    return web, db


def _lend(bench: PlatformBench) -> None:
    first = bench.offer("eu", Resources(8_000, 8_192, 0, 0, (("fpga", 1),)), protected=cpu(500))
    bench.settle("eu", first, Resources(8_000, 8_192, 0, 0, (("fpga", 1),)))
    bench.put(a_quota("acme", Resources(6_000, 16_384, 0, 1_000, (("fpga", 2),)), cpu(1_000)))
    bench.settle("eu", bench.offer("eu", cpu(3_000)), cpu(5_000))
    bench.offer("us", cpu(1_000))
    bench.offer("us", cpu(1_000), "recovery/reserve")
    emergency = bench.emergency(2_000, region="us")
    bench.offer("us", cpu(2_000), f"emergency/{emergency}")
    bench.accept(ROOT, EndOverride(emergency, "the launch is over"))
    bench.settle("us", bench.offer("us", cpu(0), f"emergency/{emergency}"), cpu(0), f"emergency/{emergency}")


def _steer(bench: PlatformBench) -> None:
    document = PolicyDocument(scores=(("packing", 3),), freshness=(("normal", 500),))
    first = bench.accept(ROOT, c.PublishPolicy("packed", document))
    second = bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(strategy=PlacementStrategy.SPREAD)))
    bench.accept(ROOT, c.ActivatePolicy(first, "eu", "acme"))
    bench.accept(ROOT, c.ActivatePolicy(first, "us2", "", PolicyStage.ACTIVE))
    bench.accept(ROOT, c.ActivatePolicy(second, "us", "beta"))
    bench.accept(ROOT, c.RollBackPolicy(first, second, "too full"))
    bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "an incident", bench.at + HOUR))


def _recover(bench: PlatformBench, web: int, db: int) -> None:
    bench.later(SECOND)
    bench.lose("eu")
    standby = next(a.uid for a in bench.assignments(web) if a.purpose is AssignmentPurpose.RECOVERY)
    bench.accept(FAILOVER, c.Activate(standby))
    bench.later(HOUR)
    bench.accept(FAILOVER, c.GrantRight(db, 0, "us"))
    bench.accept(ROOT, c.AttestRight(db, 1, "eu", "its rack has no power"))
    bench.later(SECOND)
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 6, pack_revision(bench.state.info.seq), DIGEST))
    bench.judge("eu", RegionHealth.HEALTHY)
    bench.release(db, "us", 0)
    serving = next(a.uid for a in bench.assignments(web) if a.region == "us" and a.purpose is AssignmentPurpose.SERVING)
    bench.accept(FAILOVER, c.EndAssignment(serving))
    bench.accept("region/us", c.RemoveAssignment(serving))
    bench.accept(FAILOVER, c.Adopt(standby))
    batch = bench.put(a_workload("batch", replicas=2, batch=True))
    job = bench.assign(batch, "eu", 2)
    digest = bench.state.templates_of[batch][0]
    bench.tell("eu", seen=(WorkloadReport(batch, 1, (TemplateCounts(digest, 0, 0, 0, 1, 1, "exit"),)),))
    bench.accept(STATUS, c.ReportStatus(batch, 1, 0, 0, 0, (), 1, 1))
    bench.accept(FAILOVER, c.EndAssignment(job))
    bench.accept("region/eu", c.RemoveAssignment(job, ((digest, 1),)))


def _end(bench: PlatformBench, web: int) -> None:
    bench.accept("tenant/acme", c.DeleteWorkload("acme", "web"))
    bench.put(a_workload(replicas=1))
    eu = next(a.uid for a in bench.assignments(web) if a.region == "eu")
    bench.accept("region/eu", c.RemoveAssignment(eu))
    bench.accept(ROOT, c.DeclareLost("us", "its building is closed"))
    bench.retire("us")
    bench.retire("us2")
    bench.accept(ROOT, c.Delete("Region", "us2"))
    bench.accept(ROOT, c.Delete("Tenant", "beta", expect=bench.state.tenants["beta"].meta.revision))
    denial = Denial("tenant/beta", "put-workload", "wrong-scope", "acme", 3, bench.at - SECOND, bench.at)
    bench.accept("ledger", RecordDenials((denial,)))


def _leave_behind(bench: PlatformBench) -> None:
    """What level 2 added: templates, policies and grants that nobody needs go, a long retirement goes in parts, and a
    region is believed."""
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 10**9, pack_revision(bench.state.info.seq), DIGEST))
    bench.accept(ROOT, c.BelieveRegion("eu", "its token was stolen"))
    for number in range(TEMPLATES_MAX + 1):
        bench.put(a_workload(replicas=1, template=replace(a_template(), restarted=bench.at + 1 + number)))
    for weight in range(1, POLICIES_MAX + 2):
        bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(scores=(("packing", weight),))))
    bench.put(a_tenant("gamma", "normal"))
    bench.put(a_quota("gamma", cpu(1_000)))
    bench.settle("eu", bench.offer("eu", cpu(500), "quota/gamma"), cpu(500), "quota/gamma")
    bench.settle("eu", bench.offer("eu", cpu(0), "quota/gamma"), cpu(0), "quota/gamma")
    bench.accept(ROOT, c.Delete("Quota", "gamma"))
    bench.put(a_region("ap", "AP", "https://ap.example:7400"))
    bench.join("ap")
    for name in ("one", "two"):
        bench.hold(bench.put(an_exclusive(name, replicas=2)), "ap", 0, 1)
    with mock.patch.object(region_retirement, "OBJECTS_MAX", 1):
        bench.retire("ap")
        while bench.state.regions["ap"].status.unreleased:
            bench.accept(RETIREMENT, c.ReleaseRetired("ap"))
