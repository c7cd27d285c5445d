"""What runs an old template makes way for the new one, within the disruption share."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.rollout import SETTLES_MS, RolloutReconciler
from holdfast.core.region.queries.workload_report import workload_report
from tests.support.ledgers.assignment_world import WORKLOAD, AssignmentWorld, stopped, withdrawn

REPLICAS, ROLLOUT = ReplicaReconciler(), RolloutReconciler()


def rolling(count: int, to: Phase = Phase.SERVING, **fields: Any) -> AssignmentWorld:
    """So many of template one that have come so far, and are to become template two."""
    found = AssignmentWorld()
    found.ask({"one": count}, **fields)
    found.settle(REPLICAS)
    found.work(to=to)
    found.ask({"two": count}, **fields)
    found.settle(REPLICAS)
    return found


def gone(*ordinals: int) -> list[object]:
    return [stopped(*ordinals, cause="rollout")]


def test_where_nothing_is_old_nothing_is_stopped() -> None:
    web = AssignmentWorld()
    assert web.look(ROLLOUT) == NO_CHANGES
    web.ask({"one": 2}, disruption=1)
    web.settle(REPLICAS)
    web.work()
    assert web.look(ROLLOUT) == NO_CHANGES


def test_what_serves_goes_once_as_many_serve_beside_it() -> None:
    web = rolling(3, disruption=2)
    assert web.look(ROLLOUT) == NO_CHANGES
    web.work([3])
    assert [wanted.expect for wanted in web.look(ROLLOUT).commands] == [web.assignment.revision]
    assert web.send(ROLLOUT) == gone(0)
    assert web.look(ROLLOUT) == NO_CHANGES
    web.work([4])
    assert web.send(ROLLOUT) == gone(1)


def test_a_rollout_goes_on_to_its_end_and_as_many_serve_all_the_time() -> None:
    web = rolling(3, disruption=1)
    for _ in range(10):
        web.settle()
        assert web.serving() >= 3
        web.work()
    assert web.settle() == []
    assert list(web.templates().values()) == [("two", "two")] * 3
    assert web.serving() == 3


@pytest.mark.parametrize("phase", [Phase.BOUND, Phase.STARTING])
def test_what_never_served_goes_at_once(phase: Phase) -> None:
    web = rolling(3, phase)
    assert web.send(ROLLOUT) == gone(0, 1, 2)


def test_what_failed_goes_at_once() -> None:
    web = rolling(2)
    web.move(1, Phase.FAILED, "exit")
    assert web.send(ROLLOUT) == gone(1)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.READY])
def test_what_runs_is_given_some_time_to_serve_before_it_goes(phase: Phase) -> None:
    web = rolling(2, phase)
    assert web.look(ROLLOUT) == ReconcileResult((), web.bench.at + SETTLES_MS)
    web.bench.at += SETTLES_MS
    assert web.look(ROLLOUT).requeue_at is None
    assert web.send(ROLLOUT) == gone(0, 1)


def test_of_several_that_may_serve_yet_the_first_says_when_to_look_again() -> None:
    web = AssignmentWorld()
    web.ask({"one": 2})
    web.settle(REPLICAS)
    for ordinal in (1, 0):
        web.bench.at += 1_000
        web.work([ordinal], Phase.RUNNING)
    web.ask({"two": 2})
    web.settle(REPLICAS)
    assert web.look(ROLLOUT) == ReconcileResult((), web.bench.at - 1_000 + SETTLES_MS)


def test_an_outage_in_the_middle_of_a_rollout_is_not_made_whole() -> None:
    web = rolling(3, disruption=1)
    web.cut(0)
    assert web.look(ROLLOUT) == NO_CHANGES, "unknown: their agent may come back with them"
    web.work([0, 1, 2], Phase.RUNNING)
    assert web.look(ROLLOUT).commands == ()
    web.work([0, 1, 2])
    assert web.serving() == 3


def test_where_there_is_no_room_for_a_surge_the_share_is_spent() -> None:
    web = rolling(4, disruption=2)
    web.report()
    assert web.send(ROLLOUT) == gone(0, 1)
    assert web.look(ROLLOUT) == NO_CHANGES
    web.work([0], Phase.SERVING)
    assert web.send(ROLLOUT) == gone(2)


def test_identities_go_as_the_share_allows() -> None:
    store = AssignmentWorld()
    for name in ("one", "two"):
        store.ask({name: 3}, exclusive=True, ordinals=(0, 1, 2), disruption=1)
        store.settle(REPLICAS)
        store.work()
    assert store.send(ROLLOUT) == gone(0)
    assert store.look(ROLLOUT) == NO_CHANGES
    store.work([0])
    assert store.send(ROLLOUT) == gone(1)


@pytest.mark.parametrize("count", [1, 3])
def test_without_a_share_a_new_one_serves_before_each_old_one_goes(count: int) -> None:
    web = rolling(count, disruption=0)
    assert sorted(web.phases().items()) == [*((n, "serving") for n in range(count)), (count, "pending")]
    assert web.look(ROLLOUT) == NO_CHANGES
    for _ in range(2 * count + 2):
        web.settle()
        assert web.serving() >= count
        web.work()
    assert web.settle() == []
    assert list(web.templates().values()) == [("two", "two")] * count
    assert web.serving() == count


def test_without_a_share_and_without_room_for_a_surge_nothing_that_serves_is_stopped() -> None:
    web = rolling(2, disruption=0)
    web.report()
    assert web.look(ROLLOUT) == NO_CHANGES
    assert web.bench.refuse("controller/rollout", stopped(0, cause="rollout")).code is Code.DISRUPTION
    assert workload_report(web.state, WORKLOAD).waiting[0].code == "capacity", "the platform is told what it waits for"


def test_without_a_share_identities_are_not_stopped_for_a_new_template() -> None:
    store = AssignmentWorld()
    for name in ("one", "two"):
        store.ask({name: 1}, exclusive=True, ordinals=(0,), disruption=0)
        store.settle(REPLICAS)
        store.work()
    assert store.look(ROLLOUT) == NO_CHANGES


def test_what_goes_anyway_does_not_count_as_serving_beside_it() -> None:
    web = rolling(6, disruption=1)
    web.ask({"two": 3}, disruption=1)
    # Six serve where three are asked for. One of those that are too many is the surge, and two are stopped by others.
    others = [wanted.command for wanted in web.look(REPLICAS).commands]
    assert others == [withdrawn(6), stopped(4, 5)]
    assert web.send(ROLLOUT) == gone(0)
    for command in others:
        web.bench.accept("controller/replica", command)
    assert web.serving() == 3
    assert web.look(ROLLOUT) == NO_CHANGES


def test_fewer_in_the_middle_of_a_rollout_are_those_that_run_the_new_template() -> None:
    web = rolling(4, disruption=1)
    web.work([4])
    web.settle()
    web.work()
    web.settle()
    web.work()
    assert [names[0] for names in web.templates().values()] == ["two", "two", "one", "one", "two"]
    assert web.serving() == 5
    web.ask({"two": 3}, disruption=1)
    web.settle()
    web.work()
    web.settle()
    assert web.templates() == {0: ("two", "two"), 1: ("two", "two"), 4: ("two", "two")}
    assert web.serving() == 3


def test_nothing_is_stopped_for_a_template_that_is_over_already() -> None:
    web = rolling(2, Phase.BOUND)
    web.ask({"one": 2})
    assert web.look(ROLLOUT) == NO_CHANGES
    web.ask({"three": 2})
    assert web.look(ROLLOUT) == NO_CHANGES
    web.settle(REPLICAS)
    assert web.send(ROLLOUT) == gone(0, 1)


@pytest.mark.parametrize("fields", [{"stage": AssignmentStage.ENDED}, {"right_until": 1}])
def test_what_is_not_wanted_here_any_more_is_not_rolled(fields: dict[str, Any]) -> None:
    web = rolling(2, Phase.BOUND)
    web.ask({"two": 2}, **fields)
    assert web.look(ROLLOUT) == NO_CHANGES
