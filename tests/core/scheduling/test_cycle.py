"""One look, one proposal: under one policy, of one way to bind; and what it says about whom it could not place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.partial import PARTS_MAX, RefusedPart
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import (
    OverrideAction,
    PlacementStrategy,
    PolicyDocument,
    PolicyStage,
    SchedulerPolicy,
    Validity,
)
from holdfast.core.model.objects.workloads import Spread
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.region import commands as c
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.cycle import STALE_MS
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from holdfast.core.scheduling.scheduler import BACKOFF_MOST_MS, BACKOFF_MS, Proposal
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_nodes
from holdfast.core.scheduling.shortlist import Shortlists
from holdfast.core.scheduling.view import SchedulerView
from tests.support.ledgers.region import LINK, REPLICA, ROOT, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region, nodes_of, placed_on


def a_policy(bench: RegionBench, revision: int, scope: str, document: PolicyDocument) -> None:
    policy = SchedulerPolicy(
        revision=revision, name="some", document=document, stage=PolicyStage.ACTIVE, author=ROOT, at=bench.at
    )
    bench.ship(c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", scope, revision)))


# What is in a proposal


def test_a_proposal_names_no_more_than_a_command_may() -> None:
    bench, follower = a_region(nodes=2, cpu=4_000_000, memory=10**7)
    for uid, count in ((100, 700), (101, 600)):
        bench.a_workload(a_template(cpu=uid), count=count, uid=uid, workload=uid)
    follower.catch_up()
    first = follower.look()
    assert len(nodes_of(first)) == PARTS_MAX
    second = follower.look()
    assert len(nodes_of(second)) == 300
    assert first is not None
    assert second is not None
    assert follower.send(first) == []
    assert follower.send(second) == []


def test_the_groups_of_a_proposal_are_the_requests_of_its_passes_in_order() -> None:
    bench, follower = a_region(nodes=2)
    for uid in (100, 101, 102):
        bench.a_workload(a_template(cpu=1000), count=2, uid=uid, workload=uid)
    bench.a_workload(a_template(cpu=10), count=1, uid=103, workload=103, priority_class="critical")
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    groups = [(group.assignment, group.template) for group in attempt.command.groups]
    assert [uid for uid, _ in groups] == [103, 100, 101, 102]
    assert [(uid, one.template) for one in attempt.decision.passes for uid, _ in one.requests] == groups
    assert [one.outcome for one in attempt.decision.passes] == ["placed", "placed"]


def test_requests_under_way_are_not_said_to_be_in_the_next_proposal() -> None:
    """The first waits for a payer, of the second a charged slot is placed: the first has something under way."""
    bench, follower = a_region(nodes=1, cpu=100_000, memory=10**6)
    bench.a_grant(version=2, cpu=4000)
    bench.a_workload(a_template(cpu=1000), count=1, uid=101, workload=2)
    follower.work()
    bench.at += 1
    bench.a_workload(a_template(cpu=1000), count=9)
    follower.catch_up()
    first = follower.look()
    assert first is not None
    assert [group.assignment for group in first.command.groups] == [100]
    bench.move("agent/n1", Phase.RELEASED, "declined", 0, 2)
    follower.catch_up()
    second = follower.look()
    assert second is not None
    assert [uid for one in second.decision.passes for uid, _ in one.requests] == [101]


def test_a_proposal_is_made_under_one_policy_and_the_others_come_next() -> None:
    bench, follower = a_region(nodes=3)
    bench.a_grant("quota/beta")
    a_policy(bench, 7, "", PolicyDocument(PlacementStrategy.PACK))
    a_policy(bench, 8, "beta", PolicyDocument(PlacementStrategy.SPREAD))
    bench.a_workload(a_template(cpu=100), count=3)
    bench.a_workload(a_template(cpu=100), count=3, uid=101, workload=2, tenant="beta")
    follower.catch_up()
    attempts = [follower.look(), follower.look()]
    assert [attempt.policy for attempt in attempts if attempt] == [7, 8]
    assert len(set(nodes_of(attempts[0]))) == 1
    assert len(set(nodes_of(attempts[1]))) == 3
    for attempt in attempts:
        assert attempt is not None
        assert follower.send(attempt) == []


def test_who_is_under_another_policy_does_not_wait_for_one_that_cannot_be_placed() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_grant("quota/beta")
    a_policy(bench, 8, "beta", PolicyDocument(PlacementStrategy.SPREAD))
    bench.a_workload(a_template(cpu=90_000), count=1, priority_class="critical")
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2, tenant="beta")
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert attempt.policy == 8
    assert follower.codes() == [ConditionReason.NEVER_FITS]


def test_a_policy_that_is_rolled_back_between_view_and_commit_costs_a_refusal_and_no_more() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    a_policy(bench, 9, "", PolicyDocument(PlacementStrategy.SPREAD))
    assert [one.code for one in follower.send(attempt)] == [Code.POLICY]
    follower.work()
    assert placed_on(bench) == {(1, 0): "n1"}


class TwoSteps:
    """Slots of one tenant are reserved first."""

    name, version = "two-steps", "1"

    def __init__(self, tenant: str, error: Exception | None = None) -> None:
        self._tenant = tenant
        self._error = error

    def waits(self, ask: SlotAsk) -> bool:
        if self._error is not None and ask.tenant == self._tenant:
            raise self._error
        return ask.tenant == self._tenant


def test_a_proposal_binds_or_reserves_and_who_is_of_the_other_kind_comes_next() -> None:
    bench, follower = a_region(nodes=1, plugins=replace(BUILT_IN, binds=(TwoSteps("beta"),)))
    bench.a_grant("quota/beta")
    bench.a_workload(a_template(cpu=100), count=1)
    bench.a_workload(a_template(cpu=90_000), count=1, uid=101, workload=2, tenant="beta", priority_class="critical")
    bench.a_workload(a_template(cpu=100), count=1, uid=102, workload=3, tenant="beta")
    follower.catch_up()
    attempts = [follower.look(), follower.look()]
    assert sorted(attempt.command.bind for attempt in attempts if attempt) == [False, True]
    for attempt in attempts:
        assert attempt is not None
        assert follower.send(attempt) == []
    assert bench.slot(0, 1).phase is Phase.BOUND
    assert bench.slot(0, 3).phase is Phase.RESERVED


# Plugins that raise


class Breaks:
    """A filter that raises for one tenant."""

    name, version, code = "breaks", "1", Code.LABELS

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        if window.ask.tenant == "acme":
            raise ZeroDivisionError("a division")
        yield from ()


@pytest.mark.parametrize(
    ("plugins", "name"),
    [
        (replace(BUILT_IN, filters=(*BUILT_IN.filters, Breaks())), "breaks"),
        (replace(BUILT_IN, binds=(TwoSteps("acme", ZeroDivisionError("a division")),)), "two-steps"),
    ],
)
def test_a_plugin_that_raises_is_named_and_others_go_on(plugins: Plugins, name: str) -> None:
    bench, follower = a_region(nodes=1, plugins=plugins)
    bench.a_grant("quota/beta")
    bench.a_workload(a_template(cpu=100), count=2, priority_class="critical")
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2, tenant="beta")
    follower.work()
    assert placed_on(bench) == {(2, 0): "n1"}
    (reason,) = follower.reasons()
    assert (reason.code, reason.count) == (ConditionReason.PLUGIN_FAILED, 2)
    assert reason.message == f"{name}: ZeroDivisionError: a division"
    asleep = follower.asleep()
    assert asleep is not None
    assert asleep.why is BlockReason.PLUGIN
    assert not asleep.resync, "time alone cures it: nobody misses a plugin that works again"


# What keeps a group


def test_a_view_that_is_too_old_for_a_class_holds_it_back_and_no_other() -> None:
    bench, follower = a_region(nodes=1)
    bench.ship(c.ShippedPriorityClass(a_class("likewise", 50)))
    a_policy(bench, 7, "", PolicyDocument(freshness=(("normal", 1_000), ("", 5_000))))
    bench.a_workload(a_template(cpu=100), count=1)
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2, priority_class="likewise")
    follower.age_ms = 1_001
    follower.work()
    assert placed_on(bench) == {(2, 0): "n1"}
    assert follower.codes() == [ConditionReason.STALE_VIEW]
    follower.age_ms = 1_000
    assert follower.look() is None
    bench.at += STALE_MS
    assert follower.work() == 1


def test_a_pause_holds_back_its_tenant_with_everything_of_it() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_grant("quota/beta")
    bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "look", bench.at + 5_000))
    bench.a_workload(a_template(cpu=100), count=2)
    bench.a_workload(a_template(cpu=200), count=1, uid=101, workload=2, tenant="beta")
    follower.work()
    assert placed_on(bench) == {(2, 0): "n1"}
    assert follower.refused == []


def test_requests_that_may_not_run_here_are_told_so_and_hold_up_no_equal_one() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=100), count=1, jurisdictions=("us",))
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2)
    follower.work()
    assert placed_on(bench) == {(2, 0): "n1"}
    assert follower.codes() == [Code.RESIDENCY]


def test_ordinals_without_a_right_are_told_so_and_not_proposed() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=2, ordinals=0, exclusive=True)
    held = replace(bench.state.assignments[100], revision=200, generation=2, ordinals=(3, 4))
    bench.ship(c.ShippedAssignment(held))
    bench.accept(REPLICA, c.OpenSlots(100, held.shares[0].template, (3, 4)))
    bench.ship(c.ShippedAssignment(replace(held, revision=201, generation=3, ordinals=(4,))))
    follower.work()
    assert set(placed_on(bench)) == {(1, 4)}
    assert follower.refused == []
    assert {reason.code for one in follower.waits for reason in one.reasons} == {Code.NOT_ASSIGNED}, "no gate is shut"


def test_only_a_slot_that_is_not_counted_over_domains_comes_from_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[bool] = []

    def choose_by_list(_: Shortlists, passing: PassContext) -> NodeSelection:
        listed.append(has_domain_rules(passing.ask.template))
        return select_nodes(passing, 1)

    monkeypatch.setattr(Shortlists, "choose", choose_by_list)
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=100), count=1)
    bench.a_workload(a_template(cpu=100, spread=(Spread("zone"),)), count=1, uid=101, workload=2)
    follower.work()
    assert len(placed_on(bench)) == 2
    assert listed == [False]


# Answers


def test_a_refusal_that_the_view_explains_waits_for_the_revision_that_the_ledger_named() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    work = bench.a_workload(a_template(cpu=1000), count=1)
    other = bench.a_workload(a_template(cpu=900), count=1, uid=101, workload=2)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert attempt.command.groups[0].assignment == work.uid
    bench.a_scheduler("scheduler/other")
    bench.accept("scheduler/other", bench.proposal(other, c.SlotPlacement(0, bench.state.node_names["n1"])))
    assert [one.code for one in follower.send(attempt)] == [Code.STALE]
    asleep = follower.asleep()
    assert asleep is not None
    assert asleep.why is BlockReason.BEHIND
    follower.look()
    assert follower.asleep() is asleep
    follower.catch_up()
    assert follower.asleep() is None


@pytest.mark.parametrize("code", [Code.POLICY, Code.OVER_GRANT, Code.EXPIRED])
def test_refusals_in_a_row_are_tried_again_later_each_time(code: Code) -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    pauses = []
    for _ in range(10):
        follower.catch_up()
        attempt = follower.look()
        assert attempt is not None
        follower.scheduler.on_refused(attempt, code, [], 0)
        assert follower.look() is None
        asleep = follower.asleep()
        assert asleep is not None
        pauses.append(asleep.until - bench.at)
        bench.at = asleep.until
    assert pauses[:4] == [BACKOFF_MS, 2 * BACKOFF_MS, 4 * BACKOFF_MS, 8 * BACKOFF_MS]
    assert pauses[-1] == BACKOFF_MOST_MS


def a_late_scheduler() -> tuple[RegionBench, Follower]:
    """Its time is a second behind the ledger's: it goes on to propose for a tenant whose grant has just ended."""
    bench, follower = a_region(nodes=4)
    bench.a_grant("quota/beta", version=2, ends=bench.at + 900)
    bench.a_workload(a_template(cpu=900), count=1, uid=900, workload=900, tenant="beta")
    bench.at += 1_000
    return bench, follower


def late_look(follower: Follower) -> Proposal | None:
    follower.catch_up()
    return follower.scheduler.run_cycle(SchedulerView(follower.state, follower.bench.at - 1_000))[0]


def test_a_group_that_is_refused_beside_others_that_land_is_tried_again_later_each_time() -> None:
    bench, follower = a_late_scheduler()
    proposed: list[int] = []
    for number in range(1, 7):
        bench.a_workload(a_template(cpu=100), count=1, uid=number, workload=number)
        attempt = late_look(follower)
        assert attempt is not None
        proposed += [one.assignment for one in attempt.command.groups]
        if 900 in attempt.workloads:
            assert [one.code for one in follower.send(attempt)] == [Code.GRANT_ENDED]
        else:
            assert follower.send(attempt) == []
        bench.at += BACKOFF_MS // 2
    assert [uid for uid in proposed if uid != 900] == [1, 2, 3, 4, 5, 6], "who lands is proposed at once"
    assert proposed.count(900) == 2, "at once, after 200 ms, and not before 400 ms more"
    asleep = follower.asleep(900)
    assert asleep is not None
    assert asleep.why is BlockReason.REFUSED


def test_a_group_that_is_refused_beside_others_because_its_view_is_behind_waits_for_that_revision() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=1)
    bench.a_node("n2", cpu=500)
    bench.a_workload(a_template(cpu=500, require=(("disk", "ssd"),)), count=1, uid=101, workload=2)
    bench.a_node("n3", cpu=500, labels=(("disk", "ssd"),))
    other = bench.a_workload(a_template(cpu=900), count=1, uid=102, workload=3, priority_class="best-effort")
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert {100, 101} <= {one.assignment for one in attempt.command.groups}
    bench.a_scheduler("scheduler/other")
    bench.accept("scheduler/other", bench.proposal(other, c.SlotPlacement(0, bench.state.node_names["n1"])))
    assert [one.code for one in follower.send(attempt)] == [Code.STALE]
    asleep = follower.asleep()
    assert asleep is not None
    assert asleep.why is BlockReason.BEHIND
    follower.catch_up()
    assert follower.asleep() is None


def test_a_group_of_which_a_part_lands_is_looked_at_again_at_once() -> None:
    bench, follower = a_region(nodes=2, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=2)
    other = bench.a_workload(a_template(cpu=10), count=1, uid=101, workload=2, priority_class="best-effort")
    follower.catch_up()
    attempt = follower.look()
    bench.a_scheduler("scheduler/other")
    bench.accept("scheduler/other", bench.proposal(other, c.SlotPlacement(0, bench.state.node_names["n1"])))
    assert attempt is not None
    assert [one.code for one in follower.send(attempt)] == [Code.STALE]
    assert follower.asleep() is None


def test_a_group_of_which_a_part_lands_has_been_refused_as_often_as_before() -> None:
    bench, follower = a_region(nodes=2)
    work = bench.a_workload(count=2)
    key = (work.uid, work.shares[0].template)

    def tries(unmet: list[RefusedPart]) -> int:
        follower.catch_up()
        attempt = follower.look()
        assert attempt is not None
        follower.scheduler.on_refused(attempt, Code.POLICY, [], 0)
        bench.at += BACKOFF_MOST_MS
        again = follower.look()
        assert again is not None
        follower.scheduler.on_accepted(again, pack_revision(bench.state.info.seq, INDEX_MAX), unmet)
        group = follower.scheduler.queue.group(key)
        assert group is not None
        return group.attempts

    assert tries([RefusedPart(0, 1, Code.STALE, "node n1 was changed")]) == 1
    bench, follower = a_region(nodes=2)
    bench.a_workload(count=2)
    assert tries([]) == 0


def test_only_who_was_declined_is_tried_later_and_later_though_others_of_the_proposal_are_bound() -> None:
    bench, follower = a_region(nodes=1, plugins=replace(BUILT_IN, binds=(TwoSteps("acme"),)))
    bench.a_workload(a_template(cpu=100), count=1)
    bench.a_workload(a_template(cpu=200), count=1, uid=101, workload=2)
    follower.catch_up()
    for tries in (1, 2, 3):
        attempt = follower.look()
        assert attempt is not None
        groups = [follower.scheduler.queue.group((one.assignment, one.template)) for one in attempt.command.groups]
        follower.scheduler.on_declined(attempt, [(2, 0)])
        follower.scheduler.on_bound(attempt, [(2, 0)])
        assert [one.attempts for one in groups if one is not None] == [0, tries]
        assert follower.asleep() is None
        asleep = follower.asleep(101)
        assert asleep is not None
        assert asleep.until == bench.at + BACKOFF_MS * 2 ** (tries - 1)
        follower.scheduler.flight.refuse(attempt.number)
        bench.at = asleep.until


def test_who_waits_for_a_revision_is_awake_once_that_very_one_was_heard() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    follower.scheduler.on_refused(attempt, Code.STALE, [], pack_revision(bench.state.info.seq + 1, INDEX_MAX))
    follower.catch_up()
    assert follower.asleep() is not None
    bench.a_grant("quota/other")
    follower.catch_up()
    assert follower.asleep() is None


def test_having_waited_for_room_makes_a_refusal_no_worse() -> None:
    bench, follower = a_region(nodes=1, cpu=1000)
    bench.a_workload(a_template(cpu=2000), count=1)
    for _ in range(6):
        follower.work()
        bench.at += 60_000
    bench.a_node("n2", cpu=2000)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    follower.scheduler.on_refused(attempt, Code.POLICY, [], 0)
    asleep = follower.asleep()
    assert asleep is not None
    assert asleep.until == bench.at + BACKOFF_MS


def test_a_success_ends_the_row_of_refusals() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=2, ordinals=1)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    follower.scheduler.on_refused(attempt, Code.POLICY, [], 0)
    bench.at += BACKOFF_MS
    bench.accept(REPLICA, c.OpenSlots(100, attempt.command.groups[0].template, (1,)))
    follower.work()
    bench.accept(REPLICA, c.WithdrawSlots(100, (1,)))
    bench.move("agent/n1", Phase.RELEASED, "declined", 0)
    follower.catch_up()
    again = follower.look()
    assert again is not None
    follower.scheduler.on_refused(again, Code.POLICY, [], 0)
    asleep = follower.asleep()
    assert asleep is not None
    assert asleep.until == bench.at + BACKOFF_MS


# A state that is newer than what was heard


@pytest.mark.parametrize("paused", [False, True])
def test_a_workload_that_has_left_and_of_which_nobody_told_yet_is_let_go(paused: bool) -> None:
    bench, follower = a_region(nodes=1)
    gone = bench.a_workload(count=2)
    bench.a_workload(count=1, uid=101, workload=2)
    follower.catch_up()
    if paused:
        bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "acme", "look", bench.at + 500))
    bench.accept(REPLICA, c.WithdrawSlots(100, (0, 1)))
    bench.ship(c.ShippedAssignment(replace(gone, revision=200, stage=AssignmentStage.ENDED, shares=())))
    bench.accept(LINK, c.ForgetAssignment(100))
    follower.see_ahead()
    attempt = follower.look()
    if not paused:
        assert attempt is not None
        assert [group.assignment for group in attempt.command.groups] == [101]
        assert follower.send(attempt) == []
    follower.catch_up()
    assert follower.scheduler.queue.groups_of(100) == []


def test_what_stands_already_and_of_which_nobody_told_yet_is_not_proposed_again() -> None:
    bench, follower = a_region(nodes=2, cpu=1000)
    work = bench.a_workload(a_template(cpu=1000), count=2)
    follower.catch_up()
    bench.a_scheduler("scheduler/other")
    bench.accept("scheduler/other", bench.proposal(work, c.SlotPlacement(0, bench.state.node_names["n1"])))
    follower.see_ahead()
    attempt = follower.look()
    assert attempt is not None
    assert [placement.ordinal for placement in attempt.command.groups[0].placements] == [1]


# What is not known here


def rests_without_a_refusal(bench: RegionBench, follower: Follower, code: Code) -> None:
    follower.work()
    assert follower.refused == []
    assert follower.codes() == [code]
    assert placed_on(bench) == {}


def test_who_is_of_a_class_that_is_not_known_here_waits_for_it() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    bench.ship(gone=(c.RemovedObject("priority-class", "normal"),))
    rests_without_a_refusal(bench, follower, Code.NOT_FOUND)
    bench.ship(c.ShippedPriorityClass(a_class("normal", 50)))
    assert follower.work() == 1


def test_who_is_under_a_policy_that_is_not_known_here_waits_for_it() -> None:
    bench, follower = a_region(nodes=1)
    bench.a_workload(count=1)
    bench.ship(c.ShippedValidity(Validity("eu", "acme", 9)))
    rests_without_a_refusal(bench, follower, Code.POLICY)
    a_policy(bench, 9, "acme", PolicyDocument())
    assert follower.work() == 1


def test_who_has_no_payer_at_all_waits_even_if_charged_before() -> None:
    bench, follower = a_region(nodes=1)
    work = bench.a_workload(count=1)
    follower.work()
    bench.move("agent/n1", Phase.RELEASED, "declined")
    bench.ship(c.ShippedAssignment(replace(work, revision=200, generation=2, accounts=())))
    rests_without_a_refusal(bench, follower, Code.OVER_GRANT)
    bench.ship(c.ShippedAssignment(replace(work, revision=201, generation=3)))
    assert follower.work() == 1
