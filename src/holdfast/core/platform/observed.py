"""What reports of regions change: each says what is so there; with an assignment goes what was said of it."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.shapes import Revision
from holdfast.core.model.summary import Observation, Rebalance, Summarised
from holdfast.core.platform import events as e
from holdfast.core.platform.senders import speaking_in
from holdfast.core.platform.state import PlatformState, assignments_of, index_demand


def region_reported(state: PlatformState, event: e.RegionReported, stamp: Stamp) -> None:
    session = speaking_in(state, event.region)
    for seen in event.seen:
        mine = _assigned(state, seen.workload, event.region)
        for assignment in mine:
            index_demand(state, assignment, -1)
        others = [one for one in state.observed.get(seen.workload) or () if one.region != event.region]
        said = Observation(event.region, event.position, seen, event.at, session)
        state.observed.put(seen.workload, tuple(sorted((*others, said), key=lambda one: one.region)))
        for assignment in mine:
            index_demand(state, assignment, 1)
    if event.summary is not None:
        said_of_all = Summarised(event.region, event.position, stamp.at, event.summary, session)
        state.summaries.put(event.region, said_of_all)


def _assigned(state: PlatformState, workload: Revision, region: str) -> list[Assignment]:
    """The assignments whose demand depends on what the region says of a workload: those of batch work."""
    return [one for one in assignments_of(state, workload) if one.region == region and one.batch]


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
