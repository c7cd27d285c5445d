"""Batch work that is done stays done, and what fails wherever it is placed is given up: in a region."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.reconciler import NO_CHANGES
from holdfast.core.model.records.assignments import AssignmentStage, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import TemplateCounts
from holdfast.core.model.records.slots import FinishedOrdinals
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region.node_health import NodeHealthReconciler
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.limits import ATTEMPTS_MAX
from holdfast.core.region.queries.workload_report import workload_report
from tests.support.ledgers.assignment_world import DIGESTS, UID, WORKLOAD, AssignmentWorld, opened, stopped
from tests.support.ledgers.region import REPLICA, an_assignment

REPLICAS = ReplicaReconciler()
ONE = DIGESTS["one"]


def batch(count: int, nodes: int = 1) -> AssignmentWorld:
    """So many of a batch that all run."""
    found = AssignmentWorld(nodes)
    found.ask({"one": count}, batch=True)
    found.settle(REPLICAS)
    found.work(to=Phase.RUNNING)
    return found


def complete(work: AssignmentWorld, *ordinals: int) -> None:
    """These are done, and collected."""
    for ordinal in ordinals:
        assert work.move(ordinal, Phase.SUCCEEDED, "completed")
        assert work.move(ordinal, Phase.RELEASED, "collected")


def give_up(work: AssignmentWorld, ordinal: int, cause: str = "exit") -> None:
    """It fails, and its agent gives it up."""
    work.work([ordinal], to=Phase.RUNNING)
    assert work.move(ordinal, Phase.FAILED, cause)
    assert work.move(ordinal, Phase.RELEASED, "given-up")


def fail(work: AssignmentWorld, *ordinals: int, cause: str = "exit") -> None:
    """Each is given up for good."""
    for ordinal in ordinals:
        for _ in range(ATTEMPTS_MAX):
            give_up(work, ordinal, cause)


def told(work: AssignmentWorld) -> tuple[TemplateCounts, ...]:
    return workload_report(work.state, WORKLOAD).counts


# Done


def test_what_is_done_and_collected_is_not_opened_again() -> None:
    work = batch(3)
    complete(work, 0, 2)
    assert work.phases() == {1: "running"}
    assert work.look(REPLICAS) == NO_CHANGES
    assert work.state.finished[UID] == (FinishedOrdinals(ONE, ((0, 1), (2, 3))),)


def test_to_open_what_is_done_is_refused() -> None:
    work = batch(2)
    complete(work, 0)
    refused = work.bench.refuse(REPLICA, opened(0, 5))
    assert (refused.code, refused.facts) == (Code.ALREADY, {"ordinals": [0]})


def test_what_is_done_is_told_whether_it_is_collected_or_not() -> None:
    work = batch(3)
    complete(work, 0)
    assert work.move(1, Phase.SUCCEEDED, "completed")
    assert told(work) == (TemplateCounts(ONE, 1, 0, 0, done=2),)


def test_scaling_up_opens_ordinals_that_are_not_done() -> None:
    work = batch(2)
    complete(work, 0, 1)
    work.ask({"one": 4}, batch=True)
    assert work.settle(REPLICAS) == [opened(2, 3)]


def test_scaling_down_counts_what_is_done_and_stops_the_rest() -> None:
    work = batch(4)
    complete(work, 0, 1)
    work.ask({"one": 3}, batch=True)
    assert work.settle(REPLICAS) == [stopped(3)]
    work.ask({"one": 1}, batch=True)
    assert work.settle(REPLICAS) == [stopped(2)]
    assert told(work)[0].done == 2


def test_another_template_is_other_work() -> None:
    work = batch(2)
    complete(work, 0, 1)
    work.ask({"two": 2}, batch=True)
    assert UID not in work.state.finished
    assert work.settle(REPLICAS) == [opened(0, 1, name="two")]


def test_what_was_done_of_an_older_template_does_not_count_though_it_is_collected_later() -> None:
    work = batch(1)
    assert work.move(0, Phase.SUCCEEDED, "completed")
    work.ask({"two": 1}, batch=True)
    assert work.move(0, Phase.RELEASED, "collected")
    assert UID not in work.state.finished
    assert work.settle(REPLICAS) == [opened(0, name="two")]


def test_what_was_batch_and_is_a_service_now_runs_as_many_as_it_asks_for() -> None:
    work = batch(2)
    complete(work, 0)
    work.ask({"one": 2})
    assert work.settle(REPLICAS) == [opened(0)]


def test_what_an_ended_assignment_has_done_is_told_until_it_is_forgotten() -> None:
    work = batch(2)
    complete(work, 0)
    ended = an_assignment(UID, WORKLOAD, shares=(), stage=AssignmentStage.ENDED, batch=True)
    work.bench.ship(c.ShippedAssignment(ended))
    assert work.move(1, Phase.SUCCEEDED, "completed")
    assert work.move(1, Phase.RELEASED, "collected")
    assert told(work) == (TemplateCounts(ONE, 0, 0, 0, done=2),)
    work.bench.accept("controller/link", c.ForgetAssignment(UID))
    assert UID not in work.state.finished


def test_work_that_was_done_on_a_node_that_is_gone_is_done() -> None:
    work = batch(2)
    assert work.move(0, Phase.SUCCEEDED, "completed")
    work.bench.accept("controller/sessions", EndSession(work.bench.sessions["agent/n0"], "silent"))
    work.bench.at += DEFAULTS.fence_time
    for _ in range(3):
        work.send(NodeHealthReconciler(), work.nodes[0])
        work.send(RepairReconciler(), work.nodes[0])
    assert work.phases() == {1: "pending"}
    assert work.state.finished[UID] == (FinishedOrdinals(ONE, ((0, 1),)),)


# Failed


def test_what_is_given_up_is_placed_again_and_counts_its_attempts() -> None:
    work = batch(1)
    give_up(work, 0)
    assert (work.slot(0).phase, work.slot(0).attempts) == (Phase.PENDING, 1)
    work.work(to=Phase.RUNNING)
    assert work.slot(0).attempts == 1


def test_what_always_fails_is_given_up_for_good_and_says_why() -> None:
    work = batch(2)
    fail(work, 1, cause="probe-failed")
    assert work.phases() == {0: "running"}
    assert work.look(REPLICAS) == NO_CHANGES
    assert told(work) == (TemplateCounts(ONE, 1, 0, 0, failed=1, why="probe-failed"),)
    assert work.bench.refuse(REPLICA, opened(1)).code is Code.ALREADY


def test_restarts_on_a_node_are_no_attempts() -> None:
    work = batch(1)
    for _ in range(3):
        assert work.move(0, Phase.FAILED, "exit")
        assert work.move(0, Phase.STARTING, "restarted")
        assert work.move(0, Phase.RUNNING, "running")
    assert work.slot(0).attempts == 0


@pytest.mark.parametrize("lost", range(2 * ATTEMPTS_MAX))
def test_a_service_is_placed_again_for_ever(lost: int) -> None:
    work = AssignmentWorld()
    work.ask({"one": 1})
    work.settle(REPLICAS)
    for _ in range(lost):
        give_up(work, 0)
    assert len(work.phases()) == 1


def test_what_is_wanted_no_more_has_not_failed() -> None:
    work = batch(2)
    for _ in range(ATTEMPTS_MAX - 1):
        give_up(work, 1)
    work.work([1], to=Phase.RUNNING)
    work.bench.accept(REPLICA, c.WithdrawSlots(UID, (1,)))
    assert work.move(1, Phase.FAILED, "exit")
    assert work.move(1, Phase.RELEASED, "given-up")
    assert UID not in work.state.finished


def test_another_template_begins_its_attempts_anew() -> None:
    work = batch(1)
    give_up(work, 0)
    work.work(to=Phase.RUNNING)
    work.ask({"two": 1}, batch=True)
    work.settle(REPLICAS)
    assert work.move(0, Phase.FAILED, "exit")
    assert work.move(0, Phase.RELEASED, "given-up")
    assert work.slot(0).attempts == 0


def test_a_hundred_in_a_row_are_one_run() -> None:
    work = AssignmentWorld(checked=False)
    work.bench.ship(
        c.ShippedAssignment(an_assignment(UID, WORKLOAD, shares=(Share(ONE, 100),), batch=True)),
    )
    work.settle(REPLICAS)
    for ordinal in (*range(0, 100, 2), *range(1, 100, 2)):
        work.work([ordinal], to=Phase.RUNNING)
        complete(work, ordinal)
    assert work.state.finished[UID] == (FinishedOrdinals(ONE, ((0, 100),)),)
