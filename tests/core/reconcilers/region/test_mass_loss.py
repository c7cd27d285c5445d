"""When a silent node counts as gone: in the order in which sessions ended, a fifth of all nodes in a minute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.reconcilers.region.node_health import GONE_LEAST, GONE_PERCENT, WINDOW_MS, counts_as_gone_at
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.node_world import HEALTH, REPAIR, NodeWorld


def turns(state: RegionState) -> dict[Revision, Instant]:
    """By silent node: when it counts as gone, counted from the first to the last."""
    most = max(GONE_LEAST, len(state.nodes) * GONE_PERCENT // 100)
    found: list[Instant] = []
    silent = sorted((node.session_ended, uid) for uid, node in state.nodes.items() if not node.session)
    for number, (ended, _) in enumerate(silent):
        found.append(max(ended, found[number - most] + WINDOW_MS) if number >= most else ended)
    return dict(zip([uid for _, uid in silent], found, strict=True))


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from([0, 1, WINDOW_MS // 3, 2 * WINDOW_MS])), max_size=24))
def test_every_node_has_its_turn_whoever_fell_silent_or_came_back_before(story: list[tuple[int, int]]) -> None:
    nodes = NodeWorld(12)
    for number, later in story:
        nodes.bench.at += later
        if nodes.node(number).session:
            nodes.silence(number)
        else:
            nodes.come_back(number)
    state = nodes.state
    found = {uid: counts_as_gone_at(state, state.nodes[uid]) for uid in nodes.uids if not state.nodes[uid].session}
    assert found == turns(state)
    before = list(state.silent)
    state.rebuild()
    assert list(state.silent) == before


def test_that_a_whole_region_is_silent_costs_each_node_no_more_than_that_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = NodeWorld(40)
    nodes.silence(*range(40))
    visited: list[Table[Any, Any]] = []

    def unordered(table: Table[Any, Any]) -> Iterator[Any]:
        visited.append(table)
        return iter(())

    monkeypatch.setattr(Table, "unordered", unordered)
    for number in range(40):
        nodes.look(HEALTH, number)
        nodes.look(REPAIR, number)
    assert not [table for table in visited if table is nodes.state.nodes]
