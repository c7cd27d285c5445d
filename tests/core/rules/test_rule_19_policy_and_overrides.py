"""RULES 19: overrides end by absolute time and give authority back, no more; exactly one policy is valid at a time."""

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument, PolicyStage
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import FAILOVER, GRANT, REGION_HEALTH
from holdfast.core.platform.state.lookups import valid_policy
from tests.support.ledgers.platform import DIGEST, HOUR, ROOT, PlatformBench, a_workload, a_world, an_exclusive, cpu


def publish(bench: PlatformBench, packing: int) -> int:
    return bench.accept(ROOT, c.PublishPolicy("packed", PolicyDocument(scores=(("packing", packing),))))


def valid(bench: PlatformBench, region: str, tenant: str = "acme") -> int:
    return valid_policy(bench.state, region, tenant).revision


def test_rollback_of_a_pinned_policy_names_its_successor() -> None:
    bench = a_world()
    good, bad = publish(bench, 1), publish(bench, 2)
    bench.accept(ROOT, c.ActivatePolicy(good, "eu"))
    bench.accept(ROOT, c.ActivatePolicy(bad, "eu", "acme", PolicyStage.ACTIVE))
    bench.accept(ROOT, c.RollBackPolicy(bad, good, "it was worse"))
    assert bench.state.validities["eu|acme"].revision == good
    assert bench.state.policies[bad].stage is PolicyStage.ROLLED_BACK
    assert bench.state.policies[good].stage is PolicyStage.ACTIVE


def test_a_rollback_reaches_every_region_and_scope_in_one_commit() -> None:
    bench = a_world()
    bad, other = publish(bench, 2), publish(bench, 3)
    for region, scope in (("eu", ""), ("us", ""), ("us", "beta")):
        bench.accept(ROOT, c.ActivatePolicy(bad, region, scope))
    bench.accept(ROOT, c.ActivatePolicy(other, "us2"))
    batches = len(bench.log)
    bench.accept(ROOT, c.RollBackPolicy(bad, 0, "it was worse"))
    assert len(bench.log) == batches + 1
    assert [valid(bench, region, "beta") for region in ("eu", "us", "us2")] == [0, 0, other]


def test_there_is_a_valid_policy_before_anybody_has_published_one() -> None:
    assert valid(a_world(), "eu") == 0


def test_one_activation_replaces_the_other() -> None:
    bench = a_world()
    first, second = publish(bench, 1), publish(bench, 2)
    for policy in (first, second):
        bench.accept(ROOT, c.ActivatePolicy(policy, "eu"))
    assert valid(bench, "eu") == second
    assert len(bench.state.validities) == 1


def test_a_draft_named_as_successor_is_in_force_from_then_on() -> None:
    bench = a_world()
    bad, draft = publish(bench, 2), publish(bench, 3)
    bench.accept(ROOT, c.ActivatePolicy(bad, "eu"))
    bench.accept(ROOT, c.RollBackPolicy(bad, draft, "it was worse"))
    assert (valid(bench, "eu"), bench.state.policies[draft].stage) == (draft, PolicyStage.CANARY)


def test_the_rollback_of_a_draft_that_is_valid_nowhere_leaves_its_successor_as_it_was() -> None:
    bench = a_world()
    bad, draft = publish(bench, 2), publish(bench, 3)
    bench.accept(ROOT, c.RollBackPolicy(bad, draft, "it was worse"))
    assert bench.state.policies[draft].stage is PolicyStage.DRAFT


def declared_lost(life: int = HOUR) -> tuple[PlatformBench, int, int]:
    """eu holds an identity and all of a quota, and a person declares it lost for a while."""
    bench = a_world()
    db = bench.put(an_exclusive(leased=True))
    bench.hold(db, "eu", 0)
    bench.settle("eu", bench.offer("eu", cpu(10_000)), cpu(10_000))
    held = OpenOverride(OverrideAction.DECLARE_LOST, "eu", "eu", "no answer by phone either", bench.at + life)
    uid = bench.accept(ROOT, held)
    bench.accept(ROOT, c.DeclareLost("eu", "no answer by phone either"))
    return bench, db, uid


def test_declare_lost_ending_on_a_dead_region_gives_nothing_back() -> None:
    bench, db, uid = declared_lost(life=1_000)
    bench.later(1_000)
    bench.accept("controller/override", EndOverride(uid, "its end has come"))
    assert bench.state.regions["eu"].status.health is RegionHealth.LOST
    assert bench.charged() == cpu(10_000)
    bench.refuse(Code.TOO_EARLY, FAILOVER, c.GrantRight(db, 0, "us"))
    bench.refuse(Code.TOO_EARLY, REGION_HEALTH, c.JudgeRegion("eu", RegionHealth.HEALTHY, "the override has ended"))


def test_the_end_of_declare_lost_returns_the_judgement_to_region_health_which_needs_evidence() -> None:
    bench, _, uid = declared_lost()
    bench.later(1)
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    bench.refuse(Code.PAUSED, REGION_HEALTH, c.JudgeRegion("eu", RegionHealth.HEALTHY, "it speaks"))
    bench.accept(ROOT, EndOverride(uid, "it answers"))
    bench.judge("eu", RegionHealth.HEALTHY)


def test_an_override_past_its_end_holds_nothing_even_while_it_is_still_listed() -> None:
    bench, _, uid = declared_lost(life=1_000)
    bench.later(1_000)
    bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    assert uid in bench.state.overrides
    bench.judge("eu", RegionHealth.HEALTHY)


def test_an_emergency_pays_for_nothing_new_after_its_end() -> None:
    bench = a_world()
    uid = bench.emergency(3_000, life=1_000)
    bench.later(1_000)
    bench.refuse(Code.EXPIRED, GRANT, c.OfferGrant(f"emergency/{uid}", "eu", cpu(1), bench.at + 1))
    web = bench.put(a_workload())
    assert bench.state.assignments[bench.assign(web, "eu", 1)].accounts == ("quota/acme",)


def test_what_an_emergency_lent_is_not_lent_longer_once_a_person_has_ended_it() -> None:
    """A renewal that was on its way when the emergency ended would outlive it by a grant's whole life."""
    bench = a_world()
    uid = bench.emergency(3_000)
    account = f"emergency/{uid}"
    bench.offer("eu", cpu(1_000), account, ends=bench.at + 1_000)
    bench.accept(ROOT, EndOverride(uid, "the launch is over"))
    bench.refuse(Code.NOT_FOUND, GRANT, c.OfferGrant(account, "eu", cpu(1_000), bench.at + HOUR))
    bench.refuse(Code.NOT_FOUND, GRANT, c.OfferGrant(account, "eu", cpu(999), bench.at + HOUR))
    bench.accept(GRANT, c.OfferGrant(account, "eu", cpu(500), bench.at + 900))
    bench.accept(GRANT, c.OfferGrant(account, "eu", cpu(0), bench.at + HOUR))


def test_a_region_that_joins_anew_while_a_person_declares_it_lost_is_lost() -> None:
    bench, _, _ = declared_lost()
    bench.retire("eu")
    bench.open_session("eu")
    bench.join("eu", "log-eu-2")
    assert bench.state.regions["eu"].status.health is RegionHealth.LOST


def test_an_override_needs_a_reason_and_an_end_that_is_not_too_far_away() -> None:
    bench = a_world()
    life = bench.state.info.settings.override_life
    bench.refuse(Code.MALFORMED, ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "", "", " ", bench.at + 1))
    for ends in (bench.at, bench.at + life + 1):
        bench.refuse(Code.EXPIRED, ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "", "", "why", ends))
