"""What the model of a region has found in its ledger: for each fault the smallest story that it made untrue."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.workloads import Apart
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from tests.support.ledgers.region import REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment

AGENT = "agent/n1"
DAY = 86_400_000


def a_bench() -> tuple[RegionBench, int]:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    return bench, bench.a_node(gpus=("h100",))


def held(bench: RegionBench, node: int, need: Resources, actor: str = ROOT) -> c.Hold:
    return c.Hold(ReservationPurpose.DATED, node, "quota/acme", bench.at + 10_000, need, tenant="acme")


# Crashes: an exception in decide or evolve stops the leader


def test_a_hold_may_name_none_of_an_extended_resource() -> None:
    bench, node = a_bench()
    answer = bench.send(ROOT, held(bench, node, Resources(100, 1, 1, 0, (("fpga", 0),))))
    assert isinstance(answer, Committed) or (isinstance(answer, Refused) and answer.code is Code.MALFORMED)


def test_a_successor_for_an_assignment_without_accounts_is_refused() -> None:
    bench, node = a_bench()
    hold = bench.accept(ROOT, held(bench, node, Resources(100))).revision
    assignment = bench.a_workload(accounts=())
    bench.refuse_place(assignment, c.SlotPlacement(0, node, hold=hold))


def test_a_slot_is_placed_only_through_its_own_assignment() -> None:
    bench, node = a_bench()
    bench.a_grant("recovery/r")
    template = a_template()
    bench.a_workload(template, count=2)
    stand_in = bench.a_workload(
        template, count=2, ordinals=0, uid=101, purpose=AssignmentPurpose.RECOVERY, accounts=("recovery/r",)
    )
    bench.refuse_place(stand_in, c.SlotPlacement(0, node))
    assert bench.slot(0).assignment == 100


# Promises that do not hold


def test_a_room_is_what_it_was_once_its_devices_are_free_again() -> None:
    bench, node = a_bench()
    bench.checked = False
    assignment = bench.a_workload(a_template(gpus=1), count=1)
    bench.place(assignment, c.SlotPlacement(0, node, (0,)), bind=False)
    bench.accept(SCHEDULER, c.Unreserve(((1, 0),)))
    assert check(bench.state, REGION.invariants) == []


def test_a_tenant_is_not_refused_for_what_is_kept_for_itself() -> None:
    bench, node = a_bench()
    bench.a_grant("quota/beta", protected=Resources(4000))
    bench.a_grant("recovery/vital")
    stand_in = bench.a_workload(
        a_template(cpu=6000), count=1, tenant="beta", purpose=AssignmentPurpose.RECOVERY, accounts=("recovery/vital",)
    )
    # Only a placement of another tenant may be refused for it: here recovery would wait for its own tenant's room.
    bench.place(stand_in, c.SlotPlacement(0, node))


@pytest.mark.parametrize("plain_first", [True, False])
def test_protected_room_is_kept_from_successors_and_plain_placements_of_one_command(plain_first: bool) -> None:
    bench, node = a_bench()
    bench.a_grant("quota/beta", protected=Resources(4000))
    assignment = bench.a_workload(a_template(cpu=3000), count=2)
    hold = bench.accept(ROOT, held(bench, node, Resources(1000))).revision
    plain, successor = c.SlotPlacement(0, node), c.SlotPlacement(1, node, hold=hold)
    # 8000 are there and 1000 held. The plain one leaves 4000, the other takes 2000 more: one of them is too many.
    bench.place(assignment, *((plain, successor) if plain_first else (successor, plain)))
    assert bench.state.totals.capacity.cpu - bench.state.totals.taken.cpu >= 4000


def test_what_a_protected_tenant_has_just_placed_is_owed_to_it_no_more() -> None:
    bench, node = a_bench()
    bench.a_grant("quota/beta", protected=Resources(4000))
    template = a_template(cpu=4000)
    mine = bench.a_workload(template, count=1)
    theirs = bench.a_workload(template, count=1, uid=200, workload=2, tenant="beta")
    digest = template_digest(template)
    groups = tuple(c.PlacementGroup(one.uid, digest, (c.SlotPlacement(0, node),)) for one in (theirs, mine))
    assert bench.accept(SCHEDULER, c.Propose(groups, bench.at + 1000)).answer == b""


def test_room_that_a_used_up_hold_gives_back_is_free_for_the_next_placement() -> None:
    bench, node = a_bench()
    bench.a_grant("quota/beta", protected=Resources(4000))
    assignment = bench.a_workload(a_template(cpu=1000), count=2)
    hold = bench.accept(ROOT, held(bench, node, Resources(4000))).revision
    # 8000 are there, 4000 held, 4000 owed: with the hold gone there is room for both.
    answer = bench.place(assignment, c.SlotPlacement(0, node, hold=hold), c.SlotPlacement(1, node))
    assert answer.answer == b""


def test_two_serving_victims_of_one_placement_cost_two_of_the_disruption_budget() -> None:
    bench, node = a_bench()
    victims = bench.a_workload(a_template(cpu=4000), count=2, disruption=1)
    bench.place(victims, c.SlotPlacement(0, node), c.SlotPlacement(1, node))
    bench.walk(Phase.SERVING, 0)
    bench.walk(Phase.SERVING, 1)
    bench.pass_time()
    urgent = bench.a_workload(a_template(cpu=8000), count=1, uid=200, workload=2, priority_class="critical")
    answer = bench.refuse_place(urgent, c.SlotPlacement(0, node, waits_for=((1, 0), (1, 1))))
    assert answer.code is Code.DISRUPTION


def test_what_recovery_reclaims_is_missing_when_the_next_group_preempts() -> None:
    bench, node = a_bench()
    bench.a_grant("recovery/r")
    borrowers = bench.a_workload(a_template(cpu=4000), count=2, disruption=1, priority_class="best-effort")
    bench.place(borrowers, c.SlotPlacement(0, node), c.SlotPlacement(1, node))
    bench.walk(Phase.SERVING, 0)
    bench.walk(Phase.SERVING, 1)
    large = a_template(cpu=4000, memory=512)
    vital = bench.a_workload(
        large,
        1,
        uid=200,
        workload=2,
        purpose=AssignmentPurpose.RECOVERY,
        accounts=("recovery/r",),
        priority_class="critical",
    )
    urgent = bench.a_workload(large, 1, uid=300, workload=3, priority_class="critical")
    digest = template_digest(large)
    groups = (
        c.PlacementGroup(vital.uid, digest, (c.SlotPlacement(0, node, waits_for=((1, 0),)),)),
        c.PlacementGroup(urgent.uid, digest, (c.SlotPlacement(0, node, waits_for=((1, 1),)),)),
    )
    bench.accept(SCHEDULER, c.Propose(groups, bench.at + 1000))
    assert bench.slot(1).phase is Phase.SERVING


def test_a_successor_is_not_found_running_before_its_victims_are_gone() -> None:
    bench, node = a_bench()
    device = a_template(gpus=1)
    victim = bench.a_workload(device, count=1)
    bench.place(victim, c.SlotPlacement(0, node, (0,)))
    bench.walk(Phase.RUNNING)
    bench.pass_time()
    urgent = bench.a_workload(device, count=1, uid=200, workload=2, priority_class="critical")
    bench.place(urgent, c.SlotPlacement(0, node, (0,), waits_for=((1, 0),)))
    bench.accept("controller/node-health", EndSession(bench.sessions[AGENT], "silent"))
    bench.move("controller/node-health", Phase.UNKNOWN, "session-ended", workload=2)
    bench.open_session(AGENT)
    bench.a_node(gpus=("h100",))
    answer = bench.move(AGENT, Phase.RUNNING, "found-again", workload=2)
    assert isinstance(answer, Refused)


# Repeats


def test_a_repeat_is_never_executed_though_its_sender_s_clock_is_fast() -> None:
    bench, node = a_bench()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, grant_life=3 * DAY)))
    bench.a_grant(version=2, ends=bench.at + 3 * DAY)
    command = replace(held(bench, node, Resources(100)), ends=bench.at + 2 * DAY)
    envelope = bench.envelope(ROOT, command, sent=bench.at + 60_000)
    assert isinstance(bench.give(envelope), Committed)
    bench.at += DAY + 30_000
    assert isinstance(bench.give(envelope), Refused | Repeated)


# Too much refused


def test_serving_replicas_beyond_what_is_wanted_cost_no_disruption_budget() -> None:
    bench, node = a_bench()
    template = a_template(memory=512)
    assignment = bench.a_workload(template, count=3, disruption=1)
    bench.place(assignment, *(c.SlotPlacement(ordinal, node) for ordinal in range(3)))
    for ordinal in range(3):
        bench.walk(Phase.SERVING, ordinal)
    bench.ship(c.ShippedAssignment(an_assignment(template=template, count=1, disruption=1)))
    # One by one both are accepted: two serve beyond the one that is wanted.
    assert bench.accept("controller/drain", c.Stop(((1, 0), (1, 1)), "drain")).answer == b""


def test_where_the_share_is_nothing_what_serves_beyond_what_is_wanted_may_still_be_stopped() -> None:
    bench, node = a_bench()
    template = a_template(memory=512)
    assignment = bench.a_workload(template, count=3)
    bench.place(assignment, *(c.SlotPlacement(ordinal, node) for ordinal in range(3)))
    for ordinal in range(3):
        bench.walk(Phase.SERVING, ordinal)
    bench.ship(c.ShippedAssignment(an_assignment(template=template, count=2)))
    bench.accept("controller/rollout", c.Stop(((1, 0), (1, 1)), "rollout"))
    # One of the two serves beyond what is wanted; the other one is wanted.
    assert [bench.slot(ordinal).phase for ordinal in range(3)] == [Phase.TERMINATING, Phase.SERVING, Phase.SERVING]
    assert bench.refuse("controller/rollout", c.Stop(((1, 1),), "rollout")).code is Code.DISRUPTION


def test_a_successor_whose_victims_are_gone_can_itself_be_preempted() -> None:
    bench, node = a_bench()
    whole = a_template(cpu=8000)
    small = bench.a_workload(whole, count=1, priority_class="best-effort")
    bench.a_workload(whole, count=1, uid=200, workload=2, priority_class="normal")
    bench.place(small, c.SlotPlacement(0, node))
    bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    bench.place(an_assignment(200, 2, whole), c.SlotPlacement(0, node, waits_for=((1, 0),)))
    bench.move(AGENT, Phase.RELEASED, "stopped")
    bench.pass_time()
    urgent = bench.a_workload(whole, count=1, uid=300, workload=3, priority_class="critical")
    bench.place(urgent, c.SlotPlacement(0, node, waits_for=((2, 0),)))


def test_a_broken_device_does_not_keep_a_hold_of_cpu_away() -> None:
    bench, node = a_bench()
    assignment = bench.a_workload(a_template(gpus=1), count=1)
    bench.place(assignment, c.SlotPlacement(0, node, (0,)))
    bench.a_node(gpus=())
    plain = bench.a_workload(count=1, uid=200, workload=2)
    bench.place(plain, c.SlotPlacement(0, node))
    bench.accept(ROOT, held(bench, node, Resources(100, 1, 1)))


def test_a_retargeted_slot_still_belongs_to_the_session_that_ended() -> None:
    bench, node = a_bench()
    template, other = a_template(), a_template(cpu=500)
    assignment = bench.a_workload(template, count=1)
    bench.place(assignment, c.SlotPlacement(0, node))
    bench.walk(Phase.RUNNING)
    bench.open_session(AGENT)
    bench.a_node(gpus=("h100",))
    digest = template_digest(other)
    shares = (*assignment.shares, replace(assignment.shares[0], template=digest))
    bench.ship(c.ShippedTemplate(digest, other), c.ShippedAssignment(replace(assignment, shares=shares)))
    bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, (0,)))
    assert isinstance(bench.move("controller/node-health", Phase.UNKNOWN, "session-ended"), Committed)


def test_whoever_names_a_group_is_counted_whatever_key_it_names() -> None:
    bench, node = a_bench()
    lone = bench.a_workload(a_template(apart=(Apart("g", "node"),)), count=1)
    wide = bench.a_workload(a_template(apart=(Apart("g", "zone"),)), count=1, uid=200, workload=2)
    bench.place(lone, c.SlotPlacement(0, node))
    assert bench.refuse_place(wide, c.SlotPlacement(0, node)).code is Code.APART


# The link


def test_a_template_and_its_last_assignment_that_go_in_one_step_are_both_gone() -> None:
    bench, _ = a_bench()
    template = a_template()
    bench.a_workload(template, ordinals=0)
    bench.ship(gone=(c.RemovedObject("assignment", "100"), c.RemovedObject("template", template_digest(template))))
    assert template_digest(template) not in bench.state.templates


def test_a_template_that_is_shipped_again_no_longer_leaves() -> None:
    bench, _ = a_bench()
    template = a_template()
    digest = template_digest(template)
    bench.a_workload(template, count=1)
    bench.ship(gone=(c.RemovedObject("template", digest),))
    bench.ship(c.ShippedTemplate(digest, template), gone=(c.RemovedObject("assignment", "100"),))
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))
    bench.ship(c.ShippedAssignment(an_assignment(101, template=template)))


def test_a_step_does_not_take_away_the_template_of_an_assignment_it_brings() -> None:
    bench, _ = a_bench()
    template = a_template()
    digest = template_digest(template)
    bench.ship(c.ShippedTemplate(digest, template))
    step = c.Ship(
        "log-platform", 1, bench.state.region.cursor, bench.state.region.cursor + 1,
        (c.ShippedAssignment(an_assignment(template=template)),), (c.RemovedObject("template", digest),),
    )  # fmt: skip
    answer = bench.send("controller/link", step)
    assert isinstance(answer, Refused) or digest in bench.state.templates


# Who pays


def test_room_is_held_for_a_tenant_at_its_own_cost_only() -> None:
    bench, node = a_bench()
    bench.a_grant("quota/beta")
    own = held(bench, node, Resources(100))
    assert bench.refuse(ROOT, replace(own, account="quota/beta")).code is Code.WRONG_SCOPE
    bench.accept(ROOT, own)


# Fences


def test_what_an_agent_that_came_back_in_time_may_have_kept_is_not_fenced_behind_its_back() -> None:
    bench, node = a_bench()
    bench.place(bench.a_workload(count=1), c.SlotPlacement(0, node))
    bench.walk(Phase.RUNNING)
    bench.open_session(AGENT)
    bench.at += 3_600_000
    assert isinstance(bench.move("controller/node-health", Phase.UNKNOWN, "session-ended"), Committed)
    refused = bench.move("controller/repair", Phase.FAILED, "fenced")
    assert isinstance(refused, Refused)
    assert refused.code is Code.FENCE
    bench.a_node(gpus=("h100",))
    assert isinstance(bench.move(AGENT, Phase.FAILED, "gone"), Committed)


def test_a_session_in_which_the_node_was_never_registered_counts_for_the_fence() -> None:
    bench, node = a_bench()
    bench.place(bench.a_workload(count=1), c.SlotPlacement(0, node))
    bench.walk(Phase.RUNNING)
    bench.accept("controller/node-health", EndSession(bench.sessions[AGENT], "silent"))
    bench.move("controller/node-health", Phase.UNKNOWN, "session-ended")
    bench.at += 20_000
    session = bench.open_session(AGENT)
    bench.at += 20_000
    bench.accept("controller/node-health", EndSession(session, "silent"))
    bench.at += 20_000
    refused = bench.move("controller/repair", Phase.FAILED, "fenced")
    assert isinstance(refused, Refused)
    bench.at += 5_000
    assert isinstance(bench.move("controller/repair", Phase.FAILED, "fenced"), Committed)
