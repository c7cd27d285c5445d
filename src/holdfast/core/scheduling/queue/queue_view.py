"""The queue as tenants and operators see it: all waiting requests in the scheduler's order, with reasons.

It is computed from the state on request, with the keys of the scheduler's own queue. Blocked requests have the place at
which they would be tried.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.workload_report import pending_code
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.request_groups import QueuedRequest
from holdfast.core.scheduling.queue.scheduling_queue import SchedulingQueue

#: Assignments between two yields: about a millisecond.
BIT = 100


class Queued(Struct, frozen=True, rename="camel"):
    """One request in the queue.

    The `position` counts from 1. `reason` is the main code, or states that no scheduler has tried it yet. With `never`,
    no end of other work cures it. `examined` is the revision of the last attempt.
    """

    position: int
    tenant: str
    workload: str
    region: str
    purpose: str
    template: str
    priority_class: str
    priority: int
    open: int
    since: Instant
    reason: str
    message: str = ""
    never: bool = False
    deadline: Instant = 0
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


def queue_view(state: RegionState) -> Generator[None, None, list[Queued]]:
    """Return all waiting requests. Yields between pieces of work, since there may be many."""
    queue = SchedulingQueue()
    queue.pass_time(state, state.info.at)
    for number, (uid, _) in enumerate(state.requests.items()):
        if number % BIT == 0:
            yield
        queue.update(state, uid)
    found: list[Queued] = []
    for place in sorted(queue.place(state, group) for group in queue.groups.values()):
        if len(found) % BIT == 0:
            yield
        group = queue.groups[place[-1]]
        found += [_queued(state, entry, len(found) + after) for after, entry in enumerate(group.entries.values(), 1)]
    return found


def _queued(state: RegionState, entry: QueuedRequest, position: int) -> Queued:
    request, assignment = entry.request, state.assignments[entry.key[0]]
    cls = state.priority_classes.get(assignment.priority_class)
    reasons = request.reasons
    return Queued(
        position=position,
        tenant=assignment.tenant,
        workload=assignment.workload_name,
        region=assignment.region,
        purpose=assignment.purpose.value,
        template=request.template,
        priority_class=assignment.priority_class,
        priority=cls.spec.priority if cls is not None else 0,
        open=request.open,
        since=request.since,
        reason=pending_code(request),
        message=reasons[0].message if reasons else "",
        never=pending_code(request) == ConditionReason.NEVER_FITS.value,
        deadline=assignment.deadline,
        examined=request.examined,
        attempts=request.attempts,
        reasons=reasons,
    )
