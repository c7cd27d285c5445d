"""Deadlines and progress of batch work.

    created ─────────── deadline ───────────▶ due
      on time, unless it fits nowhere          all is done     on time, for good
                                               it is not       missed, for good: the workload's rule applies

Only certain results are reported. Before the deadline, only a workload that no node could ever hold is certainly late.
A final result stays for its generation. The condition `OnTime` records it for the controllers that act on it.

Progress is the sum of the regions' last reports and of removed assignments. Ordinals of batch work belong to a region,
so counts are enough. When an assignment is removed, its done count is kept (`completed_before`), so that no region
repeats the work. Failed replicas may be tried elsewhere.
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
#: Final reasons.
_FOR_GOOD = (ConditionReason.AS_DESIRED, ConditionReason.DEADLINE_MISSED)


def deadline_of(workload: Workload, now: Instant = 0) -> Instant:
    """Return the deadline of a workload; 0: it has none. If it is not stored yet, it is created at `now`."""
    return (workload.meta.created or now) + workload.spec.deadline if workload.spec.deadline else 0


def has_deadline_condition(workload: Workload) -> bool:
    """Check whether a workload has a deadline, or a condition of an earlier one."""
    return bool(workload.spec.deadline) or _on_time(workload) is not None


def on_time_condition(state: PlatformState, workload: Workload, fits: Condition, now: Instant) -> Condition:
    """Return the condition `OnTime` of a workload whose condition `Fits` is given."""
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
    """Check whether a workload has missed its deadline and was to fail then: it needs no more replicas anywhere."""
    said = _on_time(workload)
    if said is None or not _is_for_good(workload, said):
        return False
    return said.reason is ConditionReason.DEADLINE_MISSED and workload.spec.on_deadline is OnDeadline.FAIL


def is_deadline_open(workload: Workload) -> bool:
    """Check whether a workload has a deadline without a final result."""
    said = _on_time(workload)
    return bool(workload.spec.deadline) and (said is None or not _is_for_good(workload, said))


def _on_time(workload: Workload) -> Condition | None:
    return next((one for one in workload.status.conditions if one.type == ON_TIME), None)


def _is_for_good(workload: Workload, said: Condition) -> bool:
    return said.reason in _FOR_GOOD and said.observed_generation == workload.meta.generation


def _judged(state: PlatformState, workload: Workload, fits: Condition, now: Instant) -> ConditionValue:
    if not workload.spec.deadline:
        return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED, "it no longer has a deadline")
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
    """How many of a workload's replicas are done and have failed for good; `why` is the last failure's reason."""

    done: int
    failed: int
    why: str

    @property
    def over(self) -> int:
        """Number of finished replicas."""
        return self.done + self.failed


def batch_progress(state: PlatformState, workload: Workload) -> BatchProgress:
    """Return the progress of the present template in all regions, lost ones included. A service has none."""
    if not workload.spec.batch:
        return NO_PROGRESS
    digest, uid = template_digest(workload.spec.template), workload.meta.uid
    counts = [c for one in state.workload_reports.get(uid) or () for c in one.seen.counts if c.template == digest]
    before = completed_before(state, workload)
    why = next((count.why for count in counts if count.failed), "")
    return BatchProgress(before + sum(c.done for c in counts), sum(c.failed for c in counts), why)


def completed_before(state: PlatformState, workload: Workload) -> int:
    """Return how many replicas of the present template were done by assignments that were removed."""
    kept = state.completed_before.get(workload.meta.uid)
    return dict(kept).get(template_digest(workload.spec.template), 0) if kept else 0


NO_PROGRESS = BatchProgress(0, 0, "")
