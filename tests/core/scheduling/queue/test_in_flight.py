"""What is proposed and not answered: deducted until a view shows what became of it, and then no longer."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.objects.workloads import Apart, Spread, Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import ZERO, Resources, times
from holdfast.core.region import commands as c
from holdfast.core.region.watch import NODE
from holdfast.core.scheduling.scheduler import Proposal
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region

FULL = a_template(cpu=500, gpus=1, ports=1, apart=(Apart("db", "node", 9),), spread=(Spread("zone", 9),))


def seen(follower: Follower) -> tuple[object, ...]:
    """Everything that a proposal is deducted from."""
    table, flight = follower.scheduler.table, follower.scheduler.flight
    columns = (table.free_any, table.free_firm, table.devices.free_any, table.devices.free_firm, table.devices.ports)
    return (*(column.tolist() for column in columns), flight.spent, flight.firm, flight.members, flight.parts)


def proposed(template: Template = FULL, **fields: int) -> tuple[RegionBench, Follower, Proposal, tuple[object, ...]]:
    """A proposal of one slot under way; and what was seen before it."""
    bench, follower = a_region(nodes=1, cpu=4000, gpus=("t4",))
    bench.a_workload(template, count=fields.get("count", 1))
    follower.catch_up()
    before = seen(follower)
    attempt = follower.look()
    assert attempt is not None
    return bench, follower, attempt, before


def test_a_proposal_is_deducted_from_everything() -> None:
    _, follower, _, before = proposed()
    table, flight = follower.scheduler.table, follower.scheduler.flight
    assert table.free_any[0, 0] == table.free_firm[0, 0] == 3500
    assert table.devices.free_any[0, 0] == 0
    assert table.devices.ports[0] == 9
    assert flight.spent == {"quota/acme": FULL.need}
    assert flight.firm == FULL.need
    assert flight.members[("#1", "zone", "a")] == 1
    assert flight.members[("acme/db", "node", "n1")] == 1
    assert seen(follower) != before
    assert follower.look() is None


def test_a_refused_proposal_counts_no_more() -> None:
    _, follower, attempt, before = proposed()
    follower.scheduler.on_refused(attempt, Code.OVER_GRANT, [], 0)
    assert seen(follower) == before


def test_a_proposal_that_landed_is_deducted_until_the_view_shows_it_and_then_once() -> None:
    _, follower, attempt, _ = proposed()
    deducted = seen(follower)[:5]
    assert follower.send(attempt) == []
    assert seen(follower)[:5] == deducted
    assert follower.scheduler.flight.parts, "the view is older than the answer"
    follower.catch_up()
    assert seen(follower)[:5] == deducted, "now it stands there"
    assert seen(follower)[5:] == ({}, ZERO, {}, {})


@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_view_shows_to_have_landed_is_deducted_once_though_no_answer_has_come(at_once: bool) -> None:
    bench, follower, attempt, _ = proposed()
    deducted = seen(follower)[:5]
    answer = bench.accept(follower.name, attempt.command, view=attempt.view)
    if at_once:
        follower.scheduler.load(bench.state)  # as who has missed changes does
    else:
        follower.catch_up()
    assert seen(follower)[:5] == deducted, "it stands there"
    assert seen(follower)[5:] == ({}, ZERO, {}, {})
    follower.scheduler.on_accepted(attempt, answer.revision, [])
    assert follower.look() is None
    assert seen(follower)[:5] == deducted, "the answer is no news"
    assert seen(follower)[5:] == ({}, ZERO, {}, {})


@pytest.mark.parametrize(
    ("template", "fields", "granted"),
    [
        pytest.param(a_template(cpu=500), {"cpu": 1000}, None, id="room"),
        pytest.param(a_template(cpu=500), {"cpu": 4000}, Resources(1000, 8192), id="payer"),
        pytest.param(a_template(cpu=100, gpus=1), {"gpus": ("t4", "t4")}, None, id="devices"),
        pytest.param(a_template(cpu=100, ports=5), {}, None, id="ports"),
        pytest.param(a_template(cpu=100, apart=(Apart("db", "node", 2),)), {}, None, id="apart"),
    ],
)
def test_a_slot_is_placed_beside_one_that_landed_before_the_answer_about_that_has_come(
    template: Template, fields: dict[str, Any], granted: Resources | None
) -> None:
    bench, follower = a_region(nodes=1, **fields)
    if granted is not None:
        bench.a_grant(version=2, target=granted)
    bench.a_workload(template, count=1)
    follower.catch_up()
    first = follower.look()
    assert first is not None
    bench.accept(follower.name, first.command, view=first.view)
    bench.a_workload(template, uid=200, workload=2, count=1)
    follower.catch_up()
    second = follower.look()
    assert second is not None, follower.codes(200)
    assert follower.send(second) == []


def test_of_a_proposal_that_landed_in_part_only_what_is_not_shown_is_deducted_until_the_answer_comes() -> None:
    bench, follower, attempt, _ = proposed(a_template(cpu=500, ports=1, apart=(Apart("db", "node", 9),)), count=3)
    need = attempt.asks[0].template.need
    bench.place(bench.state.assignments[100], c.SlotPlacement(1, bench.state.node_names["n1"], (), (30_009,)))
    follower.catch_up()
    table, flight = follower.scheduler.table, follower.scheduler.flight
    assert table.free_any[0, 0] == 4000 - 3 * 500
    assert table.devices.ports[0] == 10 - 3
    assert flight.spent == {"quota/acme": times(need, 2)}
    assert flight.firm == times(need, 2)
    assert flight.members[("acme/db", "node", "n1")] == 2
    assert [one.code for one in follower.send(attempt)] != []
    follower.catch_up()
    assert table.free_any[0, 0] == 4000 - 3 * 500
    assert seen(follower)[5:] == ({}, ZERO, {}, {})


def test_a_state_that_shows_a_landing_nobody_has_told_of_does_not_make_its_room_seem_free() -> None:
    bench, follower, attempt, _ = proposed(a_template(cpu=500), count=2)
    bench.accept(follower.name, attempt.command, view=attempt.view)
    follower.see_ahead()
    heard = follower.unheard = {key: None for key in follower.unheard if key[0] != NODE}
    assert heard
    follower.hear({})
    table = follower.scheduler.table
    assert table.free_any[0, 0] == 4000 - 2 * 500


@pytest.mark.parametrize("by_another", [False, True])
def test_who_waits_beside_a_slot_that_the_view_shows_to_be_placed_does_not_wait_for_the_answer(
    by_another: bool,
) -> None:
    bench, follower = a_region(nodes=2, cpu=1000)
    bench.a_grant(version=2, target=a_template(cpu=500).need)
    assignment = bench.a_workload(a_template(cpu=500), count=2)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    assert [one.ordinal for one in attempt.command.groups[0].placements] == [0], "the grant pays for one"
    if by_another:
        bench.place(assignment, c.SlotPlacement(0, bench.state.node_names["n2"]))
    else:
        bench.accept(follower.name, attempt.command, view=attempt.view)
    follower.catch_up()
    bench.a_grant(version=3)
    follower.catch_up()
    assert not follower.scheduler.flight.parts, "nobody has answered, but its slot waits no more"
    second = follower.look()
    assert second is not None
    assert [one.ordinal for one in second.command.groups[0].placements] == [1]


def test_a_proposal_that_nobody_answered_counts_until_ledger_time_has_passed_it() -> None:
    bench, follower, attempt, before = proposed()
    bench.at = attempt.command.valid_until
    bench.a_grant("quota/other")
    follower.catch_up()
    assert follower.scheduler.flight.parts
    bench.at += 1
    bench.a_grant("quota/third")
    follower.catch_up()
    assert seen(follower) == before
    follower.scheduler.on_refused(attempt, Code.EXPIRED, [], 0)
    assert seen(follower) == before, "a late answer is no news"


def test_a_part_that_was_refused_counts_no_more_once_the_rest_is_seen() -> None:
    bench, follower, attempt, _ = proposed(a_template(cpu=500), count=3)
    bench.accept(REPLICA, c.WithdrawSlots(100, (1,)))
    assert len(follower.send(attempt)) == 1
    follower.catch_up()
    assert follower.scheduler.table.free_any[0, 0] == 3000
    assert follower.scheduler.flight.spent == {}


@pytest.mark.parametrize("template", [FULL, a_template(cpu=500), a_template(spread=(Spread("zone", 1),))])
def test_a_node_that_leaves_with_a_proposal_under_way_leaves_nothing_behind(template: Template) -> None:
    bench, follower, attempt, _ = proposed(template)
    bench.accept("ledger", EndSession(bench.sessions["agent/n1"], "silent"))
    bench.accept(ROOT, c.RemoveNode(bench.state.node_names["n1"]))
    follower.catch_up()
    assert [one.code for one in follower.send(attempt)] == [Code.NOT_FOUND]
    assert seen(follower)[5:] == ({}, ZERO, {}, {})
    bench.a_node("n2", gpus=("t4",), zone="a")
    bench.at += 60_000
    assert follower.work() == 1


def test_a_node_that_moves_with_a_proposal_under_way_leaves_nothing_behind() -> None:
    bench, follower, attempt, _ = proposed(a_template(spread=(Spread("zone", 1),)))
    node = bench.state.nodes[bench.state.node_names["n1"]]
    moved = c.RegisterNode(node.name, node.pool, "b", node.capacity, node.devices, node.ports)
    bench.accept("agent/n1", moved)
    follower.catch_up()
    follower.scheduler.on_refused(attempt, Code.EXPIRED, [], 0)
    assert follower.scheduler.flight.members == {}


def test_slots_that_are_charged_cost_nothing_but_their_room() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_workload(a_template(cpu=1000), count=1)
    follower.work()
    bench.move("agent/n1", Phase.RELEASED, "declined")
    follower.catch_up()
    assert follower.look() is not None
    flight = follower.scheduler.flight
    assert flight.spent == {}
    assert flight.firm.cpu == 1000


def test_reclaimable_work_under_way_takes_no_room_from_what_is_kept_for_others() -> None:
    bench, follower = a_region(nodes=1, cpu=2000)
    bench.a_workload(a_template(cpu=1000), count=1, priority_class="best-effort")
    follower.catch_up()
    assert follower.look() is not None
    assert follower.scheduler.flight.firm == ZERO
    assert follower.scheduler.flight.spent == {"quota/acme": Resources(1000, 1024)}
