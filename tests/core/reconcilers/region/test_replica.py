"""An assignment's slots are what it asks for, and whatever stays is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.reconciler import NO_CHANGES
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.bitsets import masks
from holdfast.core.reconcilers.region.replica import ReplicaReconciler, _cause
from holdfast.core.reconcilers.region.replica_plan import ReplicaPlan
from holdfast.core.reconcilers.region.rollout import RolloutReconciler
from holdfast.core.reconcilers.region.slot_groups import SlotGroup
from holdfast.core.region import commands as c
from holdfast.core.region.state.slot_kinds import count_kinds
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.assignment_world import UID, WORKLOAD, AssignmentWorld, opened, serving, stopped, withdrawn
from tests.support.ledgers.region import T0, an_assignment
from tests.support.step_counter import StepCounter

REPLICAS = ReplicaReconciler()


# How many


def test_ordinals_are_opened_from_the_smallest_and_then_it_is_silent() -> None:
    web = AssignmentWorld()
    web.ask({"one": 3})
    assert web.send(REPLICAS) == [opened(0, 1, 2)]
    assert web.look(REPLICAS) == NO_CHANGES


def test_a_command_is_because_of_the_assignment() -> None:
    web = AssignmentWorld()
    web.ask({"one": 1})
    [wanted] = web.look(REPLICAS).commands
    assert wanted.cause == wanted.expect == web.assignment.revision


def test_no_command_names_more_than_a_command_may() -> None:
    web = AssignmentWorld(checked=False)
    web.ask({"one": 2_500})
    assert [len(command.ordinals) for command in web.send(REPLICAS)] == [1_000, 1_000, 500]
    web.ask({"one": 0})
    assert [len(command.ordinals) for command in web.send(REPLICAS)] == [1_000, 1_000, 500]
    assert web.slots() == []


def test_scaling_up_takes_the_smallest_free_ordinals_and_touches_nothing_else() -> None:
    web = serving(4)
    web.bench.accept("controller/replica", stopped(1))
    web.work([1])
    before = web.slots()
    web.ask({"one": 5})
    assert web.settle(REPLICAS) == [opened(1, 4)]
    assert [web.slot(slot.ordinal) for slot in before] == before


def test_scaling_down_stops_the_highest_ordinals_and_touches_nothing_else() -> None:
    web = serving(4)
    before = web.slots()
    web.ask({"one": 2})
    assert web.settle(REPLICAS) == [stopped(2, 3)]
    assert web.slots()[:2] == before[:2]
    web.work()
    assert web.slots() == before[:2]


COSTS = (
    Phase.PENDING, Phase.RESERVED, Phase.BOUND, Phase.FAILED, Phase.UNKNOWN, Phase.STARTING, Phase.RUNNING,
    Phase.READY, Phase.SERVING,
)  # fmt: skip


def test_what_costs_least_goes_first() -> None:
    web = AssignmentWorld(nodes=2)
    web.ask({"one": 9})
    web.settle(REPLICAS)
    # The lowest ordinals are the ones that cost least: were ordinals asked alone, they would stay.
    node = web.nodes[1]
    group = c.PlacementGroup(UID, web.slot(1).template, (c.SlotPlacement(1, node),))
    web.bench.accept("scheduler/main", c.Propose((group,), web.bench.at + 1_000, bind=False))
    web.work([4], Phase.BOUND)
    web.cut(0)
    web.work([2], Phase.BOUND)
    web.work([3], Phase.RUNNING)
    web.move(3, Phase.FAILED, "exit")
    for ordinal, phase in ((5, Phase.STARTING), (6, Phase.RUNNING), (7, Phase.READY), (8, Phase.SERVING)):
        web.work([ordinal], phase)
    assert [slot.phase for slot in web.slots()] == list(COSTS)
    for count in range(8, -1, -1):
        web.ask({"one": count})
        web.settle(REPLICAS)
        assert [slot.ordinal for slot in web.slots() if slot.next_template] == list(range(9 - count, 9))


def test_an_ordinal_that_is_ending_is_not_used_again_until_it_is_gone() -> None:
    web = serving(2)
    web.ask({"one": 1})
    web.settle(REPLICAS)
    web.ask({"one": 3})
    assert web.settle(REPLICAS) == [opened(2, 3)]
    web.work()
    web.ask({"one": 4})
    assert web.settle(REPLICAS) == [opened(1)]


def test_one_that_was_given_up_and_still_runs_is_taken_back() -> None:
    web = serving(2)
    web.bench.accept("controller/replica", withdrawn(1))
    epoch = web.slot(1).epoch
    assert web.settle(REPLICAS) == [opened(1)]
    assert (web.slot(1).epoch, web.slot(1).phase) == (epoch, Phase.SERVING)


def test_one_that_is_drained_is_not_wanted_any_more_once_fewer_are() -> None:
    web = serving(3, disruption=1)
    web.bench.accept("controller/drain", stopped(0, cause="drain"))
    web.ask({"one": 2})
    assert web.settle(REPLICAS) == [withdrawn(0)]
    web.work()
    assert web.phases() == {1: "serving", 2: "serving"}


# Which ordinals


def test_identities_are_exactly_those_it_has_the_right_to() -> None:
    store = AssignmentWorld()
    store.ask({"one": 3}, exclusive=True, ordinals=(2, 5, 7))
    assert store.settle(REPLICAS) == [opened(2, 5, 7)]
    store.work()
    store.ask({"one": 3}, exclusive=True, ordinals=(2, 7, 8))
    assert store.settle(REPLICAS) == [opened(8), stopped(5)]


def test_an_identity_that_is_ending_and_wanted_again_comes_back_as_itself() -> None:
    store = AssignmentWorld()
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1))
    store.settle(REPLICAS)
    store.work()
    store.ask({"one": 1}, exclusive=True, ordinals=(0,))
    store.settle(REPLICAS)
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1))
    assert store.settle(REPLICAS) == [opened(1)]
    assert store.phases() == {0: "serving", 1: "terminating"}
    store.work([1], Phase.PENDING)
    assert store.phases() == {0: "serving", 1: "pending"}


def test_an_identity_waits_for_the_assignment_that_had_it_before() -> None:
    store = AssignmentWorld()
    store.ask({"one": 1}, exclusive=True, ordinals=(0,))
    store.settle(REPLICAS)
    store.ask({}, stage=AssignmentStage.ENDED, exclusive=True)
    store.ask({"one": 2}, uid=200, exclusive=True, ordinals=(0, 1))
    assert store.settle(REPLICAS, uid=200) == [opened(1, uid=200)]
    store.settle(REPLICAS)
    assert store.settle(REPLICAS, uid=200) == [opened(0, uid=200)]


def test_an_identity_whose_right_and_template_are_gone_is_stopped_though_the_others_do_not_serve_yet() -> None:
    store = AssignmentWorld()
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1))
    store.settle(REPLICAS)
    store.work([1])
    store.ask({"two": 1}, exclusive=True, ordinals=(0,))
    assert store.settle(REPLICAS) == [withdrawn(0), stopped(1), opened(0, name="two")]


def test_ordinals_of_another_assignment_of_the_workload_are_left_to_it() -> None:
    web = AssignmentWorld()
    web.ask({"one": 2})
    web.settle(REPLICAS)
    web.ask({"one": 2}, uid=200)
    assert web.settle(REPLICAS, uid=200) == [opened(2, 3, uid=200)]


def test_recovery_has_ordinals_of_its_own() -> None:
    web = AssignmentWorld()
    web.ask({"one": 2}, purpose=AssignmentPurpose.RECOVERY)
    assert web.settle(REPLICAS) == [opened(1_000_000, 1_000_001)]


# The end


def test_what_has_ended_is_stopped_for_that_and_the_rest_withdrawn() -> None:
    web = serving(2)
    web.ask({"one": 3})
    web.settle(REPLICAS)
    web.ask({}, stage=AssignmentStage.ENDED)
    assert web.settle(REPLICAS) == [withdrawn(2), stopped(0, 1, cause="deleted")]
    web.work()
    assert web.slots() == []
    assert web.look(REPLICAS) == NO_CHANGES, "the platform says when it is gone"


def test_what_stands_by_has_no_slots() -> None:
    web = AssignmentWorld()
    web.ask({"one": 2}, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    assert web.look(REPLICAS) == NO_CHANGES


def test_a_lapsed_right_opens_nothing_withdraws_what_waits_and_stops_nothing() -> None:
    store = AssignmentWorld()
    until = store.bench.at + 1_000
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1), right_until=until)
    store.settle(REPLICAS)
    store.work([0])
    assert store.look(REPLICAS).requeue_at == until
    store.bench.at = until
    assert store.settle(REPLICAS) == [withdrawn(1)]
    assert store.phases() == {0: "serving"}
    assert store.look(REPLICAS) == NO_CHANGES
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1), right_until=until + 1_000)
    assert store.settle(REPLICAS) == [opened(1)]


def test_work_that_is_done_is_neither_opened_again_nor_given_up_while_it_stands() -> None:
    job = AssignmentWorld()
    job.ask({"one": 3}, batch=True)
    job.settle(REPLICAS)
    job.work([1, 2], Phase.RUNNING)
    job.move(2, Phase.SUCCEEDED, "completed")
    job.ask({"one": 1}, batch=True)
    assert job.settle(REPLICAS) == [withdrawn(0), stopped(1)]
    job.ask({"two": 1}, batch=True)
    assert job.settle(REPLICAS) == []
    assert job.phases()[2] == "succeeded"


# Whom a change concerns


def test_a_change_of_a_workload_wakes_its_assignments_and_no_others() -> None:
    web = AssignmentWorld()
    web.ask({"one": 1})
    web.ask({"one": 1}, uid=200)
    assert list(REPLICAS.keys(web.state)) == [UID, 200]
    assert list(REPLICAS.wake(web.state, ("workload", WORKLOAD))) == [UID, 200]
    assert list(REPLICAS.wake(web.state, ("workload", 2))) == []
    assert list(REPLICAS.wake(web.state, ("assignment", 200))) == [200]


def test_one_that_is_gone_needs_nothing() -> None:
    assert AssignmentWorld().look(REPLICAS) == NO_CHANGES


# At the limit


class Unread(Table[Any, Any]):
    """A table that must not be read."""

    def get(self, key: Any) -> Any:
        raise AssertionError(f"{key} was read")

    def find(self, keys: Any) -> Any:
        raise AssertionError("rows were read")


@pytest.mark.parametrize("stage", [AssignmentStage.ACTIVE, AssignmentStage.ENDED])
def test_of_an_assignment_whose_slots_all_wait_no_slot_is_looked_at(stage: AssignmentStage) -> None:
    store = AssignmentWorld()
    store.ask({"one": 5}, exclusive=True, ordinals=(0, 1, 2, 5, 7))
    store.settle(REPLICAS)
    more = {"one": 6} if stage is AssignmentStage.ACTIVE else {}
    store.ask(more, exclusive=True, ordinals=(0, 1, 2, 5, 7, 8), stage=stage)
    expected = store.look(REPLICAS)
    assert [one.command for one in expected.commands] == [
        opened(8) if stage is AssignmentStage.ACTIVE else withdrawn(0, 1, 2, 5, 7)
    ]
    store.state.slots = Unread()
    assert store.look(REPLICAS) == expected


def test_a_look_takes_no_more_steps_where_thousands_run_and_wait_side_by_side() -> None:
    state = RegionState()
    state.assignments.put(UID, an_assignment(UID, WORKLOAD, "t", 20_000))
    state.assignments_of.put(WORKLOAD, (UID,))
    runs, waits = masks(range(0, 20_000, 2)), masks(range(1, 20_000, 2))
    count_kinds(state, UID, None, ("serving", "t", "t", "quota/acme"), runs)
    count_kinds(state, UID, None, ("pending", "t", "t", ""), waits)
    for controller in (REPLICAS, RolloutReconciler()):
        with StepCounter() as steps:
            assert controller.reconcile(state, UID, 0) == NO_CHANGES
        assert steps.calls < 2_000
    state.assignments.put(UID, an_assignment(UID, WORKLOAD, "t", 19_999))
    with StepCounter() as steps:
        (sent,) = REPLICAS.reconcile(state, UID, 0).commands
    assert sent.command == c.WithdrawSlots(UID, (19_999,))
    assert steps.calls < 4_000


def test_of_an_assignment_in_all_phases_no_slot_is_looked_at() -> None:
    web = serving(4)
    web.ask({"one": 8})
    web.settle(REPLICAS)
    web.work([5], Phase.BOUND)
    web.ask({"one": 3})
    expected = web.look(REPLICAS)
    assert [one.command for one in expected.commands] == [withdrawn(4, 6, 7), stopped(3, 5)]
    web.state.slots = Unread()
    assert web.look(REPLICAS) == expected


@pytest.mark.parametrize(
    ("template", "future", "cause"),
    [
        ("gone", "gone", "superseded"),
        ("gone", "kept", "scaled-down"),
        ("kept", "gone", "scaled-down"),
        ("kept", "kept", "scaled-down"),
    ],
)
def test_what_runs_or_is_to_run_what_is_asked_for_goes_since_fewer_are_wanted(
    template: str, future: str, cause: str
) -> None:
    kind = SlotGroup(Phase.SERVING, template, future)
    assert _cause(an_assignment(template="kept"), ReplicaPlan(), kind, T0) == cause
