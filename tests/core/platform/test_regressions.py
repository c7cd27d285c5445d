"""What random programs against the simple model, and the reading for it, have found: each as small as it gets."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Placement
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import FAILOVER, REGION_HEALTH
from tests.support.ledgers.platform import (
    DIGEST,
    HOUR,
    ROOT,
    SECOND,
    a_principal,
    a_region,
    a_workload,
    a_world,
    an_exclusive,
)


def test_one_log_speaks_for_one_region_only() -> None:
    """Retiring either would tombstone the log of the other, which goes on speaking (RULES 8)."""
    bench = a_world()
    bench.put(a_region("ap"))
    bench.open_session("ap")
    answer = bench.send("region/ap", c.JoinRegion("ap", "log-eu"))
    assert isinstance(answer, Refused)


def test_a_region_given_a_lawful_jurisdiction_closes_the_breach_that_this_cures() -> None:
    """A breach is closed by the command that cures it (RULES 18); this one stays open, with nothing misplaced."""
    bench = a_world()
    web = bench.put(a_workload())
    bench.assign(web, "eu", 2)
    bench.put(a_workload(jurisdictions=("US",)))
    assert bench.state.breaches.get(("platform.residency", str(web))) is not None
    bench.put(a_region("eu", "US"))
    assert bench.state.breaches.get(("platform.residency", str(web))) is None


def test_a_lease_that_was_told_is_waited_for_after_leases_were_shortened() -> None:
    """The region may be cut off before it hears of the shorter lease, and then runs on until the end it was told."""
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    bench.hold(db, "eu", 0, 1)
    told = bench.assignments(db)[0].right_until
    bench.accept(ROOT, Configure(replace(DEFAULTS, right_lease=1 * SECOND)))
    bench.assign(db, "eu", ordinals=(0,))
    bench.accept(ROOT, c.DeclareLost("eu", "cut off"))
    bench.later(35 * SECOND)
    assert bench.at < told
    assert bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us")).facts["until"] > told


def test_a_lease_that_was_told_is_waited_for_after_the_ordinals_were_taken_off_the_list() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    bench.hold(db, "eu", 0)
    told = bench.assignments(db)[0].right_until
    bench.accept(ROOT, Configure(replace(DEFAULTS, right_lease=1 * SECOND)))
    bench.assign(db, "eu")
    bench.accept(ROOT, c.DeclareLost("eu", "cut off"))
    bench.later(35 * SECOND)
    assert bench.at < told
    assert bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us")).facts["until"] > told


def test_an_operator_of_one_region_cannot_hold_another_region_lost() -> None:
    """An override holds in its region; the target alone must not reach beyond the scope of the person."""
    bench = a_world()
    bench.put(a_principal("person/us", *Permission, region="us"))
    bench.send("person/us", OpenOverride(OverrideAction.DECLARE_LOST, "us", "eu", "why not", bench.at + HOUR))
    bench.lose("eu")
    bench.later(1)
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    bench.accept(REGION_HEALTH, c.JudgeRegion("eu", RegionHealth.HEALTHY, "heard"))


def test_an_operator_of_one_tenant_cannot_raise_the_quota_of_another_or_pause_everybody() -> None:
    """A right holds in its scope; DeclareLost, Put and RollBackPolicy all refuse a person whose scope is a tenant."""
    bench = a_world()
    bench.put(a_principal("person/beta", *Permission, tenant="beta"))
    facts = (("cpu", "1000"), ("tenant", "acme"))
    ends = bench.at + HOUR
    emergency = OpenOverride(OverrideAction.EMERGENCY_QUOTA, "", "acme", "a launch", ends, facts)
    bench.refuse(Code.WRONG_SCOPE, "person/beta", emergency)
    pause = OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "", "an incident", ends)
    bench.refuse(Code.WRONG_SCOPE, "person/beta", pause)


def test_a_region_that_a_workload_weighs_is_in_use() -> None:
    """Weights name regions and are checked when they are stored: the next change of the workload would be refused."""
    bench = a_world()
    bench.put(a_workload(placement=Placement(weights=(("us2", 2),))))
    bench.retire("us2")
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Region", "us2"))


def test_a_repeat_is_not_executed_again_after_the_window_was_lengthened() -> None:
    """Its key is forgotten under the short window; under the long one it would count as new (RULES 12)."""
    bench = a_world()
    bench.accept(ROOT, Configure(replace(DEFAULTS, retry_window=HOUR)))
    once = bench.envelope(ROOT, c.PublishPolicy("packed", PolicyDocument()))
    assert isinstance(bench.give(once), Committed)
    bench.later(2 * HOUR)
    bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(scores=(("packing", 3),))))
    bench.accept(ROOT, Configure(DEFAULTS))
    assert not isinstance(bench.give(once), Committed)


def test_a_repeat_is_not_executed_again_after_fast_clocks_were_given_less() -> None:
    """Its key is kept by when it came, its repeat is judged by when it says it was sent (RULES 12)."""
    bench = a_world()
    early = DEFAULTS.sent_ahead - SECOND
    once = bench.envelope(ROOT, c.PublishPolicy("packed", PolicyDocument()), sent=bench.at + early)
    assert isinstance(bench.give(once), Committed)
    bench.accept(ROOT, Configure(replace(DEFAULTS, sent_ahead=SECOND)))
    bench.later(DEFAULTS.retry_window + 2 * SECOND)
    assert not isinstance(bench.give(once), Committed)


def test_an_operator_of_a_tenant_named_like_a_region_cannot_hold_that_region_lost() -> None:
    """What a target is depends on the action: here it is a region, and no tenant's operator speaks for one."""
    bench = a_world()
    bench.put(a_principal("person/eu", *Permission, tenant="eu"))
    declared = OpenOverride(OverrideAction.DECLARE_LOST, "", "eu", "why not", bench.at + HOUR)
    bench.refuse(Code.WRONG_SCOPE, "person/eu", declared)


def test_the_end_of_a_lease_that_a_region_was_told_is_forgotten_with_its_last_right() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    bench.hold(db, "eu", 0)
    assert db in bench.state.leases
    asked = bench.ask_back(db, "eu", 0)
    bench.accept("region/eu", c.ReleaseRights(db, (0,), asked))
    assert db not in bench.state.leases
