"""RULES 24: one function says when a fence is past.

Otherwise a new leader's clock is a minute ahead, and every fence is past at once: the region starts a second time what
a guard has yet to end.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import StartTerm
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.queries import fence
from holdfast.core.region.queries.repairs import repairs
from tests.support.ledgers.node_world import HEALTH, REPAIR, NodeWorld

FENCE = DEFAULTS.fence_time
#: By so much the next leader's clock is ahead: a step, a minute, a day.
LEAPS = [0, 60_000, 86_400_000]


def silent() -> NodeWorld:
    """An exclusive replica whose agent's session has just ended: it is unknown."""
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    return nodes


def lead_anew(nodes: NodeWorld, leap: int) -> None:
    """Another leader stands, whose ledger time is ahead by so much."""
    nodes.bench.at += leap
    nodes.bench.accept("ledger", StartTerm(nodes.state.info.term + 1, "another"))


def is_fenced_off(nodes: NodeWorld, actor: str, target: Phase, cause: str) -> bool:
    """Whether a move is refused because of the fence."""
    answer = nodes.bench.move(actor, target, cause)
    return isinstance(answer, Refused) and answer.code is Code.FENCE


@pytest.mark.parametrize("leap", LEAPS)
def test_after_a_leap_of_ledger_time_repair_waits_for_the_fence_in_the_new_term(leap: int) -> None:
    nodes = silent()
    lead_anew(nodes, leap)
    past = nodes.bench.at + FENCE
    assert nodes.look(REPAIR, 0) == ReconcileResult((), past)
    nodes.bench.at = past - 1
    assert is_fenced_off(nodes, "controller/repair", Phase.FAILED, "fenced")
    nodes.bench.at = past
    nodes.settle()
    assert nodes.phases() == {"pending": 1}


def test_however_many_leaders_leap_each_waits_for_a_whole_fence_time() -> None:
    nodes = silent()
    for leap in (60_000, 5_000, 86_400_000):
        lead_anew(nodes, leap)
        nodes.bench.at += FENCE - 1
        assert not nodes.look(REPAIR, 0).commands
    nodes.bench.at += 1
    nodes.settle()
    assert nodes.phases() == {"pending": 1}


@pytest.mark.parametrize("leap", LEAPS)
def test_an_agent_that_is_back_right_after_a_leap_may_keep_what_runs(leap: int) -> None:
    """Its guard has not ended it: the leap was no time."""
    nodes = silent()
    lead_anew(nodes, leap)
    nodes.come_back(0)
    nodes.say(0, Phase.RUNNING, "found-again")
    assert nodes.phases() == {"running": 1}


@pytest.mark.parametrize(("late", "is_kept"), [(-1, True), (0, False)])
def test_what_is_found_again_when_its_fence_is_past_may_not_be_kept(late: int, is_kept: bool) -> None:
    """Another may run by then: who finds it ends it."""
    nodes = silent()
    nodes.bench.at += FENCE + late
    nodes.come_back(0)
    assert is_fenced_off(nodes, "agent/n0", Phase.RUNNING, "found-again") is not is_kept


def test_what_an_agent_of_an_earlier_term_may_have_kept_is_not_given_up_after_a_leap() -> None:
    """It came back in time, and the next leader's clock is ahead: by that clock it came late."""
    nodes = silent()
    nodes.bench.at += FENCE - 1
    nodes.come_back(0)
    lead_anew(nodes, 86_400_000)
    nodes.bench.at += 2 * FENCE
    assert nodes.look(REPAIR, 0) == NO_CHANGES
    assert is_fenced_off(nodes, "controller/repair", Phase.FAILED, "fenced")


@pytest.mark.parametrize(("late", "waits"), [(-1, True), (0, False)])
def test_what_an_agent_held_that_came_back_only_past_its_fence_is_given_up(late: int, waits: bool) -> None:
    """It may have kept nothing then: nobody needs to wait for its word."""
    nodes = silent()
    nodes.bench.at += FENCE + late
    nodes.come_back(0)
    nodes.bench.at += FENCE
    assert is_fenced_off(nodes, "controller/repair", Phase.FAILED, "fenced") is waits


def test_a_node_is_lost_when_its_fence_is_past_and_not_by_a_leap() -> None:
    nodes = silent()
    lead_anew(nodes, 60_000)
    nodes.settle()
    assert nodes.node(0).health is NodeHealth.SILENT
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.node(0).health is NodeHealth.LOST


def test_what_was_fenced_is_released_at_once_by_the_next_leader_too() -> None:
    """It is known to be dead: another term has nothing to wait for."""
    nodes = silent()
    nodes.bench.at += FENCE
    assert isinstance(nodes.bench.move("controller/repair", Phase.FAILED, "fenced"), Committed)
    lead_anew(nodes, 0)
    assert isinstance(nodes.bench.move("controller/repair", Phase.RELEASED, "fenced"), Committed)
    assert nodes.phases() == {"pending": 1}


def test_what_failed_by_itself_is_released_by_the_fence_only_when_that_is_past() -> None:
    """Its agent may have started it again before it fell silent."""
    nodes = NodeWorld(1, Phase.RUNNING, exclusive=True)
    nodes.say(0, Phase.FAILED, "exit")
    nodes.silence(0)
    nodes.bench.at += FENCE - 1
    assert is_fenced_off(nodes, "controller/repair", Phase.RELEASED, "fenced")
    nodes.bench.at += 1
    assert isinstance(nodes.bench.move("controller/repair", Phase.RELEASED, "fenced"), Committed)


def test_people_are_told_the_time_that_repair_waits_for() -> None:
    nodes = silent()
    lead_anew(nodes, 60_000)
    (one,) = repairs(nodes.state, nodes.bench.at)
    assert (one.deadline, one.overdue) == (nodes.bench.at + FENCE, False)


def test_nobody_else_counts_a_fence_from_the_end_of_a_session() -> None:
    """The two words stand together in one function of the core, and wherever else they are it is to be told."""
    core = Path(fence.__file__).parents[2]
    found = {
        f"{path.relative_to(core)}:{node.name}"
        for path in sorted(core.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and {"session_ended", "fence_time"} <= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    }
    assert found == {"region/queries/fence.py:fenced_at"}
