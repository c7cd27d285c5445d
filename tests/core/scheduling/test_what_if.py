"""What would happen if: the real scheduler and controllers on a fork, and the state as it was."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.assignments import Share
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.region import commands as c
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.filters.taints import TaintsFilter
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.what_if import what_if
from tests.support.ledgers.region import LINK, ROOT, RegionBench
from tests.support.ledgers.scheduler_world import Follower


def a_region(cpu: int) -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_node(cpu=cpu)
    bench.a_grant()
    return bench


def test_what_waits_would_be_placed_as_the_scheduler_places_it_and_nothing_has_changed() -> None:
    bench = a_region(cpu=64_000)
    work = bench.a_workload(count=3)
    before = bench.state.info.digest
    found = what_if(bench.state, (), BUILT_IN, bench.at)
    assert bench.state.info.digest == before
    assert all(slot.phase.value == "pending" for slot in bench.state.slots.values())
    attempt = Follower(bench).look()
    assert attempt is not None
    (group,) = attempt.command.groups
    assert found.placed == {(work.workload, one.ordinal): one.node for one in group.placements}
    assert (found.refused, found.waiting) == ((), {})


def test_what_would_find_no_room_waits_with_its_reasons() -> None:
    bench = a_region(cpu=1_000)
    work = bench.a_workload(count=100)
    found = what_if(bench.state, (), BUILT_IN, bench.at)
    assert 0 < len(found.placed) < 100
    assert [reason.code for reason in found.waiting[work.uid, work.shares[0].template]] == ["capacity"]


def test_what_the_ledger_would_refuse_is_not_told_as_placed() -> None:
    """A scheduler that knows of no taints proposes one slot on each node, and one of these refuses it."""
    bench = a_region(cpu=1_000)
    tainted = bench.a_node("n2", cpu=1_000)
    bench.accept(ROOT, c.AdministerNode(tainted, taints=(Taint("kept"),)))
    bench.a_workload(count=2)
    unaware = Plugins(tuple(one for one in BUILT_IN.filters if not isinstance(one, TaintsFilter)), BUILT_IN.scores)
    found = what_if(bench.state, (), unaware, bench.at)
    assert [*found.placed.values()] == [bench.state.node_names["n1"]]


def test_a_change_goes_through_the_controllers_that_are_named() -> None:
    bench = a_region(cpu=64_000)
    work = bench.a_workload(count=2)
    more = replace(work, revision=work.revision + 1_000, shares=(Share(work.shares[0].template, 5),))
    cursor = bench.state.region.cursor
    change = Envelope(LINK, c.Ship("log-platform", 1, cursor, cursor + 1, (c.ShippedAssignment(more),)), bench.at)
    assert len(what_if(bench.state, (change,), BUILT_IN, bench.at).placed) == 2, "nobody opened more slots"
    found = what_if(bench.state, (change,), BUILT_IN, bench.at, [ReplicaReconciler()])
    assert len(found.placed) == 5
    assert len(found.state.slots) == 5
    assert len(bench.state.slots) == 2


def test_what_is_refused_of_a_change_is_told() -> None:
    bench = a_region(cpu=64_000)
    found = what_if(
        bench.state, (Envelope("controller/replica", c.OpenSlots(99, "x", (0,)), bench.at),), BUILT_IN, bench.at
    )
    assert [one.code for one in found.refused] == [Code.NOT_FOUND]
