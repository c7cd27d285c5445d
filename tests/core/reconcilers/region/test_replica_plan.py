"""Which template an ordinal has: a rollout's surge, its end, its taking back, and several templates side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.reconciler import NO_CHANGES
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.replica_plan import levelled
from tests.support.ledgers.assignment_world import AssignmentWorld, opened, serving, stopped, withdrawn

REPLICAS = ReplicaReconciler()


def test_another_template_retargets_what_stands_and_reopens_what_waits() -> None:
    web = serving(2)
    web.ask({"one": 3})
    web.settle(REPLICAS)
    web.ask({"two": 3})
    assert web.settle(REPLICAS) == [withdrawn(2), opened(0, 1, 3, name="two"), opened(2, name="two")]
    assert web.templates() == {0: ("one", "two"), 1: ("one", "two"), 2: ("two", "two"), 3: ("two", "two")}
    assert web.serving() == 2


@pytest.mark.parametrize(("share", "surge"), [(0, (3,)), (1, (3,)), (2, (3, 4)), (9, (3, 4, 5))])
def test_while_old_ones_run_a_share_of_new_ones_and_one_at_least_is_opened_beside_them(
    share: int, surge: tuple[int, ...]
) -> None:
    web = serving(3)
    web.ask({"two": 3}, disruption=share)
    assert web.settle(REPLICAS) == [opened(0, 1, 2, *surge, name="two")]


@pytest.mark.parametrize(("share", "two", "three"), [(1, (4,), ()), (3, (4, 5), (6,)), (9, (4, 5), (6, 7))])
def test_templates_that_are_rolled_out_at_once_share_what_may_be_opened_beside_the_old_ones(
    share: int, two: tuple[int, ...], three: tuple[int, ...]
) -> None:
    web = serving(4)
    web.ask({"two": 2, "three": 2}, disruption=share)
    assert web.settle(REPLICAS) == [opened(0, 1, *two, name="two"), opened(2, 3, *three, name="three")]


def test_new_ones_that_serve_beside_the_old_stop_nothing_by_themselves() -> None:
    web = serving(3)
    web.ask({"two": 3}, disruption=2)
    web.settle(REPLICAS)
    web.work([3, 4])
    assert web.serving() == 5
    assert web.look(REPLICAS) == NO_CHANGES, "the rollout decides when which of the old ones goes"


def test_once_none_is_old_what_is_too_much_goes_by_what_it_costs() -> None:
    web = serving(2)
    web.ask({"two": 2}, disruption=1)
    web.settle(REPLICAS)
    web.work([2])
    for ordinal in (0, 1):
        web.bench.accept("controller/rollout", stopped(ordinal, cause="rollout"))
        web.work([ordinal], Phase.SERVING if ordinal == 0 else Phase.PENDING)
    assert web.phases() == {0: "serving", 1: "pending", 2: "serving"}
    assert web.settle(REPLICAS) == [withdrawn(1)]


def test_identities_have_no_surge() -> None:
    store = AssignmentWorld()
    store.ask({"one": 2}, exclusive=True, ordinals=(0, 1))
    store.settle(REPLICAS)
    store.work()
    store.ask({"two": 2}, exclusive=True, ordinals=(0, 1), disruption=2)
    assert store.settle(REPLICAS) == [opened(0, 1, name="two")]


def test_a_rollout_taken_back_leaves_the_old_ones_as_they_were_and_its_own_are_superseded() -> None:
    web = serving(2)
    before = web.slots()
    web.ask({"two": 2}, disruption=1)
    web.settle(REPLICAS)
    web.work([2])
    web.ask({"one": 2}, disruption=1)
    assert web.settle(REPLICAS) == [opened(0, 1), stopped(2, cause="superseded")]
    assert [(s.epoch, s.template, s.next_template, s.phase) for s in web.slots()[:2]] == [
        (s.epoch, s.template, s.next_template, s.phase) for s in before
    ]


def test_each_of_several_templates_has_its_count_with_few_changes() -> None:
    web = AssignmentWorld()
    web.ask({"one": 3, "two": 2})
    web.settle(REPLICAS)
    web.work()
    assert [names[0] for names in web.templates().values()] == ["one", "one", "one", "two", "two"]
    before = web.slots()
    web.ask({"one": 2, "two": 2})
    assert web.settle(REPLICAS) == [stopped(2)]
    web.work()
    assert web.slots() == [before[0], before[1], before[3], before[4]]
    web.ask({"one": 1, "two": 3})
    assert web.settle(REPLICAS) == [opened(1, 2, name="two")]
    web.ask({"one": 3, "two": 3})
    web.settle(REPLICAS)
    assert web.templates()[5] == ("one", "one")


def test_fewer_of_one_template_stop_one_of_it_though_one_of_another_waits() -> None:
    web = AssignmentWorld()
    web.ask({"one": 2, "two": 1})
    web.settle(REPLICAS)
    web.work([0, 1])
    web.ask({"one": 1, "two": 1})
    assert web.settle(REPLICAS) == [stopped(1)]
    assert web.phases()[2] == "pending"


def test_a_trial_that_becomes_the_rule_gives_up_nothing_that_serves() -> None:
    web = serving(10)
    web.ask({"one": 8, "two": 2}, disruption=2)
    web.settle(REPLICAS)
    assert web.phases() == {**dict.fromkeys(range(10), "serving"), 10: "pending", 11: "pending"}
    web.ask({"two": 10}, disruption=2)
    web.settle(REPLICAS)
    assert web.serving() == 10
    assert {names[1] for names in web.templates().values()} == {"two"}
    assert sorted(web.phases()) == list(range(12))


def test_a_rollout_of_two_templates_taken_back_leaves_each_what_it_runs() -> None:
    web = AssignmentWorld()
    web.ask({"one": 1, "three": 1})
    web.settle(REPLICAS)
    web.work()
    web.ask({"two": 2})
    web.settle(REPLICAS)
    assert [*web.templates().values()][:2] == [("one", "two"), ("three", "two")]
    web.ask({"three": 1, "one": 1})
    web.settle(REPLICAS)
    assert web.templates() == {0: ("one", "one"), 1: ("three", "three")}


def test_what_serves_takes_up_the_template_that_has_no_slots_of_its_own_waiting() -> None:
    web = serving(1)
    web.ask({"one": 1, "two": 2})
    web.settle(REPLICAS)
    web.ask({"two": 2, "three": 2})
    web.settle(REPLICAS)
    assert web.templates()[0] == ("one", "three")
    assert [names for names in web.templates().values() if names[0] == "two"] == [("two", "two")] * 2


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(0, 30))
def test_slots_are_shared_out_as_if_each_went_to_what_would_lack_most(
    templates: dict[str, tuple[int, int]], slots: int
) -> None:
    lacks, own = ({name: one[place] for name, one in templates.items()} for place in (0, 1))
    left, given = dict(lacks), dict.fromkeys(lacks, 0)
    for _ in range(slots):
        lacking = [name for name in left if left[name]]
        if lacking:
            name = max(lacking, key=lambda name: left[name] - own[name])
            left[name] -= 1
            given[name] += 1
    assert levelled(lacks, own, slots) == {name: number for name, number in given.items() if number}
