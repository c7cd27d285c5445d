"""What a batch has written, and what a look near it costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from types import FrameType
from typing import Any

import pytest

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.invariants import BatchDiff, check, check_batch
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.platform.definition import ASSIGNMENT, PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.platform import a_workload, a_world
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_principal, a_template


def test_what_was_read_or_written_as_it_was_is_not_told_as_written() -> None:
    bench = RegionBench()
    overlay = bench.state.overlay()
    root = overlay.principals["person/root"]
    overlay.principals.put("person/root", root)
    assert overlay.principals.get("nobody") is None
    assert overlay.changed_keys() == {}
    overlay.principals.put("person/b", a_principal("person/b"))
    overlay.principals.put("person/a", a_principal("person/a"))
    overlay.principals.drop("person/root")
    assert overlay.changed_keys() == {"principals": ["person/a", "person/b", "person/root"]}


def test_a_change_tells_what_each_written_row_was_and_is() -> None:
    bench = RegionBench()
    overlay = bench.state.overlay()
    new = a_principal("person/new")
    overlay.principals.put("person/new", new)
    root = overlay.principals["person/root"]
    overlay.principals.drop("person/root")
    change = BatchDiff(bench.state, overlay)
    assert list(change.rows("principals")) == [("person/new", None, new), ("person/root", root, None)]
    assert list(change.rows("slots")) == []


def test_the_places_near_a_change_are_found_once_for_all_promises() -> None:
    bench = RegionBench()
    looks: list[BatchDiff[RegionState]] = []

    def near(change: BatchDiff[RegionState]) -> list[str]:
        looks.append(change)
        return ["a place"]

    change = BatchDiff(bench.state, bench.state.overlay())
    assert change.scan(near) is change.scan(near)
    assert looks == [change]


def test_only_an_overlay_knows_what_was_written_to_it() -> None:
    with pytest.raises(AssertionError, match="overlay"):
        RegionState().changed_keys()


def test_an_overlay_has_layers_of_the_tables_that_were_asked_for_and_of_no_others() -> None:
    bench = a_region(3)
    overlay = bench.state.overlay()
    overlay.principals.put("person/new", a_principal("person/new"))
    assert overlay.nodes.keys() == bench.state.nodes.keys()
    assert [name for name, _ in overlay._overlay_tables()] == ["principals", "nodes"]
    assert "person/new" not in bench.state.principals
    bench.state.merge(overlay)
    assert "person/new" in bench.state.principals
    for state in (bench.state, overlay):
        with pytest.raises(AttributeError, match="no_such_table"):
            attrgetter("no_such_table")(state)


def test_a_row_that_a_promise_needs_and_that_is_gone_is_told_and_ends_nothing() -> None:
    bench = a_region(3)
    overlay = bench.state.overlay()
    overlay.templates.drop(bench.state.slots[1, 0].template)
    near, full = check_batch(bench.state, overlay, REGION.invariants), check(overlay.fork(), REGION.invariants)
    for found in (near, full):
        assert "region.references" in {one.invariant for one in found}
        assert any(one.detail.startswith("cannot be checked: ") for one in found)


# Costs


#: A tenant may have a hundred workloads.
SMALL = 9


def a_region(size: int) -> RegionBench:
    """So many nodes and as many placed slots, all of one workload and charged to one account, and three that wait."""
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    bench.a_grant()
    nodes = [bench.a_node(f"n{number}", cpu=2000) for number in range(size)]
    work = bench.a_workload(a_template(), count=size + 3)
    bench.place(work, *(c.SlotPlacement(ordinal, uid) for ordinal, uid in enumerate(nodes)))
    return bench


def in_a_region(size: int) -> tuple[LedgerDefinition[Any], LedgerState, LedgerState]:
    bench = a_region(size)
    work = bench.state.assignments[100]
    nodes = [uid for _, uid in bench.state.node_names.items()][:3]
    command = bench.proposal(work, *(c.SlotPlacement(size + index, uid) for index, uid in enumerate(nodes)))
    return REGION, bench.state, considered(REGION, bench.state, bench.envelope(SCHEDULER, command), bench.at)


def on_the_platform(size: int) -> tuple[LedgerDefinition[Any], LedgerState, LedgerState]:
    """So many workloads of one tenant, each assigned; one more is given replicas."""
    bench = a_world()
    bench.checked = False
    for number in range(size):
        bench.assign(bench.put(a_workload(f"w{number}")), "eu", 1)
    last = bench.put(a_workload("last"))
    envelope = bench.envelope(ASSIGNMENT, bench.assignment(last, "eu", 2))
    return PLATFORM, bench.state, considered(PLATFORM, bench.state, envelope, bench.at)


def considered(definition: LedgerDefinition[Any], state: LedgerState, envelope: Envelope[Any], at: int) -> LedgerState:
    draft = BatchDraft(definition, state)
    assert isinstance(draft.add(envelope, at), Committed)
    draft.seal()
    overlay: LedgerState = draft.state
    return overlay


def lines_run(act: Callable[[], object]) -> int:
    """How many lines of code an act takes: a measure that no busy machine changes."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("world", [in_a_region, on_the_platform])
def test_a_look_near_a_batch_costs_the_same_in_a_state_ten_times_as_large(
    world: Callable[[int], tuple[LedgerDefinition[Any], LedgerState, LedgerState]],
) -> None:
    near, full = [], []
    for size in (SMALL, 10 * SMALL):
        definition, before, after = world(size)
        near.append(lines_run(lambda: check_batch(before, after, definition.invariants)))  # noqa: B023
        full.append(lines_run(lambda: check(after.fork(), definition.invariants)))  # noqa: B023
    more = 9 * SMALL
    assert near[1] - near[0] < more, "not one line for each row more"
    assert full[1] - full[0] > 20 * more, "the measure sees a walk through all rows"
