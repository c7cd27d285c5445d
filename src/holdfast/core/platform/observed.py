"""What reports of regions change: each says what is so there; with an assignment goes what was said of it."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.shapes import Revision
from holdfast.core.model.summary import Observation, Rebalance, Summarised
from holdfast.core.platform import events as e
from holdfast.core.platform.state import PlatformState, assignments_of


def region_reported(state: PlatformState, event: e.RegionReported, stamp: Stamp) -> None:
    for seen in event.seen:
        others = [one for one in state.observed.get(seen.workload) or () if one.region != event.region]
        mine = Observation(event.region, event.position, seen)
        state.observed.put(seen.workload, tuple(sorted((*others, mine), key=lambda one: one.region)))
    if event.summary is not None:
        state.summaries.put(event.region, Summarised(event.region, event.position, stamp.at, event.summary))


def offered_back(state: PlatformState, event: e.OfferedBack, stamp: Stamp) -> None:
    overflow = event.overflow
    others = [one for one in state.overflows.get(overflow.workload) or () if one.region != overflow.region]
    state.overflows.put(overflow.workload, tuple(sorted((*others, overflow), key=lambda one: one.region)))
    known = state.rebalances.get(overflow.region)
    before = known.moved if known is not None and known.since == overflow.window else 0
    state.rebalances.put(overflow.region, Rebalance(overflow.region, overflow.window, before + overflow.moved))


def forget_word(state: PlatformState, workload: Revision, region: str) -> None:
    """An assignment is no more; with the region's last one of a workload, neither is what it said of it."""
    if any(assignment.region == region for assignment in assignments_of(state, workload)):
        return
    left = tuple(one for one in state.observed.get(workload) or () if one.region != region)
    if left:
        state.observed.put(workload, left)
    else:
        state.observed.drop(workload)


APPLY_OBSERVED: dict[type, Any] = {e.RegionReported: region_reported, e.OfferedBack: offered_back}
