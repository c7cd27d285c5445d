"""Slots by kind: what one that changes costs does not grow with how many others there are, or how they lie."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.objects.workloads import Template
from holdfast.core.region import events as e
from holdfast.core.region.state.evolve import APPLY
from holdfast.core.region.state.tables import RegionState

STAMP = Stamp(1, 1, "controller/replica")
#: A slot that comes or goes writes its own row, its request's, its tally's, and the bits of its block.
WRITTEN_MAX = 4_000


def _apply(state: RegionState, event: Any) -> None:
    APPLY[type(event)](state, event, STAMP)


def _released(*ordinals: int) -> e.SlotsReleased:
    return e.SlotsReleased(tuple(e.SlotRelease((1, ordinal), 0, "withdrawn", "", "") for ordinal in ordinals))


def _scattered(count: int) -> tuple[RegionState, list[int]]:
    """A state with so many slots of one assignment after a third has left in any order, and those that are left."""
    state = RegionState()
    state.templates.put("t", Template())
    _apply(state, e.SlotsOpened(100, 1, "t", ((0, count),)))
    ordinals = list(range(count))
    Random(7).shuffle(ordinals)
    for ordinal in ordinals[: count // 3]:
        _apply(state, _released(ordinal))
    return state, ordinals[count // 3 :]


def _written(state: RegionState, event: Any) -> int:
    """How much is written for an event, over all rows."""
    overlay = state.overlay()
    _apply(overlay, event)
    rows = [overlay.table(name).get(key) for name, keys in overlay.changed_keys().items() for key in keys]
    return len(repr(rows))


@pytest.mark.parametrize("count", [300, 30_000])
def test_a_slot_that_leaves_writes_no_more_where_thousands_have_left_in_any_order(count: int) -> None:
    state, left = _scattered(count)
    assert _written(state, _released(left[0])) < WRITTEN_MAX


def test_slots_that_are_opened_again_in_any_order_write_no_more_either() -> None:
    state, left = _scattered(30_000)
    gone = next(ordinal for ordinal in range(30_000) if ordinal not in set(left))
    assert _written(state, e.SlotsOpened(100, 1, "t", ((gone, gone + 1),))) < WRITTEN_MAX
