"""Accounts are lent to regions as they need it, by few offers, and called back when they do not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import NO_CHANGES as NO_OUTCOME
from holdfast.core.ledger.reconciler import keys_to_wake
from holdfast.core.model.objects.tenants import PriorityClass, PriorityClassSpec, QuotaSpec
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.grants import AccountDemand, grant_key
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.values.resources import ZERO, Resources, first_exceeded
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT, GRANT, REGION_HEALTH
from holdfast.core.platform.queries.accounts import demand_beyond, quota_demand
from holdfast.core.reconcilers.platform.grant import MARGIN_MS, USES_MS, GrantReconciler, _cause
from holdfast.core.reconcilers.platform.grant_targets import _is_near
from tests.support.ledgers.platform import (
    DIGEST,
    HOUR,
    ROOT,
    PlatformBench,
    a_budget,
    a_quota,
    a_template,
    a_tenant,
    a_workload,
    cpu,
)
from tests.support.ledgers.platform import a_world as the_world

REGIONS = ("eu", "us", "us2")
QUOTA = "quota/acme"


class World:
    """The platform, its grant controller, and regions that acknowledge at once what they are told to hear."""

    def __init__(self) -> None:
        self.bench: PlatformBench = the_world()
        self.offers = 0
        self.workloads: dict[int, int] = {}

    @property
    def state(self) -> Any:
        return self.bench.state

    def look(self, account: str = QUOTA) -> list[c.OfferGrant]:
        """What the controller offers now; all of it must be accepted."""
        outcome = GrantReconciler().reconcile(self.state, account, self.bench.at)
        commands = [wanted.command for wanted in outcome.commands]
        for command in commands:
            answer = self.bench.send(GRANT, command)
            assert isinstance(answer, Committed), (command, answer)
        self.offers += len(commands)
        return commands

    def answer(self, *regions: str, account: str = QUOTA, uses: int = 0) -> None:
        """Regions settle on what they were last offered, or on what they use."""
        for region in regions or REGIONS:
            grant = self.state.grants.get(grant_key(region, account))
            if grant is not None and grant.acknowledged < grant.version:
                settled = replace(grant.target, cpu=max(grant.target.cpu, uses))
                self.bench.settle(region, grant.version, settled, account)

    def rest(self, account: str = QUOTA, uses: int = 0) -> None:
        """Look and answer until nothing is offered any more."""
        for _ in range(20):
            if not self.look(account):
                return
            self.answer(account=account, uses=uses)
        raise AssertionError("offers do not end")

    def ask(self, region: str, milli: int) -> None:
        """Let so much be asked for in a region."""
        if milli not in self.workloads:
            work = a_workload(f"w{milli}", template=a_template(milli, f"serve-{milli}"), replicas=3)
            self.workloads[milli] = self.bench.put(work)
        self.bench.assign(self.workloads[milli], region, 1)

    def ask_no_more(self, region: str) -> None:
        for uid, assignment in self.state.assignments.items():
            if assignment.region == region:
                self.bench.accept(ASSIGNMENT, c.EndAssignment(uid))

    def report(self, region: str, capacity: int = 0, **uses: int) -> None:
        """A region's summary: what its nodes have, and what accounts are charged there."""
        amount = cpu(capacity)
        nodes = Nodes("general", (), (), (), (), 1, amount, amount, (amount,), (amount,))
        charged = tuple((account.replace("_", "/"), cpu(milli)) for account, milli in sorted(uses.items()))
        position = len(self.bench.log)
        self.bench.accept(f"region/{region}", c.Report(region, position, summary=RegionSummary((nodes,), charged)))

    def targets(self, account: str = QUOTA) -> tuple[int, ...]:
        found = (self.state.grants.get(grant_key(region, account)) for region in REGIONS)
        return tuple(grant.target.cpu if grant is not None else 0 for grant in found)


def test_half_of_what_nobody_asks_for_is_lent_evenly_and_the_rest_stays_at_home() -> None:
    world = World()
    world.rest()
    assert world.targets() == (1_666, 1_666, 1_666)
    assert GrantReconciler().reconcile(world.state, QUOTA, world.bench.at).commands == ()


def test_a_region_is_lent_what_it_is_asked_for_and_its_part_of_what_is_left() -> None:
    world = World()
    world.ask("eu", 4_000)
    world.rest()
    assert world.targets() == (6_000, 1_000, 1_000)


def test_demand_that_grows_step_by_step_takes_few_offers() -> None:
    world = World()
    world.bench.put(a_quota("acme", cpu(1_000_000)))
    uid = world.bench.put(a_workload("big", template=a_template(1_000), replicas=1_000))
    for count in range(1, 1_001):
        world.bench.checked = count % 100 == 0
        world.bench.assign(uid, "eu", count)
        world.rest()
        assert not first_exceeded(cpu(1_000 * count), world.bench.grant("eu").target)
    assert world.offers < 50  # of three regions together, to the last unit of the quota


def test_a_raise_waits_for_the_answer_to_the_last_offer() -> None:
    world = World()
    world.look()
    world.ask("eu", 4_000)
    assert world.look() == []
    world.answer("eu")
    (offer,) = world.look()
    assert (offer.region, first_exceeded(cpu(4_000), offer.target)) == ("eu", "")


def test_what_one_region_lacks_is_called_back_from_another_before_it_is_lent() -> None:
    world = World()
    world.ask("eu", 6_000)
    world.rest()
    world.ask_no_more("eu")
    world.ask("us", 7_000)
    before = world.targets()
    for one in world.look():
        assert one.region == "us" or one.target.cpu < before[REGIONS.index(one.region)]
    assert world.targets()[1] < 7_000
    world.answer("us")
    assert world.look() == []  # what eu was asked to give back is not there yet
    world.answer()
    world.rest()
    assert world.targets()[1] >= 7_000


def test_nobody_gives_back_while_nobody_lacks_anything() -> None:
    world = World()
    world.ask("eu", 4_000)
    world.rest()
    world.ask("us", 900)
    assert world.look() == []


def test_what_is_asked_beyond_the_quota_is_cut_in_proportion() -> None:
    world = World()
    world.ask("eu", 15_000)
    world.ask("us", 5_000)
    world.rest()
    assert world.targets() == (7_500, 2_500, 0)


def test_nobody_is_cut_below_what_it_uses() -> None:
    world = World()
    world.ask("eu", 10_000)
    world.rest()
    world.report("eu", quota_acme=9_000)
    world.ask("us", 10_001)
    world.rest(uses=0)
    assert world.targets() == (9_000, 1_000, 0)


def test_a_region_that_is_not_heard_is_not_raised_and_what_it_has_is_not_lent_again() -> None:
    world = World()
    world.rest()
    world.bench.judge("eu", RegionHealth.SUSPECT)
    world.ask("us", 9_000)
    world.rest()
    assert world.targets() == (1_666, 8_334, 0)


def test_a_region_that_is_heard_again_is_lent_what_it_lacks() -> None:
    world = World()
    world.rest()
    world.ask("eu", 5_000)
    world.bench.lose("eu")
    assert world.look() == []
    world.bench.later(1)
    world.bench.accept("region/eu", c.Acknowledge("eu", "log-eu", 10_000, 0, DIGEST))
    world.bench.accept(REGION_HEALTH, c.JudgeRegion("eu", RegionHealth.HEALTHY, "heard again"))
    world.rest()
    assert world.targets()[0] >= 5_000


def test_a_lowered_quota_lowers_every_target_at_once_answered_or_not_heard_or_not() -> None:
    world = World()
    world.rest()
    world.ask("eu", 4_000)
    world.look()
    world.bench.judge("us", RegionHealth.SUSPECT)
    world.bench.put(a_quota("acme", cpu(600)))
    world.look()
    assert world.targets() == (600, 0, 0)
    assert world.look() == []


def test_nothing_is_added_while_more_is_lent_than_there_is() -> None:
    world = World()
    both = Resources(cpu=10_000, memory=10_000)
    world.bench.put(a_quota("acme", both))
    world.rest()
    world.bench.put(a_quota("acme", Resources(cpu=20_000, memory=3_000)))
    offers = world.look()
    assert [one.target for one in offers] == [Resources(cpu=1_666, memory=500)] * 3
    assert world.look() == []
    world.answer()
    assert [one.target for one in world.look()] == [Resources(cpu=3_333, memory=500)] * 3


def test_a_region_that_does_not_answer_is_told_of_lower_quotas_only_so_often() -> None:
    world = World()
    world.bench.put(a_quota("acme", cpu(100_000)))
    world.rest()
    for milli in range(40_000, 39_900, -1):
        world.bench.put(a_quota("acme", cpu(milli)))
        world.look()
    assert world.bench.grant("eu").version <= 66


def test_protected_room_follows_demand_and_is_lowered_before_it_is_added_elsewhere() -> None:
    world = World()
    world.bench.put(a_quota("acme", cpu(10_000), protected=cpu(3_000)))
    world.rest()
    assert [world.bench.grant(region).protected.cpu for region in REGIONS] == [1_000, 1_000, 1_000]
    world.ask("eu", 4_000)
    world.rest()
    assert [world.bench.grant(region).protected.cpu for region in REGIONS] == [3_000, 0, 0]
    world.bench.put(a_quota("acme", cpu(10_000), protected=cpu(1_000)))
    world.rest()
    assert world.bench.grant("eu").protected == cpu(1_000)


def test_protected_room_is_never_more_than_the_slice() -> None:
    world = World()
    world.bench.put(a_quota("acme", cpu(9_000), protected=cpu(9_000)))
    world.rest()
    for region in REGIONS:
        grant = world.bench.grant(region)
        assert grant.protected == grant.target


def test_a_recovery_budget_is_lent_whole_to_every_region_that_it_names() -> None:
    world = World()
    world.rest("recovery/reserve")
    assert world.targets("recovery/reserve") == (4_000, 4_000, 0)
    world.bench.put(a_budget("reserve", ("eu", "us", "us2"), cpu(5_000)))
    world.rest("recovery/reserve")
    assert world.targets("recovery/reserve") == (5_000, 5_000, 5_000)


def test_a_share_of_a_regions_room_follows_it_when_it_is_another_by_a_twentieth() -> None:
    world = World()
    world.bench.put(a_share(20))
    world.report("eu", capacity=10_000)
    world.rest("reclaimable/acme")
    assert world.targets("reclaimable/acme") == (2_000, 0, 0)
    for capacity, wanted in ((10_400, 2_000), (11_000, 2_200), (10_600, 2_200), (5_000, 1_000)):
        world.report("eu", capacity=capacity)
        world.rest("reclaimable/acme")
        assert world.targets("reclaimable/acme") == (wanted, 0, 0)
    world.bench.put(a_share(0))
    world.rest("reclaimable/acme")
    assert world.targets("reclaimable/acme") == (0, 0, 0)


def a_share(percent: int) -> Any:
    quota = a_quota("acme", cpu(10_000))
    return replace(quota, spec=QuotaSpec(hard=cpu(10_000), reclaimable=percent))


def test_reclaimable_work_asks_the_quota_for_what_its_share_does_not_pay() -> None:
    world = World()
    world.bench.put(a_share(50))
    world.bench.put(PriorityClass(meta=a_tenant("spare").meta, spec=PriorityClassSpec(priority=1, reclaimable=True)))
    world.bench.put(a_tenant("acme", "normal", "critical", "spare"))
    world.report("eu", capacity=5_000)
    world.rest("reclaimable/acme")
    uid = world.bench.put(a_workload(template=a_template(1_000), replicas=5, priority_class="spare"))
    world.bench.assign(uid, "eu", 5)
    assert quota_demand(world.state, "acme", "eu") == cpu(3_000)


def test_what_has_ended_or_is_recovery_is_not_asked_of_the_quota() -> None:
    world = World()
    web = world.bench.put(a_workload(budget="reserve"))
    world.bench.assign(web, "eu", 2)
    world.bench.assign(web, "us", 2, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    asked = [quota_demand(world.state, "acme", region) for region in REGIONS]
    assert asked == [cpu(1_000), ZERO, ZERO]
    world.ask_no_more("eu")
    assert quota_demand(world.state, "acme", "eu") == ZERO


def test_what_is_beyond_a_share_is_counted_in_replicas() -> None:
    asked = AccountDemand(20, Resources(cpu=20_000, memory=20_480))
    assert demand_beyond(asked, Resources(cpu=10_000, memory=100_000)) == Resources(cpu=10_000, memory=10_240)
    assert demand_beyond(asked, ZERO) == asked.amount
    assert demand_beyond(asked, asked.amount) == ZERO


def test_an_emergency_is_lent_to_its_region_until_it_ends_and_is_called_back_then() -> None:
    world = World()
    uid = world.bench.emergency(3_000, region="us")
    account = f"emergency/{uid}"
    (offer,) = world.look(account)
    assert (offer.region, offer.target, offer.ends) == ("us", cpu(3_000), world.state.overrides[uid].ends)
    world.answer(account=account)
    assert GrantReconciler().reconcile(world.state, account, world.bench.at).requeue_at == offer.ends
    world.bench.later(HOUR)
    assert GrantReconciler().reconcile(world.state, account, world.bench.at).requeue_at is None
    (back,) = world.look(account)
    assert (back.target, back.ends) == (ZERO, world.bench.at + MARGIN_MS)
    world.bench.accept("controller/override", EndOverride(uid, "its end has come"))
    world.answer(account=account)
    assert grant_key("us", account) not in world.state.grants


def test_an_emergency_that_a_person_ends_early_ends_in_its_region_within_a_second() -> None:
    world = World()
    uid = world.bench.emergency(3_000, region="us")
    account = f"emergency/{uid}"
    world.look(account)
    world.answer(account=account)
    world.bench.accept(ROOT, EndOverride(uid, "the storm is over"))
    (back,) = world.look(account)
    assert (back.target, back.ends) == (ZERO, world.bench.at + MARGIN_MS)


def test_an_emergency_everywhere_is_lent_evenly_to_those_who_are_heard() -> None:
    world = World()
    world.bench.judge("us2", RegionHealth.SUSPECT)
    account = f"emergency/{world.bench.emergency(3_000)}"
    world.rest(account)
    assert world.targets(account) == (1_500, 1_500, 0)
    world.bench.judge("us2", RegionHealth.HEALTHY)
    world.rest(account)
    assert world.targets(account) == (1_000, 1_000, 1_000)


def test_a_grant_is_renewed_when_half_of_its_life_is_over() -> None:
    world = World()
    world.rest()
    life = world.state.info.settings.grant_life
    again = GrantReconciler().reconcile(world.state, QUOTA, world.bench.at).requeue_at
    ends = world.bench.grant("eu").ends
    assert ends == world.bench.at + life - 1_000
    assert again == ends - life // 2
    world.bench.later(life // 2)
    world.bench.judge("us", RegionHealth.SUSPECT)
    assert [one.region for one in world.look()] == ["eu", "us2"]
    assert world.bench.grant("eu").ends == ends + life // 2
    assert world.targets() == (1_666, 1_666, 1_666)


def test_an_account_that_is_gone_and_was_never_lent_needs_nothing() -> None:
    world = World()
    for account in ("quota/nobody", "recovery/nothing", "reclaimable/nobody", "emergency/7"):
        assert GrantReconciler().reconcile(world.state, account, world.bench.at) == NO_OUTCOME


def test_every_account_is_looked_at() -> None:
    world = World()
    world.bench.put(a_share(10))
    uid = world.bench.emergency(1_000)
    wanted = [f"emergency/{uid}", "quota/acme", "quota/beta", "reclaimable/acme", "recovery/reserve"]
    assert list(GrantReconciler().keys(world.state)) == wanted


def test_a_change_wakes_the_accounts_that_it_concerns() -> None:
    world = World()
    uid = world.bench.put(a_workload())
    assignment = world.bench.assign(uid, "eu", 1)
    grants, state = GrantReconciler(), world.state
    assert list(grants.wake(state, ("assignment", assignment))) == ["quota/acme"]
    assert list(grants.wake(state, ("assignment", 7))) == []
    assert list(grants.wake(state, ("quota", "acme"))) == ["quota/acme", "reclaimable/acme"]
    assert list(grants.wake(state, ("recovery-budget", "reserve"))) == ["recovery/reserve"]
    assert list(grants.wake(state, ("override", 7))) == ["emergency/7"]
    assert list(grants.wake(state, ("grant", "eu|quota/acme"))) == ["quota/acme"]
    assert list(grants.wake(state, ("grant", "eu|reclaimable/acme"))) == ["reclaimable/acme", "quota/acme"]
    assert list(grants.wake(state, ("summary", "eu"))) == []
    assert list(keys_to_wake(grants, state, [("standing", "eu")])) == list(grants.keys(state))
    world.ask("us", 20_000)
    assert list(grants.wake(state, ("summary", "eu"))) == ["quota/acme"]


def test_what_turns_on_uses_is_looked_at_before_any_renewal() -> None:
    world = World()
    world.rest()
    world.ask("us", 20_000)
    world.rest()
    assert GrantReconciler().reconcile(world.state, QUOTA, world.bench.at).requeue_at == world.bench.at + USES_MS


@pytest.mark.parametrize(("target", "limit", "near"), [(95, 100, True), (94, 100, False), (100, 95, True)])
def test_a_twentieth_of_the_larger_is_near(target: int, limit: int, near: bool) -> None:
    assert _is_near(cpu(target), cpu(limit)) is near


def test_a_quota_is_looked_at_again_soon_as_long_as_what_others_use_keeps_somebody_short() -> None:
    world = World()
    world.ask("eu", 4_000)
    world.report("us2", quota_acme=10_001)
    world.rest()
    assert world.targets() == (0, 0, 0), "all of it is used, by one who was not lent it"
    assert GrantReconciler().reconcile(world.state, QUOTA, world.bench.at).requeue_at == world.bench.at + USES_MS
    world.report("us2")
    world.rest()
    assert world.targets() == (6_000, 1_000, 1_000)
    renewal = GrantReconciler().reconcile(world.state, QUOTA, world.bench.at).requeue_at
    assert renewal is not None
    assert renewal > world.bench.at + HOUR, "nothing but its renewal is left to wait for"


def test_what_is_done_of_batch_work_wakes_the_accounts_that_paid_for_it() -> None:
    world = World()
    service = world.bench.put(a_workload())
    job = world.bench.put(a_workload("job", batch=True))
    grants, state = GrantReconciler(), world.state
    assert "observed" in grants.watches
    assert list(grants.wake(state, ("observed", job))) == ["reclaimable/acme", "quota/acme"]
    assert list(grants.wake(state, ("observed", service))) == [], "of a service nothing is ever done"
    assert list(grants.wake(state, ("observed", 7))) == []


def test_a_region_that_is_retired_leaves_its_slice_to_the_others() -> None:
    world = World()
    world.ask("eu", 8_000)
    world.rest()
    world.bench.accept(ROOT, c.RetireRegion("eu", "switched off"))
    world.ask("us", 8_000)
    world.rest()
    assert world.targets() == (0, 9_083, 333)


def test_an_offer_names_the_object_that_its_account_is_of() -> None:
    state = the_world().state
    causes = [_cause(state, account) for account in ("quota/acme", "recovery/reserve", "emergency/77", "quota/nobody")]
    assert causes == [state.quotas["acme"].meta.revision, state.recovery_budgets["reserve"].meta.revision, 77, 0]


# Fairness over regions


def nearly_full(world: World, free: int, **uses: int) -> None:
    """A report of eu: of ten cpus so much is free, and accounts are charged so much."""
    nodes = Nodes("general", (), (), (), (), 1, cpu(10_000), cpu(free), (cpu(10_000),), (cpu(free),))
    charged = tuple((account.replace("_", "/"), cpu(milli)) for account, milli in sorted(uses.items()))
    position = len(world.bench.log)
    world.bench.accept("region/eu", c.Report("eu", position, summary=RegionSummary((nodes,), charged)))


def a_world_of_two(weight: int = 1, asks: tuple[int, ...] = (9_000, 3_000)) -> World:
    """Acme has a large quota, has used four fifths of all for an hour, and asks for more in eu; so does beta."""
    world = World()
    world.bench.accept(ROOT, c.Put(a_quota("beta", cpu(20_000))))
    world.bench.accept(ROOT, c.Put(a_quota("acme", cpu(20_000), weight=weight)))
    nearly_full(world, 0, quota_acme=8_000, quota_beta=2_000)
    world.bench.at += HOUR
    nearly_full(world, 100, quota_acme=7_900, quota_beta=2_000)
    for milli in asks:
        world.ask("eu", milli)
    return world


def test_a_tenant_that_used_more_than_its_part_is_not_granted_more_where_a_region_is_nearly_full() -> None:
    world = a_world_of_two()
    (offer,) = [one for one in world.look() if one.region == "eu"]
    assert offer.target.cpu == 7_900, "half of what it asks for is less than what it uses"


def test_what_ends_there_is_left_to_others_down_to_its_part() -> None:
    world = a_world_of_two(asks=(9_000,))
    world.rest(uses=7_900)
    nearly_full(world, 100, quota_acme=5_000, quota_beta=4_900)
    (offer,) = [one for one in world.look() if one.region == "eu"]
    assert 5_600 <= offer.target.cpu <= 5_750, "half of what it asks for, by the four fifths that it had"


def test_with_the_weight_of_its_use_it_is_granted_what_it_asks_for() -> None:
    world = a_world_of_two(weight=9)
    (offer,) = [one for one in world.look() if one.region == "eu"]
    assert offer.target.cpu >= 12_000


def test_while_there_is_room_nobody_is_held_back() -> None:
    world = a_world_of_two()
    nearly_full(world, 1_000, quota_acme=7_000, quota_beta=2_000)
    (offer,) = [one for one in world.look() if one.region == "eu"]
    assert offer.target.cpu >= 12_000


def test_the_use_of_a_tenant_is_kept_from_level_three_on() -> None:
    world = a_world_of_two()
    assert [tenant for tenant, _ in world.state.usage_windows.items()] == ["acme", "beta"]
    world.bench.accept(ROOT, c.RetireRegion("eu", "it burned"))
    assert world.state.usage_windows["acme"].share == 0
    before = World()
    before.bench = the_world(2)
    nearly_full(before, 0, quota_acme=8_000)
    assert before.state.usage_windows.is_empty()


def test_a_weight_is_shipped_with_the_grant_of_the_quota() -> None:
    world = World()
    world.bench.accept(ROOT, c.Put(a_quota("acme", cpu(6_000))))
    world.ask("eu", 1_000)
    world.rest()
    world.bench.accept(ROOT, c.Put(a_quota("acme", cpu(6_000), weight=5)))
    offers = world.look()
    assert [one.weight for one in offers] == [5] * len(REGIONS)
    world.answer()
    assert world.look() == []
