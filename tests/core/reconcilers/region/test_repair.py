"""What stood on a node whose agent is gone is given up once it cannot run there, and not while its agent may know."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from tests.support.ledgers.node_world import HEALTH, REPAIR, NodeWorld
from tests.support.ledgers.region import ROOT

FENCE, LEASE = DEFAULTS.fence_time, DEFAULTS.session_lease


def silent(**fields: Any) -> NodeWorld:
    """One node of two whose session has just ended: what it held is unknown."""
    nodes = NodeWorld(2, **fields)
    nodes.silence(0)
    nodes.send(HEALTH, 0)
    return nodes


def test_nothing_is_given_up_before_the_fence_time() -> None:
    nodes = silent()
    assert nodes.look(REPAIR, 0) == ReconcileResult((), nodes.bench.at + FENCE)
    nodes.bench.at += FENCE - 1
    assert not nodes.look(REPAIR, 0).commands


def test_after_the_fence_time_it_waits_to_be_placed_again_under_the_next_epoch() -> None:
    nodes = silent()
    nodes.bench.at += FENCE
    nodes.settle()
    slot = nodes.slot(0)
    assert (slot.phase, slot.cause, slot.node, slot.account) == (Phase.PENDING, "fenced", 0, "quota/acme")
    assert nodes.phases() == {"pending": 1, "serving": 1}


def test_what_was_to_end_is_gone_with_its_node() -> None:
    nodes = NodeWorld(1)
    nodes.bench.accept("controller/replica", c.Stop(((1, 0),), "deleted"))
    nodes.silence(0)
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {}


def test_work_that_was_done_is_not_done_again() -> None:
    nodes = NodeWorld(1, Phase.RUNNING, batch=True)
    nodes.say(0, Phase.SUCCEEDED, "completed")
    nodes.silence(0)
    nodes.bench.at += FENCE
    nodes.settle()
    assert nodes.phases() == {}


def test_an_agent_that_is_back_in_time_alone_says_what_it_kept() -> None:
    nodes = silent()
    nodes.bench.at += FENCE - 1
    nodes.come_back(0)
    nodes.bench.at += 10 * FENCE
    assert nodes.look(REPAIR, 0) == NO_CHANGES
    nodes.say(0, Phase.RUNNING, "found-again")
    assert nodes.phases() == {"running": 1, "serving": 1}


def test_an_agent_that_is_back_late_has_a_lease_to_say_what_it_kept() -> None:
    nodes = silent()
    nodes.bench.at += FENCE
    nodes.come_back(0)
    assert nodes.look(REPAIR, 0) == ReconcileResult((), nodes.bench.at + LEASE)
    nodes.say(0, Phase.RUNNING, "found-again")
    assert nodes.look(REPAIR, 0) == NO_CHANGES


def test_what_an_agent_that_is_back_late_does_not_speak_of_is_given_up() -> None:
    nodes = silent()
    nodes.bench.at += FENCE
    nodes.come_back(0)
    nodes.bench.at += LEASE
    nodes.settle()
    assert nodes.phases() == {"pending": 1, "serving": 1}


def test_what_was_found_to_be_dead_is_released_though_the_agent_is_back() -> None:
    nodes = silent()
    nodes.bench.at += FENCE
    nodes.send(REPAIR, 0)
    assert nodes.phases() == {"failed": 1, "serving": 1}
    nodes.come_back(0)
    nodes.settle()
    assert nodes.phases() == {"pending": 1, "serving": 1}


def test_a_pause_of_repair_holds_until_it_ends_and_its_end_wakes_all() -> None:
    nodes = silent()
    end = nodes.bench.at + 10 * FENCE
    nodes.bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "an incident", end))
    nodes.bench.at += 2 * FENCE
    assert nodes.look(REPAIR, 0) == ReconcileResult((), end)
    (uid,) = (uid for uid, _ in nodes.state.overrides.items())
    assert [*keys_to_wake(REPAIR, nodes.state, [("override", uid)])] == []
    nodes.bench.accept(ROOT, EndOverride(uid, "over"))
    assert [*keys_to_wake(REPAIR, nodes.state, [("override", uid)] * 2)] == nodes.uids
    nodes.settle()
    assert nodes.phases() == {"pending": 1, "serving": 1}


def test_a_node_that_was_never_gone_is_not_looked_at() -> None:
    nodes = NodeWorld(1)
    assert nodes.look(REPAIR, 0) == NO_CHANGES
