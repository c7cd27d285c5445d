"""The count of preemptions in the present window, by which their rate is limited."""

from __future__ import annotations

from holdfast.core.model.records.slots import PreemptionWindow
from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.region.state.tables import RegionState

#: The level that added receipts, binding times and the count. Logs below it have no limits of preemption.
RECEIPTS_SINCE = 3
#: Length of a window. It begins with the first preemption after the end of the one before.
WINDOW_MS: Duration = 60_000


def preemption_window(state: RegionState, at: Instant) -> PreemptionWindow:
    """Return the window of this time, with its count so far."""
    window = state.region.preempted
    return window if window.since <= at < window.since + WINDOW_MS else PreemptionWindow(at)
