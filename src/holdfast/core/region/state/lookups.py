"""Reads by key, and of the present window of preemptions, that handlers, queries, schedulers and reconcilers share."""

from __future__ import annotations

from holdfast.core.model.objects.policies import EVERYWHERE
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import PreemptionWindow, Slot
from holdfast.core.model.values.ranges import contains
from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.region.state.tables import NO_PHASE_COUNTS, PHASE_INDEX, RegionState

#: The level that added receipts, binding times and the count. Logs below it have no limits of preemption.
RECEIPTS_SINCE = 3
#: Length of a window of preemptions. It begins with the first one after the end of the window before.
WINDOW_MS: Duration = 60_000


def slots_on(state: RegionState, node: Node) -> list[Slot]:
    return [state.slots[key] for key in slot_keys(state.node_usage.get(node.uid) or EMPTY_USAGE)]


def valid_policy(state: RegionState, tenant: str) -> Revision:
    """Return the policy revision that is valid for the tenant; 0 is the built-in one."""
    mine = state.validities.get(tenant)
    if mine is not None:
        return mine
    return state.validities.get(EVERYWHERE) or 0


def phase_count(state: RegionState, assignment: Revision, phase: Phase) -> int:
    """Return the number of slots of the assignment in this phase."""
    return (state.phase_counts.get(assignment) or NO_PHASE_COUNTS)[PHASE_INDEX[phase]]


def is_finished(state: RegionState, assignment: Revision, ordinal: int) -> bool:
    return any(
        contains(row.done, ordinal) or contains(row.failed, ordinal) for row in state.finished.get(assignment) or ()
    )


def assignments_here(state: RegionState, workload: Revision) -> list[Assignment]:
    """Return the workload's assignments in this region, by uid."""
    return [state.assignments[uid] for uid in state.assignments_of.get(workload) or ()]


def preemption_window(state: RegionState, at: Instant) -> PreemptionWindow:
    """Return the window of this time, with its count so far."""
    window = state.region.preempted
    return window if window.since <= at < window.since + WINDOW_MS else PreemptionWindow(at)
