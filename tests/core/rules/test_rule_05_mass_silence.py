"""RULES 5, after the sessions: what follows from silence does not happen to everybody at once.

Otherwise a region that does not hear its agents takes all of its replicas off the lists of load balancers and starts
all of them anew, and they were well. RULES 21: what is critical and merely replaced does not wait.
"""

from __future__ import annotations

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region.node_health import WINDOW_MS
from tests.support.ledgers.node_world import NodeWorld

FENCE = DEFAULTS.fence_time


def test_when_all_are_silent_a_fifth_of_the_nodes_counts_as_gone_in_a_minute() -> None:
    nodes = NodeWorld(20)
    nodes.silence(*range(20))
    for minute in range(5):
        nodes.settle()
        # Of those whose fence time has passed, what they held waits; of the last fifth it is unknown.
        assert nodes.phases()["serving"] == 20 - 4 * (minute + 1)
        nodes.bench.at += WINDOW_MS
    nodes.settle()
    assert nodes.phases() == {"pending": 20}


def test_no_more_than_that_is_replaced_in_any_minute() -> None:
    nodes = NodeWorld(20)
    nodes.silence(*range(20))
    at: list[int] = []
    for _ in range(5 * WINDOW_MS // 5_000 + FENCE // 5_000 + 1):
        waiting = nodes.phases()["pending"]
        nodes.settle()
        at += [nodes.bench.at] * (nodes.phases()["pending"] - waiting)
        nodes.bench.at += 5_000
    assert len(at) == 20
    assert max(sum(first <= one < first + WINDOW_MS for one in at) for first in at) == 4


def test_few_are_replaced_as_if_there_were_no_brake() -> None:
    nodes = NodeWorld(20)
    nodes.silence(3, 7, 11, 19)
    nodes.settle()
    assert nodes.phases() == {"serving": 16, "unknown": 4}
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {"serving": 16, "pending": 4}


def test_in_a_small_region_two_are_never_too_many() -> None:
    nodes = NodeWorld(3)
    nodes.silence(0, 1)
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {"serving": 1, "pending": 2}


def test_those_that_are_long_gone_delay_nobody() -> None:
    nodes = NodeWorld(10)
    nodes.silence(0, 1, 2, 3)
    nodes.bench.at += 10 * WINDOW_MS
    nodes.settle()
    nodes.silence(4, 5)
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {"serving": 4, "pending": 6}


def test_whoever_is_back_before_its_turn_keeps_what_it_has() -> None:
    nodes = NodeWorld(10)
    epochs = [nodes.slot(number).epoch for number in range(10)]
    nodes.silence(*range(10))
    nodes.settle()
    nodes.bench.at += FENCE
    nodes.come_back(*range(10))
    nodes.settle()
    for number in range(10):
        nodes.say(number, Phase.RUNNING, "found-again")
    nodes.bench.at += 10 * WINDOW_MS
    nodes.settle()
    assert nodes.phases() == {"running": 10}
    assert [nodes.slot(number).epoch for number in range(10)] == epochs
    assert {nodes.node(number).health for number in range(10)} == {NodeHealth.READY}


def test_critical_work_that_is_merely_replaced_does_not_wait() -> None:
    nodes = NodeWorld(10, priority_class="critical")
    nodes.work(10, workload=2, uid=200, priority_class="critical", exclusive=True)
    nodes.silence(*range(10))
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {"pending": 10}
    # An identity does: to run it anew is to end it where it is.
    assert nodes.phases(2) == {"serving": 8, "pending": 2}
