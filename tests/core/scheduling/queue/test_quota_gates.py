"""Gates before any node is looked at, and who pays: the scheduler counts as the ledger will."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride, active_overrides
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region.queries.accounts import UNLIMITED
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.queue.quota_gates import OPEN, pause_gate, payer_gate, protected_gate
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, placed_on

NEED = Resources(1000)


def an_ask(tenant: str = "acme", *, firm: bool = True) -> SlotAsk:
    return SlotAsk("d", a_template(cpu=1000, memory=0), tenant, firm)


# Payers


def test_accounts_pay_together_and_less_what_is_on_its_way() -> None:
    bench = RegionBench()
    bench.a_grant(cpu=2500)
    bench.a_grant("recovery/r", cpu=1000)
    accounts = ("quota/acme", "recovery/r")
    assert payer_gate(bench.state, accounts, NEED, bench.at, {}).most == 3
    assert payer_gate(bench.state, accounts, NEED, bench.at, {"quota/acme": Resources(1600)}).most == 1
    assert payer_gate(bench.state, accounts, NEED, bench.at, {"quota/acme": Resources(9000)}).most == 1
    assert payer_gate(bench.state, ("quota/acme",), ZERO, bench.at, {}).most == UNLIMITED


def test_who_has_no_grant_or_one_that_ended_does_not_pay() -> None:
    bench = RegionBench()
    bench.a_grant(ends=bench.at + 1_000)
    bench.at += 1_000
    ended = payer_gate(bench.state, ("quota/acme",), NEED, bench.at, {})
    assert (ended.most, ended.code) == (0, Code.GRANT_ENDED)
    unknown = payer_gate(bench.state, ("quota/beta",), NEED, bench.at, {})
    assert (unknown.most, unknown.code) == (0, Code.OVER_GRANT)
    nobody = payer_gate(bench.state, (), NEED, bench.at, {})
    assert (nobody.most, nobody.code) == (0, Code.OVER_GRANT)
    both = payer_gate(bench.state, ("quota/acme", "quota/beta"), NEED, bench.at, {})
    assert both.code is Code.OVER_GRANT, "a grant that is raised would help"
    bench.a_grant("quota/beta", cpu=2000)
    one_of_two = payer_gate(bench.state, ("quota/acme", "quota/beta"), NEED, bench.at, {})
    assert (one_of_two.most, one_of_two.each) == (2, (0, 2))


def test_the_first_account_pays_as_far_as_it_can() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_grant(version=2, cpu=2500)
    bench.a_grant("recovery/r", cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=5, accounts=("quota/acme", "recovery/r"))
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    spent = follower.scheduler.flight.spent
    assert (spent["quota/acme"].cpu, spent["recovery/r"].cpu) == (2000, 1000)
    assert follower.send(attempt) == []
    follower.work()
    assert len(placed_on(bench)) == 3
    assert follower.codes() == [Code.OVER_GRANT]


def test_charged_slots_need_no_payer_and_go_before_those_that_nobody_can_pay_for() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_grant(version=2, cpu=2000)
    bench.a_workload(a_template(cpu=1000), count=4)
    follower.work()
    bench.move("agent/n1", Phase.RELEASED, "declined", 1)
    bench.a_grant(version=3, cpu=1000)
    follower.work()
    assert set(placed_on(bench)) == {(1, 0), (1, 1)}
    assert follower.refused == []


# What is kept


def test_what_is_kept_for_others_is_left_alone_by_firm_work_only() -> None:
    bench = RegionBench()
    bench.a_node(cpu=5000)
    bench.a_grant()
    bench.a_grant("quota/beta", protected=Resources(3500))
    assert protected_gate(bench.state, an_ask(), ZERO, {}).most == 1
    assert protected_gate(bench.state, an_ask(), Resources(600), {}).most == 0
    assert protected_gate(bench.state, an_ask("beta"), ZERO, {}).most == UNLIMITED
    assert protected_gate(bench.state, an_ask(firm=False), ZERO, {}) is OPEN


def test_charged_work_under_way_leaves_less_beside_what_is_kept_for_others() -> None:
    """Nobody pays for it again, but it takes the room."""
    bench, follower = a_region(nodes=1, cpu=5000)
    bench.a_grant("quota/gamma")
    bench.a_workload(a_template(cpu=1000), count=2, priority_class="critical")
    follower.work()
    bench.a_grant("quota/beta", protected=Resources(3000))
    for ordinal in (0, 1):
        bench.move("agent/n1", Phase.RELEASED, "declined", ordinal)
    bench.a_workload(a_template(cpu=1000), count=1, uid=101, workload=2, tenant="gamma")
    follower.work()
    assert follower.refused == []
    assert set(placed_on(bench)) == {(1, 0), (1, 1)}
    assert follower.codes(101) == [Code.PROTECTED]


def all_go_in_one_proposal(follower: Follower) -> None:
    """The protected tenant's two, and beside them the two of whoever may have the rest."""
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert [(one.assignment, len(one.placements)) for one in attempt.command.groups] == [(101, 2), (100, 2)]
    assert follower.send(attempt) == []


def test_what_a_protected_tenant_takes_of_its_room_in_a_proposal_is_kept_for_it_no_more() -> None:
    """Otherwise firm work waits for the next proposal, and reclaimable work of lower priority goes before it."""
    bench, follower = a_region(nodes=1, cpu=4000)
    bench.a_grant("quota/beta", protected=Resources(2000))
    bench.a_workload(a_template(cpu=1000), count=2, uid=101, workload=2, tenant="beta", priority_class="critical")
    bench.a_workload(a_template(cpu=1000), count=2)
    all_go_in_one_proposal(follower)
    follower.catch_up()
    assert follower.scheduler.flight.owed == {}


def test_charged_work_of_a_protected_tenant_takes_of_its_room_too() -> None:
    bench, follower = a_region(nodes=1, cpu=4000)
    bench.a_grant("quota/beta")
    bench.a_workload(a_template(cpu=1000), count=2, uid=101, workload=2, tenant="beta", priority_class="critical")
    follower.work()
    bench.a_grant("quota/beta", version=2, protected=Resources(2000))
    for ordinal in (0, 1):
        bench.move("agent/n1", Phase.RELEASED, "declined", ordinal, workload=2)
    bench.a_workload(a_template(cpu=1000), count=2)
    all_go_in_one_proposal(follower)


def test_recovery_is_not_charged_to_the_tenant_and_leaves_what_is_kept_for_others_alone() -> None:
    bench, follower = a_region(nodes=1, cpu=3000)
    bench.a_grant(version=2, cpu=0)
    bench.a_grant("recovery/r")
    bench.a_grant("quota/beta", protected=Resources(1500))
    bench.a_workload(a_template(cpu=1000), count=2, accounts=("recovery/r",), purpose=AssignmentPurpose.RECOVERY)
    follower.work()
    assert len(placed_on(bench)) == 1
    assert follower.codes() == [Code.PROTECTED]


# What people say


def test_the_longest_of_several_overrides_is_heeded() -> None:
    bench = RegionBench()
    for target, ms in (("acme", 1_000), ("acme", 3_000), ("", 2_000)):
        bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", target, "look", bench.at + ms))
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "fire", bench.at + 500))
    start = bench.at
    now = active_overrides(bench.state, start)
    assert pause_gate("acme", now).opens == start + 3_000
    assert pause_gate("beta", now).opens == start + 2_000
    assert {zone: one.ends for zone, one in now.zones.items()} == {"a": start + 500}
    later = active_overrides(bench.state, start + 2_000)
    assert pause_gate("beta", later) is OPEN
    assert not pause_gate("acme", later).most
    assert later.zones == {}
