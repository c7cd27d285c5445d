"""OfferGrant and AcknowledgeGrant: lending to regions. The executions of RULES 7 are in tests/core/rules."""

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.grants import GrantOffer, grant_key
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import GRANT, PLATFORM
from holdfast.core.platform.events import GrantStored
from holdfast.core.platform.limits import OFFERS_MAX
from holdfast.core.platform.queries.accounts import effective_quota
from tests.support.ledgers.platform import HOUR, ROOT, PlatformBench, a_quota, a_world, cpu

END = 60_000


def offer(at: int, region: str, target: Resources, account: str = "quota/acme") -> c.OfferGrant:
    return c.OfferGrant(account, region, target, at + END)


def test_the_first_offer_is_version_one_and_charged_at_once() -> None:
    bench = a_world()
    bench.offer("eu", cpu(4_000))
    grant = bench.grant("eu")
    assert (grant.version, grant.acknowledged, grant.offers) == (1, 0, (GrantOffer(1, cpu(4_000)),))
    assert (grant.offered, bench.charged()) == (cpu(4_000), cpu(4_000))


def test_slices_of_all_regions_fit_the_quota() -> None:
    bench = a_world()
    bench.offer("eu", cpu(6_000))
    bench.offer("us", cpu(4_000))
    refused = bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "us2", cpu(1)))
    assert (refused.facts["resource"], refused.facts["limit"]) == ("cpu", cpu(10_000))


def test_a_resource_that_a_quota_does_not_name_is_not_lent() -> None:
    bench = a_world()
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", Resources(memory=1)))
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", Resources(extended=(("fpga", 1),))))


def test_a_shrink_returns_nothing_until_it_is_acknowledged() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(10_000)), cpu(10_000))
    version = bench.offer("eu", cpu(2_000))
    assert bench.charged() == cpu(10_000)
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "us", cpu(1)))
    bench.settle("eu", version, cpu(3_000))
    assert bench.charged() == cpu(3_000)
    bench.offer("us", cpu(7_000))


def test_the_same_offer_once_more_changes_nothing_and_a_later_end_is_the_next_version() -> None:
    bench = a_world()
    bench.offer("eu", cpu(1_000), ends=bench.at + END)
    bench.refuse(Code.ALREADY, GRANT, offer(bench.at, "eu", cpu(1_000)))
    assert bench.offer("eu", cpu(1_000), ends=bench.at + END + 1) == 2


def test_an_extended_resource_of_which_there_is_none_is_not_named() -> None:
    bench = a_world()
    target = Resources(cpu=1, extended=(("fpga", 0),))
    bench.refuse(Code.MALFORMED, GRANT, c.OfferGrant("quota/acme", "eu", target, bench.at + 1000))


def test_a_grant_ends_after_now_and_within_its_longest_life() -> None:
    bench = a_world()
    life = bench.state.info.settings.grant_life
    for ends in (bench.at, bench.at + life + 1):
        bench.refuse(Code.EXPIRED, GRANT, c.OfferGrant("quota/acme", "eu", cpu(1), ends))
    bench.offer("eu", cpu(1), ends=bench.at + life)


def test_the_end_of_a_grant_returns_nothing_by_itself() -> None:
    bench = a_world()
    bench.offer("eu", cpu(10_000))
    bench.later(10 * HOUR)
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "us", cpu(1)))


@pytest.mark.parametrize("account", ["acme", "quota", "gold/acme", "emergency/x", "emergency/007", "emergency/"])
def test_what_is_no_account_lends_nothing(account: str) -> None:
    bench = a_world()
    answer = bench.send(GRANT, offer(bench.at, "eu", cpu(1), account))
    assert answer.code in (Code.MALFORMED, Code.NOT_FOUND)  # type: ignore[union-attr]


def test_an_account_or_region_that_is_not_there_lends_nothing() -> None:
    bench = a_world()
    for account in ("quota/nobody", "recovery/nothing", "emergency/7"):
        bench.refuse(Code.NOT_FOUND, GRANT, offer(bench.at, "eu", cpu(1), account))
    bench.refuse(Code.NOT_FOUND, GRANT, offer(bench.at, "ap", cpu(1)))
    bench.refuse(Code.MALFORMED, GRANT, offer(bench.at, "eu", cpu(-1)))


def test_only_the_grant_controller_offers() -> None:
    bench = a_world()
    for sender in (ROOT, "region/eu", "controller/assignment"):
        bench.refuse(Code.NO_RIGHT, sender, offer(bench.at, "eu", cpu(1)))


def test_nothing_more_is_lent_to_a_lost_region_and_less_may_be_asked() -> None:
    bench = a_world()
    bench.offer("eu", cpu(5_000))
    bench.judge("eu", RegionHealth.SUSPECT)
    bench.offer("eu", cpu(6_000))
    bench.judge("eu", RegionHealth.LOST)
    bench.refuse(Code.REGION_UNAVAILABLE, GRANT, offer(bench.at, "eu", cpu(6_001)))
    bench.offer("eu", cpu(1_000))
    assert bench.charged() == cpu(6_000)


def test_nothing_is_lent_to_a_retired_region() -> None:
    bench = a_world()
    bench.retire("eu")
    bench.refuse(Code.REGION_UNAVAILABLE, GRANT, offer(bench.at, "eu", cpu(0)))


def test_a_region_that_does_not_answer_is_offered_so_many_times_and_no_more() -> None:
    bench = a_world()
    for number in range(OFFERS_MAX):
        bench.offer("eu", cpu(number))
    bench.refuse(Code.TOO_MANY_IN_FLIGHT, GRANT, offer(bench.at, "eu", cpu(0)))
    bench.settle("eu", 1, cpu(0))
    bench.offer("eu", cpu(0))


def test_protected_amounts_are_within_the_target_and_together_within_the_quota() -> None:
    bench = a_world()
    bench.put(a_quota("acme", cpu(10_000), protected=cpu(3_000)))
    bench.offer("eu", cpu(5_000), protected=cpu(2_000))
    bench.refuse(Code.CONTRADICTORY, GRANT, c.OfferGrant("quota/acme", "us", cpu(500), bench.at + END, cpu(501)))
    bench.refuse(Code.OVER_QUOTA, GRANT, c.OfferGrant("quota/acme", "us", cpu(5_000), bench.at + END, cpu(1_001)))
    bench.offer("us", cpu(5_000), protected=cpu(1_000))


def test_only_a_quota_protects() -> None:
    bench = a_world()
    offered = c.OfferGrant("recovery/reserve", "us", cpu(500), bench.at + END, cpu(1))
    bench.refuse(Code.OVER_QUOTA, GRANT, offered)


def test_a_recovery_budget_has_its_limit_in_each_region() -> None:
    bench = a_world()
    bench.offer("eu", cpu(4_000), "recovery/reserve")
    bench.offer("us", cpu(4_000), "recovery/reserve")
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", cpu(4_001), "recovery/reserve"))
    bench.refuse(Code.CONTRADICTORY, GRANT, offer(bench.at, "us2", cpu(1), "recovery/reserve"))
    assert bench.charged() == ZERO


def test_an_emergency_lends_what_it_says_until_it_ends_where_it_holds() -> None:
    bench = a_world()
    account = f"emergency/{bench.emergency(3_000, region='eu', life=HOUR)}"
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", cpu(3_001), account))
    bench.refuse(Code.CONTRADICTORY, GRANT, offer(bench.at, "us", cpu(1), account))
    bench.refuse(Code.EXPIRED, GRANT, c.OfferGrant(account, "eu", cpu(1), bench.at + HOUR + 1))
    bench.offer("eu", cpu(3_000), account, ends=bench.at + HOUR)
    bench.later(HOUR)
    bench.refuse(Code.EXPIRED, GRANT, offer(bench.at, "eu", cpu(3_001), account))


def test_an_emergency_with_unreadable_amounts_lends_nothing() -> None:
    bench = a_world()
    facts = (("cpu", "lots"), ("gpu", "²"), ("memory", "-5"), ("tenant", "acme"))
    uid = bench.emergency(1)
    # Such an override is not opened any more; a log may hold one.
    bench.state.overrides.put(uid, replace(bench.state.overrides[uid], facts=facts))
    bench.checked = False
    for target in (cpu(1), Resources(gpu=1), Resources(memory=1)):
        bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", target, f"emergency/{uid}"))


def test_another_override_is_no_account() -> None:
    bench = a_world()
    uid = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "", "", "why", bench.at + HOUR))
    bench.refuse(Code.NOT_FOUND, GRANT, offer(bench.at, "eu", cpu(1), f"emergency/{uid}"))


def test_what_an_ended_emergency_lent_is_called_back_and_then_forgotten() -> None:
    bench = a_world()
    uid = bench.emergency(3_000)
    account = f"emergency/{uid}"
    bench.settle("eu", bench.offer("eu", cpu(3_000), account), cpu(3_000), account)
    bench.accept(ROOT, EndOverride(uid, "the launch is over"))
    bench.refuse(Code.NOT_FOUND, GRANT, offer(bench.at, "eu", cpu(3_001), account))
    version = bench.offer("eu", cpu(0), account)
    assert bench.charged(account) == cpu(3_000)
    bench.settle("eu", version, cpu(1_000), account)
    bench.settle("eu", version, cpu(0), account)
    assert f"eu|{account}" not in bench.state.grants


def test_a_region_acknowledges_its_own_grants_in_a_session_that_joined() -> None:
    bench = a_world()
    bench.offer("eu", cpu(1_000))
    bench.open_session("eu")
    bench.refuse(Code.NO_SESSION, "region/eu", c.AcknowledgeGrant("quota/acme", 1, cpu(1_000)))
    bench.accept("region/eu", c.JoinRegion("eu", "log-eu"))
    bench.settle("eu", 1, cpu(1_000))


def test_a_version_is_acknowledged_once() -> None:
    bench = a_world()
    bench.offer("eu", cpu(1_000))
    for version in (0, -1, 1 << 60):
        bench.refuse(Code.MALFORMED, "region/eu", c.AcknowledgeGrant("quota/acme", version, cpu(1_000)))
    bench.settle("eu", 1, cpu(1_000))
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 1, cpu(1_000)))
    bench.offer("eu", cpu(2_000))
    bench.settle("eu", 2, cpu(2_000))
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 1, cpu(0)))


def test_a_region_settles_on_no_less_than_its_target() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(5_000)), cpu(5_000))
    bench.offer("eu", cpu(2_000))
    bench.refuse(Code.CONTRADICTORY, "region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(1_999)))
    bench.refuse(Code.MALFORMED, "region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(-1)))
    bench.settle("eu", 2, cpu(4_000))


def test_a_region_over_its_target_settles_the_same_version_again_when_charges_have_fallen() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(5_000)), cpu(5_000))
    bench.settle("eu", bench.offer("eu", cpu(2_000)), cpu(4_000))
    bench.settle("eu", 2, cpu(3_000))
    assert bench.charged() == cpu(3_000)
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(4_000)))
    bench.refuse(Code.CONTRADICTORY, "region/eu", c.AcknowledgeGrant("quota/acme", 2, cpu(1_999)))


def test_effective_is_what_is_charged_while_that_is_more_than_the_quota() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(8_000)), cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    assert effective_quota(bench.state, bench.state.quotas["acme"]) == cpu(8_000)
    bench.settle("eu", bench.offer("eu", cpu(3_000)), cpu(3_000))
    assert effective_quota(bench.state, bench.state.quotas["acme"]) == cpu(5_000)


# What a region holds and this log knows nothing of


def claim(bench: PlatformBench, version: int, settled: Resources, account: str = "quota/acme", at: int = 9) -> None:
    bench.accept("region/eu", c.AcknowledgeGrant(account, version, settled, at))


def is_said_to_be_claimed(bench: PlatformBench) -> bool:
    """Whether the last batch of the log says so."""
    (raw, digest), previous = bench.log[-1], bench.log[-2][1]
    (record,) = PLATFORM.batches.read(raw, previous, digest).records
    return any(event.claimed for event in record.events if isinstance(event, GrantStored))


def test_more_than_was_ever_offered_is_charged_and_the_log_says_that_it_was_claimed() -> None:
    bench = a_world()
    bench.offer("eu", cpu(2_000))
    claim(bench, 1, cpu(5_000))
    grant = bench.grant("eu")
    assert (grant.version, grant.acknowledged, grant.offers, bench.charged()) == (1, 1, (), cpu(5_000))
    assert is_said_to_be_claimed(bench)
    bench.settle("eu", 1, cpu(2_000))
    assert not is_said_to_be_claimed(bench)


def test_a_version_that_was_never_offered_is_followed_by_the_target_under_one_above_it() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(2_000)), cpu(2_000))
    claim(bench, 10, cpu(5_000))
    grant = bench.grant("eu")
    assert (grant.version, grant.target, grant.offers) == (11, cpu(2_000), (GrantOffer(11, cpu(2_000)),))
    assert (grant.acknowledged, grant.settled, bench.charged()) == (10, cpu(5_000), cpu(5_000))
    bench.settle("eu", 11, cpu(3_000))
    assert bench.charged() == cpu(3_000)


def test_a_version_that_was_acknowledged_is_raised_only_by_what_was_read_later_from_the_regions_log() -> None:
    bench = a_world()
    bench.offer("eu", cpu(2_000))
    claim(bench, 1, cpu(2_000), at=5)
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 1, cpu(4_000), 5))
    claim(bench, 1, cpu(4_000), at=6)
    assert bench.charged() == cpu(4_000)
    bench.offer("eu", cpu(1_000))
    claim(bench, 1, cpu(6_000), at=7)
    assert (bench.charged(), bench.grant("eu").version) == (cpu(6_000), 2)


@pytest.mark.parametrize("account", ["quota/acme", "quota/nobody", "recovery/reserve", "recovery/gone", "emergency/7"])
def test_an_account_that_nothing_was_lent_of_is_charged_and_called_back(account: str) -> None:
    bench = a_world()
    claim(bench, 3, cpu(6_000), account)
    grant = bench.grant("eu", account)
    assert (grant.target, grant.offers, grant.offered) == (cpu(0), (GrantOffer(4, cpu(0)),), cpu(6_000))
    assert bench.at < grant.ends <= bench.at + bench.state.info.settings.grant_life
    claim(bench, 4, cpu(0), account)
    assert not bench.state.breaches.items()


def test_nothing_of_nothing_is_no_news_and_what_is_no_account_is_refused() -> None:
    bench = a_world()
    bench.refuse(Code.ALREADY, "region/eu", c.AcknowledgeGrant("quota/acme", 3, cpu(0), 9))
    for account in ("gold/acme", "quota", "quota/", "quota/No Name", "emergency/x", "emergency/007"):
        bench.refuse(Code.MALFORMED, "region/eu", c.AcknowledgeGrant(account, 3, cpu(1), 9))


@pytest.mark.parametrize(
    ("account", "key"), [("quota/acme", "quota/acme/cpu"), ("recovery/reserve", "recovery/reserve|eu/cpu")]
)
def test_a_claim_above_the_limit_is_owed_until_it_is_given_back(account: str, key: str) -> None:
    bench = a_world()
    claim(bench, 3, cpu(11_000), account)
    limit = 10_000 if account.startswith("quota") else 4_000
    assert bench.state.breaches["platform.escrow", key].overshoot == 11_000 - limit
    bench.refuse(Code.OVER_QUOTA, GRANT, offer(bench.at, "eu", cpu(1), account))
    claim(bench, 4, cpu(limit), account)
    assert not bench.state.breaches.items()


def test_a_claim_above_an_emergency_is_owed_until_it_is_given_back_though_the_emergency_has_ended() -> None:
    bench = a_world()
    uid = bench.emergency(3_000)
    claim(bench, 3, cpu(4_000), f"emergency/{uid}")
    assert bench.state.breaches["platform.escrow", f"emergency/{uid}/cpu"].overshoot == 1_000
    bench.accept(ROOT, EndOverride(uid, "the launch is over"))
    claim(bench, 4, cpu(0), f"emergency/{uid}")
    assert not bench.state.breaches.items()


def test_a_claim_is_owed_no_more_when_its_budget_or_quota_has_as_much() -> None:
    bench = a_world()
    claim(bench, 3, cpu(5_000), "recovery/reserve")
    claim(bench, 3, cpu(11_000), "quota/beta")
    assert len(bench.state.breaches.items()) == 2
    bench.put(a_quota("beta", cpu(11_000)))
    budget = bench.state.recovery_budgets["reserve"]
    bench.put(replace(budget, spec=replace(budget.spec, each=cpu(5_000))))
    assert not bench.state.breaches.items()


def test_retiring_the_region_ends_what_it_claimed() -> None:
    bench = a_world()
    claim(bench, 3, cpu(11_000))
    claim(bench, 3, cpu(11_000), "recovery/reserve")
    bench.retire("eu")
    assert not bench.state.breaches.items()


@pytest.mark.parametrize(
    ("milli", "later_by", "is_taken"),
    [(50, 0, True), (50, -1, True), (50, 1, False), (150, 0, False), (0, 1, True)],
)
def test_what_was_lent_from_an_account_that_is_gone_is_called_back_and_not_lent_for_longer(
    milli: int, later_by: int, is_taken: bool
) -> None:
    bench = a_world()
    bench.accept("region/eu", c.AcknowledgeGrant("quota/nobody", 4, cpu(100), 7))
    key = grant_key("eu", "quota/nobody")
    lent = replace(bench.grant("eu", "quota/nobody"), target=cpu(100), ends=bench.at + 1_000)
    bench.state.grants.put(key, lent)
    answer = bench.send(GRANT, c.OfferGrant("quota/nobody", "eu", cpu(milli), lent.ends + later_by))
    assert isinstance(answer, Committed if is_taken else Refused), answer
