"""What in a region waits to be ended or put right: broken promises, ended assignments, replicas that do not end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.breaches import Breach, Repair
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.queries.repairs import repairs
from tests.support.ledgers.region import REPLICA, RegionBench


def found(bench: RegionBench, what: str) -> list[Repair]:
    return [one for one in repairs(bench.state, bench.at) if one.what == what]


def running(count: int = 2) -> RegionBench:
    """Replicas of one workload, on one node each."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    work = bench.a_workload(count=count)
    for ordinal in range(count):
        bench.place(work, c.SlotPlacement(ordinal, bench.a_node(f"n{ordinal}")))
        bench.walk(Phase.RUNNING, ordinal)
    return bench


def test_where_all_is_well_nothing_is_listed() -> None:
    assert repairs(running().state, 0) == []


def test_a_replica_that_ends_is_its_agents_until_its_grace_is_over() -> None:
    bench = running()
    bench.accept(REPLICA, c.Stop(((1, 0),), "scaled-down"))
    (one,) = found(bench, "replica")
    settings = bench.state.info.settings
    assert (one.key, one.owner, one.since, one.tenant) == ("replica/acme/w1/eu/0", "agent/n0", bench.at, "acme")
    assert one.waits_for == "n0 to end it (scaled-down)"
    assert (one.deadline, one.overdue) == (bench.at + settings.grace + settings.kill_margin, False)
    bench.at = one.deadline
    assert found(bench, "replica")[0].overdue
    assert found(bench, "replica")[0].todo == "`holdfast describe node n0 --region eu`"


def test_a_replica_on_a_silent_node_waits_for_the_node_or_the_fence() -> None:
    bench = running()
    bench.accept("ledger", EndSession(bench.sessions["agent/n1"], "silent"))
    bench.accept("controller/node-health", c.Move((_unknown(bench, 1),)))
    (one,) = found(bench, "replica")
    node = bench.state.nodes[bench.slot(1).node]
    assert (one.key, one.owner) == ("replica/acme/w1/eu/1", "controller/repair")
    assert one.deadline == node.session_ended + bench.state.info.settings.fence_time


def _unknown(bench: RegionBench, ordinal: int) -> c.MoveSlot:
    return c.MoveSlot((1, ordinal), bench.slot(ordinal).epoch, Phase.UNKNOWN, "session-ended")


def test_an_ended_assignment_waits_for_its_replicas_and_then_for_the_platform() -> None:
    bench = running(1)
    (assignment,) = bench.state.assignments.values()
    bench.ship(c.ShippedAssignment(replace(assignment, stage=AssignmentStage.ENDED, shares=(), revision=9)))
    (one,) = found(bench, "assignment")
    assert (one.key, one.owner) == ("assignment/acme/w1/eu/serving", "controller/replica")
    assert one.waits_for == "1 replicas to end"
    bench.accept(REPLICA, c.Stop(((1, 0),), "deleted"))
    bench.move("agent/n0", Phase.RELEASED, "stopped")
    (one,) = found(bench, "assignment")
    assert (one.owner, one.waits_for) == ("platform", "the platform to remove it: nothing of it is left")


def test_a_node_that_shrinks_breaks_a_promise_that_is_told_by_its_name() -> None:
    bench = running(1)
    bench.a_node("n0", cpu=100)
    (one,) = found(bench, "breach")
    assert (one.key, one.tenant) == ("region.capacity/node/n0/cpu", "")
    assert one.todo.endswith(" --region eu`")


@pytest.mark.parametrize(
    ("key", "told", "tenant"),
    [
        ("assignment/100", "assignment/acme/w1", "acme"),
        ("assignment/100/x", "assignment/acme/w1/x", "acme"),
        ("assignment/999", "assignment/999", ""),
        ("assignment/abc", "assignment/abc", ""),
        ("node/999", "node/999", ""),
        ("quota/100", "quota/100", ""),
    ],
)
def test_a_broken_promise_about_an_assignment_is_told_by_its_workload_to_its_tenant(
    key: str, told: str, tenant: str
) -> None:
    bench = running(1)
    bench.state.breaches.put(
        ("region.policy", key), Breach("region.policy", key, 1, "controller/repair", bench.at, bench.at + 1)
    )
    (one,) = found(bench, "breach")
    assert (one.key, one.tenant) == (f"region.policy/{told}", tenant)
