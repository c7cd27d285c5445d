"""Deadlines of batch work: until when it is to be done, and whether it was, or still can be.

    created ─────────── deadline ───────────▶ due
      on time, unless it fits nowhere          all is done     on time, for good
                                               it is not       missed, for good: the workload's rule applies

The one idea: say only what is certain. Before it is due, only what no node could ever hold is certain to be late. Once
something was said for good it stays, for that generation: what is done later was not done by then. So the condition
`OnTime` is the record of it, and the controllers that act on a missed deadline read it there.

What of batch work is over: as regions have told last, and what those did that hold nothing of it any more.

Ordinals of batch work are a region's own, so counts are enough: what is done in a region is part of what the region was
assigned, and does not move with the rest. When its assignment goes, the platform remembers how much was done there
(`completed_before`), so that nobody does it again; what had failed there may be tried elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.workloads import OnDeadline, Workload
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus, ConditionValue
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.state.tables import PlatformState

ON_TIME = "OnTime"
#: Reasons that are the last word.
_FOR_GOOD = (ConditionReason.AS_DESIRED, ConditionReason.DEADLINE_MISSED)


def deadline_of(workload: Workload, now: Instant = 0) -> Instant:
    """Until when its work is to be done; 0: it has no deadline. `now` is when one is created that is not stored yet."""
    return (workload.meta.created or now) + workload.spec.deadline if workload.spec.deadline else 0


def has_deadline_condition(workload: Workload) -> bool:
    """Whether something is to be said of its deadline: it has one, or had one of which something was said."""
    return bool(workload.spec.deadline) or _on_time(workload) is not None


def on_time_condition(state: PlatformState, workload: Workload, fits: Condition, now: Instant) -> Condition:
    """What is to be said of its deadline, where this is said of whether it fits."""
    said = _on_time(workload)
    if said is not None and _is_for_good(workload, said):
        return replace(said, since=now)
    found = _judged(state, workload, fits, now)
    return Condition(
        type=ON_TIME,
        status=found.status,
        reason=found.reason,
        message=found.message,
        since=now,
        observed_generation=workload.meta.generation,
    )


def is_abandoned(workload: Workload) -> bool:
    """Whether it has missed its deadline and was to fail then: nothing more of it is wanted anywhere."""
    said = _on_time(workload)
    if said is None or not _is_for_good(workload, said):
        return False
    return said.reason is ConditionReason.DEADLINE_MISSED and workload.spec.on_deadline is OnDeadline.FAIL


def is_deadline_open(workload: Workload) -> bool:
    """Whether it has a deadline of which the last word is not said."""
    said = _on_time(workload)
    return bool(workload.spec.deadline) and (said is None or not _is_for_good(workload, said))


def _on_time(workload: Workload) -> Condition | None:
    return next((one for one in workload.status.conditions if one.type == ON_TIME), None)


def _is_for_good(workload: Workload, said: Condition) -> bool:
    return said.reason in _FOR_GOOD and said.observed_generation == workload.meta.generation


def _judged(state: PlatformState, workload: Workload, fits: Condition, now: Instant) -> ConditionValue:
    if not workload.spec.deadline:
        return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED, "it has no deadline any more")
    done, wanted = batch_progress(state, workload).done, workload.spec.replicas
    if done >= wanted:
        return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
    if now >= deadline_of(workload, now):
        return ConditionValue(
            ConditionStatus.FALSE, ConditionReason.DEADLINE_MISSED, f"{done} of {wanted} were done by its deadline"
        )
    if fits.status is ConditionStatus.FALSE:
        return ConditionValue(
            ConditionStatus.FALSE, ConditionReason.NEVER_FITS, "its deadline cannot be met: no node could hold it"
        )
    return ConditionValue(ConditionStatus.TRUE, ConditionReason.PROGRESSING)


class BatchProgress(NamedTuple):
    """How many of a workload's replicas are done, and how many have failed for good, the last of them for `why`."""

    done: int
    failed: int
    why: str

    @property
    def over(self) -> int:
        """How many do not run any more."""
        return self.done + self.failed


def batch_progress(state: PlatformState, workload: Workload) -> BatchProgress:
    """Of its present template, everywhere: what a lost region has done stays done. Of a service, nothing."""
    if not workload.spec.batch:
        return NO_PROGRESS
    digest, uid = template_digest(workload.spec.template), workload.meta.uid
    counts = [c for one in state.observed.get(uid) or () for c in one.seen.counts if c.template == digest]
    before = completed_before(state, workload)
    why = next((count.why for count in counts if count.failed), "")
    return BatchProgress(before + sum(c.done for c in counts), sum(c.failed for c in counts), why)


def completed_before(state: PlatformState, workload: Workload) -> int:
    """How many of its present template were done by assignments that are gone."""
    kept = state.done_before.get(workload.meta.uid)
    return dict(kept).get(template_digest(workload.spec.template), 0) if kept else 0


NO_PROGRESS = BatchProgress(0, 0, "")
