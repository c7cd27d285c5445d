"""What the driver sees, in the words of the edge table."""

from __future__ import annotations

from holdfast.agent.driver import CannotStart, Live, StartFault, State, Why
from holdfast.core.agent.here import Here, Run

_HERE = {State.RUNNING: Here.RUNNING, State.STOPPING: Here.STOPPING, State.ENDED: Here.ENDED}
#: By why a process ended: the cause of the edge to `failed`. Whatever is not here ended by itself.
_CAUSES = dict.fromkeys((Why.OVER_MEMORY, Why.OVER_PIDS, Why.OVER_DISK, Why.DISK_UNKNOWN), "over-limit")


def run_of(live: Live, since: int) -> Run:
    """A process as a plan sees it, so since then. What was ended has no code: it may have said 0, and was not done."""
    code = live.code if live.why is Why.EXIT else None
    return Run(_HERE[live.state], since, code, _CAUSES.get(live.why, "exit"), live.detail)


def failed_start(error: CannotStart, now: int) -> Run:
    """What could not be started, as if it had ended at once."""
    return Run(Here.ENDED, now, None, "cannot-start", str(error))


def as_fault(error: Exception) -> CannotStart:
    """Why a driver could not start something, in its own words, or where it had none: such as no room, no descriptor.

    Of the machine's errors the message is known to hold no secret; of others only the kind is told.
    """
    if isinstance(error, CannotStart):
        return error
    kind = type(error).__name__
    return CannotStart(StartFault.DRIVER, f"{kind}: {error}" if isinstance(error, OSError) else kind)
