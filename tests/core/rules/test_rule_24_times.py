"""RULES 24: a fence is counted with the numbers that the agent was given in its session, and who cannot keep them gets
no exclusive work.

Otherwise a region lowers its times and fences a process that its guard, which knows the longer ones, ends later.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure, RaiseLevel
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Machine
from holdfast.core.model.values.conditions import ConditionReason, ConditionStatus
from holdfast.core.model.values.settings import DEFAULTS, Settings, outlasting, settings_problems
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import FAILOVER
from holdfast.core.region import commands as c
from holdfast.core.region.decide.full_list import ended_assignment
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.fence import fenced_at, longest
from holdfast.core.region.queries.node_conditions import node_conditions
from tests.support.ledgers.node_world import REPAIR, NodeWorld
from tests.support.ledgers.platform import ROOT as OPERATOR
from tests.support.ledgers.platform import PlatformBench, a_world, an_exclusive
from tests.support.ledgers.region import REPLICA, ROOT, T0, RegionBench, a_template, an_assignment

#: Safe in themselves, and too short for an agent on the defaults of before.
SHORT = replace(DEFAULTS, session_lease=3_000, grace=2_000, kill_margin=1_000, fence_time=6_100)
LONG = replace(DEFAULTS, grace=30_000, fence_time=60_000)


def test_an_end_is_fenced_by_the_longest_time_that_its_agent_was_told_in_the_session() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(SHORT))
    nodes.silence(0)
    assert fenced_at(nodes.state, nodes.node(0)) == nodes.bench.at + DEFAULTS.fence_time


def test_what_was_told_later_in_a_session_counts_too() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(LONG))
    nodes.bench.accept(ROOT, Configure(DEFAULTS))
    nodes.silence(0)
    assert fenced_at(nodes.state, nodes.node(0)) == nodes.bench.at + LONG.fence_time


def test_a_session_that_was_told_short_times_is_fenced_by_them_whatever_the_settings_become() -> None:
    nodes = NodeWorld(1, Phase.RUNNING)
    nodes.bench.accept(ROOT, Configure(SHORT))
    nodes.come_back(0, overrun=3_000)
    nodes.bench.at += DEFAULTS.fence_time
    nodes.silence(0)
    nodes.bench.accept(ROOT, Configure(LONG))
    assert fenced_at(nodes.state, nodes.node(0)) == nodes.bench.at + SHORT.fence_time


def test_a_short_session_in_between_does_not_shorten_a_fence_that_is_not_past() -> None:
    """What an agent was given in the first one may live on, on a machine of which nobody hears."""
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(SHORT))
    nodes.come_back(0, machine=Machine("another"), overrun=3_000)
    nodes.bench.at += 1_000
    nodes.silence(0)
    assert fenced_at(nodes.state, nodes.node(0)) >= nodes.bench.at - 1_000 + DEFAULTS.fence_time
    nodes.settle()
    nodes.bench.at += SHORT.fence_time
    assert not nodes.look(REPAIR, 0).commands


def test_a_session_from_before_its_log_was_of_level_2_keeps_the_fence_that_it_ended_with() -> None:
    bench = RegionBench(level=1)
    uid = bench.a_node("n1")
    bench.book = REGION
    bench.accept("ledger", RaiseLevel(2))
    bench.accept("controller/node-health", EndSession(bench.sessions["agent/n1"], "silent"))
    bench.accept(ROOT, Configure(SHORT))
    assert fenced_at(bench.state, bench.state.nodes[uid]) == bench.at + DEFAULTS.fence_time


def test_a_fence_that_began_in_a_log_of_level_1_is_not_shortened_while_it_runs() -> None:
    """How long it is was not kept: the time of the settings counts, and a guard goes by those of before."""
    nodes = NodeWorld(1, Phase.RUNNING, level=1, exclusive=True)
    nodes.silence(0)
    until = nodes.bench.at + DEFAULTS.fence_time
    nodes.raise_level()
    assert nodes.bench.refuse(ROOT, Configure(SHORT)).code is Code.TOO_EARLY
    assert fenced_at(nodes.state, nodes.node(0)) == until
    nodes.bench.at = until
    nodes.bench.accept(ROOT, Configure(SHORT))


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_log_that_keeps_no_fence_times_keeps_the_one_it_has_or_takes_a_longer_one(is_silent: bool) -> None:
    nodes = NodeWorld(1, Phase.RUNNING, level=1, exclusive=True)
    if is_silent:
        nodes.silence(0)
    assert nodes.bench.refuse(ROOT, Configure(SHORT)).code is Code.LEVEL
    nodes.bench.accept(ROOT, Configure(LONG))


def test_a_lease_is_not_raised_above_what_an_agent_with_exclusive_work_keeps() -> None:
    """Another machine takes the node's name just after a renewal: what the first one runs lives on for both."""
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    longer = replace(DEFAULTS, session_lease=20_000, grace=3_000)
    assert settings_problems(longer) == []
    assert nodes.bench.refuse(ROOT, Configure(longer)).code is Code.CONTRADICTORY
    nodes.bench.accept(ROOT, Configure(replace(DEFAULTS, grace=3_000)))
    nodes.bench.a_node("n0", overrun=4_000)
    nodes.bench.accept(ROOT, Configure(longer))


def test_a_lease_is_raised_with_its_fence_or_where_nothing_is_exclusive() -> None:
    longer = replace(DEFAULTS, session_lease=20_000, grace=3_000)
    NodeWorld(1, Phase.RUNNING).bench.accept(ROOT, Configure(longer))
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(replace(longer, fence_time=32_000)))


def test_the_longest_fence_time_counts_until_no_session_and_no_fence_goes_by_it() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(LONG))
    nodes.bench.accept(ROOT, Configure(DEFAULTS))
    assert longest(nodes.state, nodes.bench.at) == LONG.fence_time
    nodes.silence(0)
    nodes.bench.at += LONG.fence_time - 1
    assert longest(nodes.state, nodes.bench.at) == LONG.fence_time
    nodes.bench.at += 1
    assert longest(nodes.state, nodes.bench.at) == DEFAULTS.fence_time


def test_a_session_from_before_its_log_was_of_level_2_is_fenced_by_what_it_was_told_before_times_fell() -> None:
    bench = RegionBench(level=1)
    uid = bench.a_node("n1")
    bench.book = REGION
    bench.accept("ledger", RaiseLevel(2))
    bench.accept(ROOT, Configure(SHORT))
    bench.accept("controller/node-health", EndSession(bench.sessions["agent/n1"], "silent"))
    assert fenced_at(bench.state, bench.state.nodes[uid]) == bench.at + DEFAULTS.fence_time


def test_an_agent_that_speaks_after_times_were_lowered_is_fenced_by_the_longer_ones_all_the_same() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(SHORT))
    nodes.say(0, Phase.READY, "probe-passed")
    nodes.silence(0)
    assert fenced_at(nodes.state, nodes.node(0)) == nodes.bench.at + DEFAULTS.fence_time


def exclusive(bench: RegionBench) -> c.Propose:
    template = a_template(cpu=100)
    assignment = an_assignment(template=template, count=1, exclusive=True, ordinals=(0,))
    digest = assignment.shares[0].template
    bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(assignment))
    bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, (0,)))
    node = bench.state.node_names.get("n1")
    assert node is not None
    return bench.proposal(assignment, c.SlotPlacement(0, node))


@pytest.mark.parametrize(("overrun", "is_taken"), [(3_000, True), (3_097, True), (3_098, False), (11_000, False)])
def test_an_agent_that_ends_exclusive_work_too_late_gets_none(overrun: int, is_taken: bool) -> None:
    """The fence of 6,100 ms allows for a lease of 3,003 ms on the slowest clock and so much more."""
    bench = RegionBench()
    bench.accept(ROOT, Configure(SHORT))
    bench.a_scheduler()
    bench.a_grant()
    bench.a_node("n1", overrun=overrun)
    answer = bench.send("scheduler/main", exclusive(bench))
    assert isinstance(answer, Refused) is not is_taken
    assert not isinstance(answer, Refused) or answer.code is Code.NODE_UNAVAILABLE


def test_other_work_is_placed_there_all_the_same() -> None:
    bench = RegionBench()
    bench.accept(ROOT, Configure(SHORT))
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node("n1", overrun=11_000)
    bench.place(bench.a_workload(a_template(cpu=100), 1), c.SlotPlacement(0, node))


def test_a_reservation_is_not_bound_where_times_are_kept_no_longer() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    bench.a_node("n1")
    bench.accept("scheduler/main", replace(exclusive(bench), bind=False))
    bench.accept(ROOT, Configure(SHORT))
    assert bench.refuse("scheduler/main", c.Bind(((1, 0),))).code is Code.NODE_UNAVAILABLE
    bench.a_node("n1", overrun=3_000)
    bench.accept("scheduler/main", c.Bind(((1, 0),)))


def test_what_an_agent_could_not_end_in_time_it_may_not_keep() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.bench.accept(ROOT, Configure(SHORT))
    nodes.come_back(0, overrun=11_000)
    nodes.settle()
    answer = nodes.bench.move("agent/n0", Phase.RUNNING, "found-again")
    assert isinstance(answer, Refused)
    assert answer.code is Code.FENCE


def test_a_node_says_that_its_agent_does_not_keep_the_times() -> None:
    nodes = NodeWorld(1, Phase.RUNNING)
    kept = {one.type: one for one in node_conditions(nodes.node(0), nodes.state.info.settings)}["TimesKept"]
    assert kept.status is ConditionStatus.TRUE
    kept = {one.type: one for one in node_conditions(nodes.node(0), SHORT)}["TimesKept"]
    assert (kept.status, kept.reason) == (ConditionStatus.FALSE, ConditionReason.TIMES_NOT_KEPT)
    assert "11000 ms after its lease" in kept.message


# A region's grace and the platform's


def test_a_region_does_not_lower_its_grace_below_the_platforms() -> None:
    bench = RegionBench()
    bench.ship(c.ShippedRegion("eu", "eu", 10_000))
    refused = bench.refuse(ROOT, Configure(SHORT))
    assert refused.code is Code.CONTRADICTORY
    assert refused.facts == {"grace": 2_000, "least": 10_000}
    bench.accept(ROOT, Configure(replace(SHORT, grace=10_000, fence_time=14_100)))


def joined(bench: PlatformBench, settings_grace: int, fence: int = 25_000) -> p.JoinRegion:
    return p.JoinRegion("eu", bench.state.regions["eu"].status.log_id, "", 10_000, settings_grace, fence)


def test_a_region_whose_grace_is_below_the_platforms_does_not_join() -> None:
    bench = a_world()
    refused = bench.refuse(Code.CONTRADICTORY, "region/eu", joined(bench, 9_999))
    assert refused.facts == {"region": "eu", "grace": 9_999, "least": 10_000}
    assert "raise the region's, or lower the platform's" in refused.message
    bench.accept("region/eu", joined(bench, 10_000))
    assert bench.state.regions["eu"].status.grace == 10_000


def test_the_platform_does_not_raise_its_grace_above_that_of_a_region() -> None:
    bench = a_world()
    bench.accept("region/eu", joined(bench, 10_000))
    assert not settings_problems(LONG)
    refused = bench.refuse(Code.CONTRADICTORY, OPERATOR, Configure(LONG))
    assert refused.facts == {"regions": ["eu"], "grace": 30_000}
    bench.accept("region/eu", joined(bench, 30_000, 60_000))
    bench.accept(OPERATOR, Configure(LONG))


def test_the_platform_raises_its_grace_above_that_of_a_region_that_is_retired() -> None:
    bench = a_world()
    bench.accept("region/eu", joined(bench, 10_000))
    bench.lose("eu")
    bench.retire("eu")
    bench.accept(OPERATOR, Configure(LONG))


def right_lapses_after(fence: int, session_lease: int) -> int:
    """How long after its region was lost a leased right goes elsewhere, by the times that the region joined with."""
    bench = a_world()
    db = bench.put(an_exclusive(leased=True, replicas=1, budget="reserve"))
    bench.accept("region/eu", replace(joined(bench, 10_000, fence), session_lease=session_lease))
    bench.hold(db, "eu", 0)
    bench.lose("eu")
    until = bench.refuse(Code.TOO_EARLY, FAILOVER, p.GrantRight(db, 0, "us")).facts["until"]
    lost, bench.at = bench.at, until - 1
    bench.refuse(Code.TOO_EARLY, FAILOVER, p.GrantRight(db, 0, "us"))
    bench.at = until
    bench.accept(FAILOVER, p.GrantRight(db, 0, "us"))
    return int(until - lost)


def test_a_leased_right_is_waited_for_by_the_fence_of_its_region() -> None:
    usual = right_lapses_after(DEFAULTS.fence_time, DEFAULTS.session_lease)
    assert right_lapses_after(DEFAULTS.fence_time + 65_000, DEFAULTS.session_lease) >= usual + 65_000
    assert right_lapses_after(DEFAULTS.fence_time, DEFAULTS.session_lease + 5_000) >= usual + 2 * 5_000
    assert right_lapses_after(6_100, 3_000) == usual, "shorter ones than the platform's do not count"


# What a region has not told yet

RAISED = (
    replace(DEFAULTS, session_lease=300_000, fence_time=320_000),
    replace(DEFAULTS, grace=600_000, fence_time=620_000),
    replace(DEFAULTS, session_lease=10_001),
    replace(DEFAULTS, fence_time=25_001),
)


@pytest.mark.parametrize("raised", RAISED)
def test_a_region_does_not_raise_its_times_while_something_there_runs_by_a_lease(raised: Settings) -> None:
    """Its agents go by them at once. Is it cut off before it has told them, the right is given away while one runs."""
    assert settings_problems(raised) == []
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True, right_until=T0 + 60_000)
    bench = nodes.bench
    refused = bench.refuse(ROOT, Configure(raised))
    assert refused.code is Code.CONTRADICTORY
    assert refused.facts == {"assignments": 1, "outlasting": outlasting(raised), "most": outlasting(DEFAULTS)}
    assert "acme/w1" in refused.message
    bench.ship(c.ShippedAssignment(ended_assignment(bench.state.assignments[nodes.assignment.uid])))
    bench.refuse(ROOT, Configure(raised))
    bench.accept(REPLICA, c.Stop(((1, 0),), "deleted"))
    bench.move("agent/n0", Phase.RELEASED, "stopped")
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[nodes.assignment.uid], ordinals=())))
    bench.accept(ROOT, Configure(raised))


def test_a_region_raises_its_times_beside_identities_that_are_not_leased_and_lowers_them_at_any_time() -> None:
    NodeWorld(1, Phase.RUNNING, exclusive=True).bench.accept(ROOT, Configure(RAISED[0]))
    leased = NodeWorld(1, Phase.RUNNING, exclusive=True, right_until=T0 + 60_000).bench
    leased.accept(ROOT, Configure(replace(DEFAULTS, fence_time=24_999)))
    leased.accept(ROOT, Configure(replace(DEFAULTS, fence_time=24_999, lost_after=21_000)))


def test_what_runs_by_a_lease_when_a_region_is_cut_off_is_over_when_its_right_is_given_away() -> None:
    usual = right_lapses_after(DEFAULTS.fence_time, DEFAULTS.session_lease)
    assert usual >= DEFAULTS.right_lease + outlasting(DEFAULTS)
