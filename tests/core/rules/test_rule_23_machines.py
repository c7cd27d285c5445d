"""RULES 23: a word about a process counts only from the machine that had it.

Otherwise n0 is cut off with its process alive, a new machine registers as n0, finds nothing, says *gone*, and the
process runs twice.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.agent.bindings import bindings_of_node
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import StartTerm
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NO_MACHINE, Machine
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from tests.support.ledgers.node_world import HEALTH, NodeWorld
from tests.support.ledgers.region import RegionBench

FENCE = DEFAULTS.fence_time
FIRST = Machine("id-of-the-first-folder", "host-a", "boot-1")
#: A machine that took over its name, from a folder of its own; and the first one after it was started anew.
OTHERS = {
    "another machine": Machine("id-of-another-folder", "host-b", "boot-7"),
    "a reboot": replace(FIRST, boot="boot-2"),
}


def running(**fields: Any) -> NodeWorld:
    return NodeWorld(1, Phase.RUNNING, FIRST, exclusive=True, **fields)


def say(nodes: NodeWorld, target: Phase, cause: str) -> Code | None:
    answer = nodes.bench.move("agent/n0", target, cause)
    return answer.code if isinstance(answer, Refused) else None


def taken_over(nodes: NodeWorld, machine: Machine) -> None:
    """Another agent opens a session under the node's name while the first may live, and registers it."""
    nodes.come_back(0, machine=machine)
    nodes.send(HEALTH, 0)


@pytest.mark.parametrize("machine", OTHERS.values(), ids=OTHERS)
def test_gone_is_not_believed_of_another_machine_before_the_fence(machine: Machine) -> None:
    nodes = running()
    taken_over(nodes, machine)
    past = nodes.bench.at + FENCE
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    nodes.bench.at = past - 1
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    nodes.bench.at = past
    assert say(nodes, Phase.FAILED, "gone") is None
    assert say(nodes, Phase.STARTING, "restarted") is None, "what it starts is its own from here on"
    nodes.bench.accept("ledger", StartTerm(2, "another"))
    assert say(nodes, Phase.FAILED, "exit") is None


@pytest.mark.parametrize("machine", OTHERS.values(), ids=OTHERS)
def test_stopped_is_not_believed_of_another_machine_before_the_fence(machine: Machine) -> None:
    nodes = running()
    nodes.bench.accept("controller/replica", c.Stop(((1, 0),), "deleted"))
    taken_over(nodes, machine)
    assert say(nodes, Phase.RELEASED, "stopped") is Code.FENCE
    nodes.bench.at += FENCE
    assert say(nodes, Phase.RELEASED, "stopped") is None
    assert nodes.phases() == {}


@pytest.mark.parametrize(
    ("phase", "target", "cause"),
    [
        (Phase.BOUND, Phase.RELEASED, "declined"),
        (Phase.BOUND, Phase.STARTING, "started"),
        (Phase.STARTING, Phase.FAILED, "cannot-start"),
        (Phase.RUNNING, Phase.FAILED, "exit"),
        (Phase.RUNNING, Phase.FAILED, "probe-failed"),
        (Phase.RUNNING, Phase.FAILED, "over-limit"),
        (Phase.RUNNING, Phase.READY, "probe-passed"),
    ],
)
def test_no_other_word_of_another_machine_is_believed_before_the_fence(phase: Phase, target: Phase, cause: str) -> None:
    """An agent of ours does not say so: what was given to another life is unknown first. Nobody relies on that."""
    nodes = NodeWorld(1, phase, FIRST, exclusive=True)
    nodes.come_back(0, machine=OTHERS["another machine"])
    assert say(nodes, target, cause) is Code.FENCE


@pytest.mark.parametrize("cause", ["restarted", "given-up"])
def test_what_failed_on_another_machine_is_neither_restarted_nor_given_up_before_the_fence(cause: str) -> None:
    nodes = running()
    nodes.say(0, Phase.FAILED, "exit")
    nodes.come_back(0, machine=OTHERS["another machine"])
    target = Phase.STARTING if cause == "restarted" else Phase.RELEASED
    assert say(nodes, target, cause) is Code.FENCE


def test_the_machine_that_had_it_is_believed_at_once() -> None:
    nodes = running()
    taken_over(nodes, FIRST)
    assert say(nodes, Phase.FAILED, "gone") is None


def test_a_machine_that_returns_after_another_took_its_name_keeps_what_it_runs() -> None:
    """It has it: that is another word than that there is nothing."""
    nodes = running()
    taken_over(nodes, OTHERS["another machine"])
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    taken_over(nodes, FIRST)
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE, "what the other one did in between it cannot know"
    assert say(nodes, Phase.RUNNING, "found-again") is None
    assert say(nodes, Phase.FAILED, "exit") is None


def test_work_that_may_run_twice_does_not_wait() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, FIRST)
    taken_over(nodes, OTHERS["another machine"])
    assert say(nodes, Phase.FAILED, "gone") is None


def test_the_result_of_what_was_done_is_collected_by_whoever_comes() -> None:
    nodes = running(batch=True)
    nodes.say(0, Phase.SUCCEEDED, "completed")
    nodes.come_back(0, machine=OTHERS["another machine"])
    assert say(nodes, Phase.RELEASED, "collected") is None


def test_an_agent_that_stops_telling_its_machine_is_another_one() -> None:
    nodes = running()
    taken_over(nodes, NO_MACHINE)
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE


@pytest.mark.parametrize(
    "machine",
    [NO_MACHINE, replace(FIRST, boot=""), replace(FIRST, id="")],
    ids=["an agent of before", "no life of it", "no folder"],
)
@pytest.mark.parametrize("level", [1, 2])
def test_whoever_does_not_say_which_machine_it_is_is_not_taken_for_the_same_one(machine: Machine, level: int) -> None:
    """Two that say nothing say the same, and may be two."""
    nodes = NodeWorld(1, Phase.RUNNING, machine, level, exclusive=True)
    taken_over(nodes, machine)
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    nodes.bench.at += FENCE
    assert say(nodes, Phase.FAILED, "gone") is None


def test_in_a_log_that_keeps_no_machines_another_one_waits_for_the_fence_also_once_its_level_is_raised() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, FIRST, 1, exclusive=True)
    taken_over(nodes, OTHERS["another machine"])
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    nodes.raise_level()
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE
    taken_over(nodes, OTHERS["another machine"])
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE


@pytest.mark.parametrize("level", [1, 2])
def test_whoever_does_not_say_which_machine_it_is_is_believed_of_what_it_was_given_in_its_session(level: int) -> None:
    nodes = NodeWorld(1, Phase.RUNNING, NO_MACHINE, level, exclusive=True)
    assert say(nodes, Phase.FAILED, "exit") is None
    assert say(nodes, Phase.STARTING, "restarted") is None


def test_a_machine_is_told_in_short_names() -> None:
    bench = RegionBench()
    bench.open_session("agent/n1")
    long = c.RegisterNode("n1", "general", "a", bench_capacity(), machine=Machine("x" * 65))
    assert bench.refuse("agent/n1", long).code is Code.MALFORMED
    assert bench.refuse("agent/n1", replace(long, machine=Machine("a\nb"))).code is Code.MALFORMED
    bench.accept("agent/n1", replace(long, machine=Machine("x" * 64)))


def bench_capacity() -> Resources:
    return Resources(1_000, 1_000, 1_000)


def test_a_node_tells_what_machine_it_was_before_until_the_same_one_is_back() -> None:
    nodes = running()
    other = OTHERS["another machine"]
    assert (nodes.node(0).machine, nodes.node(0).machine_changed) == (FIRST, 0)
    nodes.bench.at += 1_000
    nodes.come_back(0, machine=other)
    changed = nodes.bench.at
    assert (nodes.node(0).machine, nodes.node(0).machine_before) == (other, FIRST)
    assert nodes.node(0).machine_changed == changed
    nodes.bench.at += 1_000
    nodes.bench.a_node("n0", machine=other, overrun=1_000)
    assert nodes.node(0).machine_changed == changed, "it says more in the same session"
    nodes.come_back(0, machine=other)
    assert (nodes.node(0).machine_before, nodes.node(0).machine_changed) == (NO_MACHINE, 0)


def test_a_machine_that_is_told_for_the_first_time_is_no_change() -> None:
    """As of every node when its log comes to the second level; its word of earlier work waits all the same."""
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.come_back(0, machine=FIRST)
    assert (nodes.node(0).machine_before, nodes.node(0).machine_changed) == (NO_MACHINE, 0)
    nodes.send(HEALTH, 0)
    assert say(nodes, Phase.FAILED, "gone") is Code.FENCE


@pytest.mark.parametrize("exclusive", [True, False])
def test_an_agent_is_told_what_was_bound_to_another_machine_and_only_of_exclusive_work(exclusive: bool) -> None:
    """Two machines never share a token: what it is told of so it does not start again, and it is placed anew."""
    nodes = NodeWorld(1, Phase.RUNNING, FIRST, exclusive=exclusive)
    assert [one.moved for one in bindings_of_node(nodes.state, nodes.uids[0], nodes.bench.at)] == [False]
    nodes.come_back(0, machine=FIRST)
    assert [one.moved for one in bindings_of_node(nodes.state, nodes.uids[0], nodes.bench.at)] == [False]
    nodes.come_back(0, machine=OTHERS["another machine"])
    assert [one.moved for one in bindings_of_node(nodes.state, nodes.uids[0], nodes.bench.at)] == [exclusive]
