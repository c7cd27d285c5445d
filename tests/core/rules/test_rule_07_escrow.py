"""RULES 7: escrow.

Otherwise crossing shrink and raise, an acknowledgement from memory, or a cut region's emergency quota sell one unit
twice; and recovery is refused by quota that sits in the dead region.
"""

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.resources import ZERO
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import FAILOVER, GRANT
from holdfast.core.platform.limits import VERSION_MAX
from holdfast.core.platform.queries.accounts import effective_quota
from tests.support.ledgers.platform import (
    HOUR,
    ROOT,
    PlatformBench,
    a_principal,
    a_quota,
    a_region,
    a_tenant,
    a_workload,
    a_world,
    cpu,
)


def all_in_eu() -> PlatformBench:
    """eu has settled on all that the quota has."""
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(10_000)), cpu(10_000))
    return bench


def no_more(bench: PlatformBench, region: str, milli: int, account: str = "quota/acme") -> None:
    bench.refuse(Code.OVER_QUOTA, GRANT, c.OfferGrant(account, region, cpu(milli), bench.at + HOUR))


def test_crossing_shrink_and_raise_never_sells_a_unit_twice() -> None:
    bench = all_in_eu()
    shrink = bench.offer("eu", cpu(2_000))
    raised = bench.offer("eu", cpu(6_000))
    # The shrink is acknowledged while the raise is still on its way: the region may act on 6,000 any moment.
    bench.settle("eu", shrink, cpu(2_000))
    assert bench.charged() == cpu(6_000)
    bench.offer("us", cpu(4_000))
    no_more(bench, "us2", 1)
    bench.settle("eu", raised, cpu(6_000))
    assert bench.charged() == cpu(10_000)


def test_an_acknowledgement_of_an_older_version_keeps_the_newer_offer_charged() -> None:
    bench = a_world()
    bench.offer("eu", cpu(3_000))
    bench.offer("eu", cpu(9_000))
    bench.offer("eu", cpu(1_000))
    bench.settle("eu", 1, cpu(3_000))
    assert bench.charged() == cpu(9_000)
    bench.settle("eu", 3, cpu(9_000))
    assert bench.charged() == cpu(9_000)


def test_an_acknowledgement_that_was_overtaken_changes_nothing() -> None:
    bench = all_in_eu()
    bench.settle("eu", bench.offer("eu", cpu(4_000)), cpu(4_000))
    bench.settle("eu", bench.offer("eu", cpu(8_000)), cpu(8_000))
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(4_000)))
    assert bench.charged() == cpu(8_000)


def test_a_shrink_is_worth_what_the_region_settled_on() -> None:
    bench = all_in_eu()
    shrink = bench.offer("eu", cpu(2_000))
    no_more(bench, "us", 1)
    bench.settle("eu", shrink, cpu(7_000))
    no_more(bench, "us", 3_001)
    bench.offer("us", cpu(3_000))


def test_a_lowered_quota_lowers_the_target_and_follows_acknowledgements() -> None:
    bench = all_in_eu()
    bench.put(a_quota("acme", cpu(4_000)))
    quota = bench.state.quotas["acme"]
    assert effective_quota(bench.state, quota) == cpu(10_000)
    bench.settle("eu", bench.offer("eu", cpu(4_000)), cpu(6_000))
    assert effective_quota(bench.state, quota) == cpu(6_000)
    bench.settle("eu", 2, cpu(4_000))
    assert effective_quota(bench.state, quota) == cpu(4_000)


def test_nothing_is_added_while_above_target() -> None:
    bench = all_in_eu()
    bench.put(a_quota("acme", cpu(4_000)))
    no_more(bench, "us", 1)
    bench.offer("eu", cpu(1_000))
    # Less than what is charged, and still an addition to what the region may have shrunk to already.
    no_more(bench, "eu", 1_001)


def test_the_end_of_a_grant_returns_nothing_from_a_region_that_is_cut_off() -> None:
    bench = all_in_eu()
    bench.later(100 * HOUR)
    no_more(bench, "us", 1)
    assert bench.charged() == cpu(10_000)


def test_a_lost_region_returns_nothing() -> None:
    bench = all_in_eu()
    bench.lose("eu")
    bench.later(100 * HOUR)
    bench.offer("eu", cpu(0))
    no_more(bench, "us", 1)


def test_a_retired_region_returns_everything() -> None:
    bench = all_in_eu()
    bench.lose("eu")
    bench.retire("eu")
    bench.offer("us", cpu(10_000))


def test_recovery_is_not_refused_by_quota_that_sits_in_the_dead_region() -> None:
    bench = all_in_eu()
    web = bench.put(a_workload(budget="reserve"))
    bench.assign(web, "eu", 2)
    standby = bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    bench.offer("us", cpu(4_000), "recovery/reserve")
    bench.lose("eu")
    bench.accept(FAILOVER, c.Activate(standby))
    assert bench.state.assignments[standby].accounts == ("recovery/reserve",)
    no_more(bench, "us", 1)


def test_recovered_work_is_moved_to_the_quota_by_adoption_and_by_nothing_else() -> None:
    bench = all_in_eu()
    web = bench.put(a_workload(budget="reserve"))
    bench.lose("eu")
    uid = bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY)
    bench.retire("eu")
    assert bench.state.assignments[uid].accounts == ("recovery/reserve",)
    bench.accept(FAILOVER, c.Adopt(uid))
    assert bench.state.assignments[uid].accounts == ("quota/acme",)


def test_a_cut_regions_emergency_quota_is_not_lent_again_when_the_emergency_ends() -> None:
    bench = a_world()
    uid = bench.emergency(3_000)
    bench.offer("eu", cpu(3_000), f"emergency/{uid}")
    bench.later(HOUR)
    bench.accept("controller/override", EndOverride(uid, "its end has come"))
    assert bench.charged(f"emergency/{uid}") == cpu(3_000)
    bench.refuse(Code.NOT_FOUND, GRANT, c.OfferGrant(f"emergency/{uid}", "us", cpu(1), bench.at + HOUR))


def test_one_emergency_is_lent_once_over_all_regions() -> None:
    bench = a_world()
    account = f"emergency/{bench.emergency(3_000)}"
    bench.offer("eu", cpu(2_000), account)
    no_more(bench, "us", 1_001, account)
    bench.offer("us", cpu(1_000), account)


def test_an_acknowledgement_from_another_life_of_the_region_is_not_heard() -> None:
    bench = all_in_eu()
    shrink = bench.offer("eu", cpu(0))
    bench.open_session("eu")
    bench.refuse(Code.NO_SESSION, "region/eu", c.AcknowledgeGrant("quota/acme", shrink, cpu(0)))
    bench.refuse(Code.DIVERGED, "region/eu", c.JoinRegion("eu", "log-restored"))
    assert bench.charged() == cpu(10_000)


def test_a_repeated_acknowledgement_gets_the_first_answer() -> None:
    bench = all_in_eu()
    bench.offer("eu", cpu(2_000))
    envelope = bench.envelope("region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(5_000)))
    first, again = bench.give(envelope), bench.give(envelope)
    assert first.revision == again.revision  # type: ignore[union-attr]
    assert bench.charged() == cpu(5_000)


def test_a_quota_that_is_lent_cannot_be_deleted_and_made_anew() -> None:
    bench = all_in_eu()
    bench.refuse(Code.IN_USE, ROOT, c.Delete("Quota", "acme"))


def test_versions_go_on_where_they_were_when_a_quota_is_made_anew() -> None:
    """A region drops what is not newer than what it has logged: version 1 again would never reach it."""
    bench = all_in_eu()
    bench.settle("eu", bench.offer("eu", cpu(0)), cpu(0))
    bench.accept(ROOT, c.Delete("Quota", "acme"))
    bench.put(a_quota("acme", cpu(5_000)))
    assert bench.offer("eu", cpu(1_000)) == 3


def test_grants_at_nothing_go_with_their_quota_and_no_version_comes_again() -> None:
    """Otherwise a row is left for every tenant and region that there ever was."""
    bench = a_world()
    for number in range(30):
        bench.put(a_tenant(f"t{number}", "normal"))
        bench.put(a_quota(f"t{number}", cpu(1_000)))
        account = f"quota/t{number}"
        for region in ("eu", "us"):
            lent = bench.offer(region, cpu(100), account)
            bench.settle(region, lent, cpu(100), account)
            bench.settle(region, bench.offer(region, cpu(0), account), cpu(0), account)
        bench.accept(ROOT, c.Delete("Quota", f"t{number}"))
        bench.accept(ROOT, c.Delete("Tenant", f"t{number}"))
    assert list(bench.state.grants.items()) == []
    bench.put(a_tenant("t0", "normal"))
    bench.put(a_quota("t0", cpu(1_000)))
    assert bench.offer("eu", cpu(100), "quota/t0") == 61


def test_what_a_region_gives_back_of_a_budget_that_is_gone_leaves_no_row() -> None:
    bench = a_world()
    bench.accept("region/eu", c.AcknowledgeGrant("quota/nobody", 4, cpu(100), 7))
    assert bench.grant("eu", "quota/nobody").offered == cpu(100)
    version = bench.grant("eu", "quota/nobody").version
    bench.settle("eu", version, cpu(0), "quota/nobody")
    assert list(bench.state.grants.items()) == []


def test_what_a_region_gives_back_of_a_budget_that_is_gone_is_settled_at_the_first_level_too() -> None:
    bench = PlatformBench(1)
    bench.put(a_principal("region/*"))
    bench.put(a_region("eu"))
    bench.join("eu")
    bench.accept("region/eu", c.AcknowledgeGrant("quota/nobody", 4, cpu(100), 7))
    bench.settle("eu", bench.grant("eu", "quota/nobody").version, cpu(0), "quota/nobody")
    assert bench.grant("eu", "quota/nobody").offered == ZERO
    assert bench.charged("quota/nobody") == ZERO


@pytest.mark.parametrize("account", ["quota/nobody", "quota/acme"])
def test_what_one_region_says_of_versions_keeps_no_other_from_settling(account: str) -> None:
    """Otherwise one region's word is above what any region may acknowledge, and nothing is lent any more."""
    bench = a_world()
    bench.settle("us", bench.offer("us", cpu(0)), cpu(0))
    bench.accept("region/eu", c.AcknowledgeGrant(account, VERSION_MAX - 2, cpu(1), 7))
    bench.settle("eu", bench.grant("eu", account).version, cpu(0), account)
    bench.accept(ROOT, c.Delete("Quota", "acme"))
    bench.put(a_quota("acme", cpu(5_000)))
    bench.settle("us", bench.offer("us", cpu(100)), cpu(100))
    assert bench.grant("us").settled == cpu(100)


def test_the_highest_version_that_can_be_claimed_keeps_its_own_region_from_nothing_either() -> None:
    """Otherwise who had its token for a moment has made the next version one that is never acknowledged."""
    bench = a_world()
    bench.offer("eu", cpu(100))
    bench.refuse(Code.MALFORMED, "region/eu", c.AcknowledgeGrant("quota/acme", VERSION_MAX, cpu(100), 7))
    bench.accept("region/eu", c.AcknowledgeGrant("quota/acme", VERSION_MAX - 1, cpu(100), 7))
    bench.settle("eu", bench.grant("eu").version, cpu(100))
    bench.settle("eu", bench.offer("eu", cpu(200)), cpu(200))
    assert (bench.grant("eu").settled, bench.grant("eu").offers) == (cpu(200), ())


def test_what_somebody_gave_back_in_a_regions_name_is_charged_again_by_its_word_in_its_next_session() -> None:
    """Otherwise what the region holds is lent to another as well, whatever it says: it was read from further on."""
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(1_000)), cpu(1_000))
    version = bench.offer("eu", cpu(0))
    bench.accept("region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(0), 2**60))
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(800), 20))
    bench.join("eu")
    bench.accept("region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(800), 20))
    assert (bench.grant("eu").settled, bench.grant("eu").position) == (cpu(800), 20)
    bench.accept("region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(500), 22))
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(800), 21))


def test_a_platform_restored_to_an_older_state_lends_nothing_again_once_regions_have_spoken() -> None:
    """Otherwise what eu was lent after the backup is lent to us as well: the sum of both is more than the quota."""
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(2_000)), cpu(2_000))
    restored = bench.fork()
    bench.settle("eu", bench.offer("eu", cpu(9_000)), cpu(9_000))
    restored.offer("us", cpu(7_000))  # before eu is heard nobody can know
    for region, position in (("eu", 20), ("us", 7)):
        restored.open_session(region)
        restored.accept(f"region/{region}", c.JoinRegion(region, f"log-{region}"))
        settled = c.AcknowledgeGrant("quota/acme", 1, cpu(9_000 if region == "eu" else 7_000), position)
        restored.accept(f"region/{region}", settled)
    assert restored.charged() == cpu(16_000)
    assert restored.state.breaches["platform.escrow", "quota/acme/cpu"].overshoot == 6_000
    for region in ("eu", "us", "us2"):
        no_more(restored, region, 9_001)
    restored.settle("eu", 1, cpu(3_000))
    assert (restored.charged(), restored.state.breaches.items()) == (cpu(10_000), [])
