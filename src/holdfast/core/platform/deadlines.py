"""Deadlines of batch work: until when it is to be done, and whether it was, or still can be.

    created ─────────── deadline ───────────▶ due
      on time, unless it fits nowhere          all is done     on time, for good
                                               it is not       missed, for good: the workload's rule applies

The one idea: say only what is certain. Before it is due, only what no node could ever hold is certain to be late. Once
something was said for good it stays, for that generation: what is done later was not done by then. So the condition
`OnTime` is the record of it, and the controllers that act on a missed deadline read it there.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.meta import Condition, Reason, Truth
from holdfast.core.model.shapes import Instant
from holdfast.core.model.workload import OnDeadline, Workload
from holdfast.core.platform.completed import completed
from holdfast.core.platform.fitting import Verdict, fits
from holdfast.core.platform.state import PlatformState

ON_TIME = "OnTime"
#: Reasons that are the last word.
_FOR_GOOD = (Reason.AS_DESIRED, Reason.DEADLINE_MISSED)


def due_of(workload: Workload, now: Instant = 0) -> Instant:
    """Until when its work is to be done; 0: it has no deadline. `now` is when one is created that is not stored yet."""
    return (workload.meta.created or now) + workload.spec.deadline if workload.spec.deadline else 0


def is_told(workload: Workload) -> bool:
    """Whether something is to be said of its deadline: it has one, or had one of which something was said."""
    return bool(workload.spec.deadline) or _said(workload) is not None


def on_time_condition(state: PlatformState, workload: Workload, now: Instant) -> Condition:
    """What is to be said of its deadline."""
    said = _said(workload)
    if said is not None and _is_for_good(workload, said):
        return replace(said, since=now)
    found = _judged(state, workload, now)
    return Condition(
        type=ON_TIME,
        status=found.status,
        reason=found.reason,
        message=found.message,
        since=now,
        observed_generation=workload.meta.generation,
    )


def is_given_up(workload: Workload) -> bool:
    """Whether it has missed its deadline and was to fail then: nothing more of it is wanted anywhere."""
    said = _said(workload)
    if said is None or not _is_for_good(workload, said):
        return False
    return said.reason is Reason.DEADLINE_MISSED and workload.spec.on_deadline is OnDeadline.FAIL


def is_open(workload: Workload) -> bool:
    """Whether it has a deadline of which the last word is not said."""
    said = _said(workload)
    return bool(workload.spec.deadline) and (said is None or not _is_for_good(workload, said))


def _said(workload: Workload) -> Condition | None:
    return next((one for one in workload.status.conditions if one.type == ON_TIME), None)


def _is_for_good(workload: Workload, said: Condition) -> bool:
    return said.reason in _FOR_GOOD and said.observed_generation == workload.meta.generation


def _judged(state: PlatformState, workload: Workload, now: Instant) -> Verdict:
    if not workload.spec.deadline:
        return Verdict(Truth.TRUE, Reason.AS_DESIRED, "it has no deadline any more")
    done, wanted = completed(state, workload).done, workload.spec.replicas
    if done >= wanted:
        return Verdict(Truth.TRUE, Reason.AS_DESIRED)
    if now >= due_of(workload, now):
        return Verdict(Truth.FALSE, Reason.DEADLINE_MISSED, f"{done} of {wanted} were done by its deadline")
    if fits(state, workload).status is Truth.FALSE:
        return Verdict(Truth.FALSE, Reason.NEVER_FITS, "its deadline cannot be met: no node could hold it")
    return Verdict(Truth.TRUE, Reason.PROGRESSING)
