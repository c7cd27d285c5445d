"""A node without a session is silent, then lost; what its agent held is unknown until somebody knows."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.reconcilers.region.node_health import FORGOTTEN_MS
from holdfast.core.region import commands as c
from tests.support.ledgers.node_world import HEALTH, NodeWorld
from tests.support.ledgers.region import ROOT

FENCE = DEFAULTS.fence_time


def test_of_a_node_that_lives_nothing_is_said() -> None:
    nodes = NodeWorld(1)
    assert nodes.look(HEALTH, 0) == NO_CHANGES


def test_a_node_whose_session_has_ended_is_silent_and_what_its_agent_held_is_unknown() -> None:
    nodes = NodeWorld(2)
    nodes.silence(0)
    sent = nodes.send(HEALTH, 0)
    epoch = nodes.slot(0).epoch
    moved = c.Move((c.MoveSlot((1, 0), epoch, Phase.UNKNOWN, "session-ended"),))
    assert sent == [c.JudgeNode(nodes.uids[0], NodeHealth.SILENT), moved]
    assert nodes.phases() == {"unknown": 1, "serving": 1}
    assert nodes.look(HEALTH, 0) == ReconcileResult((), nodes.bench.at + FENCE)


@pytest.mark.parametrize(
    "phase", [Phase.BOUND, Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING], ids=lambda phase: phase.value
)
def test_whatever_phase_it_was_in_it_is_unknown(phase: Phase) -> None:
    nodes = NodeWorld(1, phase)
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    assert nodes.phases() == {"unknown": 1}


def test_what_is_ending_stays_what_it_is() -> None:
    nodes = NodeWorld(1)
    nodes.bench.accept("controller/replica", c.Stop(((1, 0),), "scaled-down"))
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    assert nodes.phases() == {"terminating": 1}


def test_a_silent_node_is_lost_after_the_fence_time_and_not_before() -> None:
    nodes = NodeWorld(1)
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    nodes.bench.at += FENCE - 1
    assert nodes.send(HEALTH, 0) == []
    nodes.bench.at += 1
    assert nodes.send(HEALTH, 0) == [c.JudgeNode(nodes.uids[0], NodeHealth.LOST)]


def test_a_node_that_is_back_is_ready_and_what_it_has_yet_to_speak_of_is_unknown() -> None:
    nodes = NodeWorld(1)
    nodes.silence(0)
    nodes.come_back(0)
    assert nodes.node(0).health is NodeHealth.READY
    nodes.send(HEALTH, 0)
    assert nodes.phases() == {"unknown": 1}
    nodes.say(0, Phase.RUNNING, "found-again")
    assert nodes.look(HEALTH, 0) == NO_CHANGES
    assert nodes.phases() == {"running": 1}


def test_what_is_bound_in_the_new_session_is_not_doubted() -> None:
    nodes = NodeWorld(1)
    nodes.silence(0)
    nodes.come_back(0)
    nodes.work(1, workload=2, uid=200)
    nodes.send(HEALTH, 0)
    assert nodes.phases(2) == {"serving": 1}


def test_a_word_of_silence_that_came_too_late_is_taken_back() -> None:
    nodes = NodeWorld(1)
    nodes.silence(0)
    late = nodes.look(HEALTH, 0).commands[0].command
    nodes.come_back(0)
    nodes.bench.accept("controller/node-health", late)
    assert nodes.node(0).health is NodeHealth.SILENT
    assert nodes.send(HEALTH, 0)[0] == c.JudgeNode(nodes.uids[0], NodeHealth.READY)


# Removal


def gone(**administered: object) -> NodeWorld:
    """A node that is empty and gone, of which an operator has said something, or nothing."""
    nodes = NodeWorld(1)
    nodes.bench.accept("controller/replica", c.Stop(((1, 0),), "deleted"))
    nodes.say(0, Phase.RELEASED, "stopped")
    if administered:
        nodes.bench.accept(ROOT, c.AdministerNode(nodes.uids[0], **administered))  # type: ignore[arg-type]
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    return nodes


def test_a_node_that_was_gone_and_empty_for_a_day_is_removed() -> None:
    nodes = gone()
    nodes.bench.at += FORGOTTEN_MS - 1
    nodes.settle()
    assert len(nodes.state.nodes) == 1
    nodes.bench.at += 1
    assert nodes.send(HEALTH, 0) == [c.RemoveNode(nodes.uids[0])]
    assert len(nodes.state.nodes) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"labels": (("rack", "9"),)},
        {"taints": (Taint("new"),)},
        {"tenancy": ("acme",)},
        {"cordoned": True, "note": "x"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_a_node_of_which_an_operator_has_said_something_stays(said: dict[str, object]) -> None:
    nodes = gone(**said)
    nodes.bench.at += 2 * FORGOTTEN_MS
    nodes.settle()
    assert nodes.look(HEALTH, 0) == NO_CHANGES
    assert len(nodes.state.nodes) == 1


def test_a_node_on_which_something_stands_stays() -> None:
    nodes = NodeWorld(1)
    nodes.silence(0)
    nodes.bench.at += 2 * FORGOTTEN_MS
    assert c.RemoveNode(nodes.uids[0]) not in nodes.send(HEALTH, 0)
