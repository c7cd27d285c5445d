"""A short life of the platform in which every event happens: what its golden log is recorded from."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.digest import state_digest
from holdfast.core.ledger.house import Configure, RecordDigest
from holdfast.core.ledger.overrides import EndOverride
from holdfast.core.model.allotment import Purpose, Stage
from holdfast.core.model.control import PolicyDocument, PolicyStage
from holdfast.core.model.meta import Condition, Reason, Truth
from holdfast.core.model.resources import Resources
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.platform import commands as c
from holdfast.core.platform.book import ASSIGNMENT, FAILOVER, STATUS
from tests.support.platform import (
    ACME,
    ROOT,
    PlatformBench,
    a_pool,
    a_quota,
    a_template,
    a_tenant,
    a_token,
    a_workload,
    a_world,
    an_exclusive,
    cpu,
)


def platform_story() -> PlatformBench:
    """Objects, work, lending, identities, a lost and a retired region, policies, endings."""
    bench = a_world()
    bench.put(a_token())
    bench.put(a_pool())
    _work(bench)
    _lending(bench)
    _identities(bench)
    _steering(bench)
    _loss(bench)
    _endings(bench)
    bench.accept("ledger", RecordDigest(bench.state.facts.seq, state_digest(bench.state)))
    return bench


def _work(bench: PlatformBench) -> None:
    web = bench.put(a_workload("web", budget="reserve", disruption_max=2))
    bench.assign(web, "eu", 2, disruption=1)
    bench.assign(web, "us", 1, disruption=1)
    bench.assign(web, "us", 2, purpose=Purpose.RECOVERY, stage=Stage.STANDBY)
    bench.put(a_workload("web", budget="reserve", template=a_template(command="v2"), disruption_max=1))
    bench.assign(web, "us", 1)
    ready = Condition(type="Progressing", status=Truth.TRUE, reason=Reason.PROGRESSING, message="1 of 3")
    bench.accept(STATUS, c.ReportStatus(web, 2, 3, 2, 1, (ready,)))


def _lending(bench: PlatformBench) -> None:
    wide = Resources(cpu=8_000, extended=(("fpga", 2),))
    bench.put(a_quota("acme", wide, protected=cpu(1_000)))
    bench.settle("eu", bench.offer("eu", wide, protected=cpu(500)), wide)
    bench.put(a_quota("acme", cpu(5_000)))
    bench.settle("eu", bench.offer("eu", cpu(2_000)), cpu(3_000))
    bench.settle("eu", 2, cpu(2_000))
    bench.offer("us", cpu(3_000), "recovery/reserve")
    emergency = bench.emergency(1_000)
    account = f"emergency/{emergency}"
    bench.settle("eu", bench.offer("eu", cpu(1_000), account), cpu(1_000), account)
    bench.accept(ROOT, EndOverride(emergency, "the launch is over"))
    bench.settle("eu", bench.offer("eu", cpu(0), account), cpu(0), account)


def _identities(bench: PlatformBench) -> None:
    db = bench.put(an_exclusive("db", leased=True))
    bench.hold(db, "eu", 0, 1)
    bench.accept("region/eu", c.ReleaseRight(db, 0))
    bench.hold(db, "us", 0)
    bench.accept(ROOT, c.AttestRight(db, 0, "us", "its node was taken apart"))


def _steering(bench: PlatformBench) -> None:
    first, second = (bench.accept(ROOT, c.PublishPolicy(PolicyDocument(packing=packing))) for packing in (2, 3))
    bench.put(a_tenant("guest"))
    bench.accept(ROOT, c.ActivatePolicy(first, "eu", "guest", PolicyStage.ACTIVE))
    bench.accept(ROOT, c.ActivatePolicy(first, "us"))
    bench.accept(ROOT, c.RollBackPolicy(first, second))
    bench.accept(ROOT, c.Delete("Tenant", "guest"))
    bench.accept(ROOT, Configure(replace(DEFAULTS, grant_life=40_000_000)))


def _loss(bench: PlatformBench) -> None:
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 40, 1 << 20))
    bench.join("us")
    bench.lose("eu")
    standby = next(a for a in bench.state.assignments.values() if a.stage is Stage.STANDBY)
    bench.accept(FAILOVER, c.Activate(standby.uid))
    db = bench.workload("db").meta.uid
    bench.later(100_000)
    bench.accept(FAILOVER, c.GrantRight(db, 1, "us"))


def _endings(bench: PlatformBench) -> None:
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    bench.retire("eu")
    for assignment in bench.state.assignments.values():
        bench.accept("region/us", c.RemoveAssignment(assignment.uid))
    for uid, workload in bench.state.workloads.items():
        if workload.meta.finalizers:
            bench.accept("region/us", c.ReleaseFinalizer(uid, "us"))
    bench.join("eu", "log-eu-2")
    last = bench.put(a_workload("last"))
    uid = bench.assign(last, "eu", 1)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
