"""StandDown: a region that was retired ends everything, through those who always end things."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted, Code
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region import commands as c
from holdfast.core.region.decide.shipments import stand_down
from holdfast.core.region.events import AssignmentReceived
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import LINK, REPLICA, RegionBench, an_assignment
from tests.support.step_counter import StepCounter


def running() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    bench.place(bench.a_workload(count=2), c.SlotPlacement(0, node))
    return bench


def test_everything_assigned_ends_and_nothing_new_is_paid_for() -> None:
    bench = running()
    bench.accept(LINK, c.StandDown("its log is tombstoned"))
    (assignment,) = bench.state.assignments.values()
    assert (assignment.stage, assignment.shares) == (AssignmentStage.ENDED, ())
    allowance = bench.state.accepted_grants["quota/acme"]
    assert (allowance.target, allowance.ends) == (ZERO, bench.at)
    assert allowance.limit == bench.state.account_usage["quota/acme"].charged != Resources()


def test_what_runs_is_stopped_as_always() -> None:
    bench = running()
    bench.accept(LINK, c.StandDown("its log is tombstoned"))
    bench.accept(REPLICA, c.WithdrawSlots(next(iter(bench.state.assignments.values())).uid, (0, 1)))
    bench.accept(REPLICA, c.Stop(((1, 0),), "deleted"))


def test_the_second_time_there_is_nothing_left() -> None:
    bench = running()
    bench.accept(LINK, c.StandDown("its log is tombstoned"))
    assert bench.refuse(LINK, c.StandDown("again")).code is Code.ALREADY


def test_only_the_link_hears_of_it() -> None:
    assert running().refuse(REPLICA, c.StandDown("why not")).code is Code.NO_RIGHT


def test_a_thousand_assignments_with_the_longest_names_end_in_as_many_records_as_they_need() -> None:
    bench, name = RegionBench(checked=False), "n" * 250
    accounts = f"quota/{name}", f"reclaimable/{name}"
    for first in range(0, 1_000, 250):
        named: dict[str, Any] = {"workload_name": name, "tenant": name, "accounts": accounts, "shares": ()}
        numbers = range(first, first + 250)
        bench.ship(*(c.ShippedAssignment(an_assignment(uid=900 + n, workload=900 + n, **named)) for n in numbers))
    while any(one.stage is not AssignmentStage.ENDED for one in bench.state.assignments.values()):
        bench.accept(LINK, c.StandDown("its log is tombstoned"))


def test_what_has_not_ended_is_found_in_no_more_steps_where_very_much_has() -> None:
    steps = {}
    for ended in (100, 10_000):
        state = RegionState()
        for uid in range(1, ended + 11):
            stage = AssignmentStage.ENDED if uid <= ended else AssignmentStage.ACTIVE
            state.assignments.put(uid, an_assignment(uid=uid, workload=uid, stage=stage, shares=()))
        state.rebuild()
        envelope = Envelope(LINK, c.StandDown("its log is tombstoned"), 0)
        with StepCounter() as counted:
            answer = stand_down(state, envelope.command, CommandContext(envelope, 0, 1))
        assert isinstance(answer, Accepted)
        assert [event.assignment.uid for event in answer.events if isinstance(event, AssignmentReceived)] == [
            *range(ended + 1, ended + 11)
        ]
        steps[ended] = counted.calls
    assert steps[10_000] < 1.5 * steps[100]
