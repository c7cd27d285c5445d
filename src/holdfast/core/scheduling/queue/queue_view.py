"""The queue as tenants and operators see it: all waiting requests in the scheduler's order, with reasons; and how
tenants share the region for which they wait.

It is computed from the state on request, with the keys of the scheduler's own queue. Blocked requests have the place at
which they would be tried.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from holdfast.core.model.records.fairness import TenantFairness, with_shares
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.workload_report import pending_code
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.request_groups import QueuedRequest
from holdfast.core.scheduling.queue.scheduling_queue import SchedulingQueue
from holdfast.core.scheduling.queue.tenant_shares import tenant_usage

#: Assignments, or tenants, between two yields: about a millisecond.
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


def region_fairness(state: RegionState) -> Generator[None, None, list[TenantFairness]]:
    """Return every tenant that is charged or waits, by name. Yields between pieces of work."""
    waiting: dict[str, int] = {}
    since: dict[str, Instant] = {}
    for number, (uid, requests) in enumerate(state.requests.items()):
        if number % BIT == 0:
            yield
        assignment = state.assignments.get(uid)
        for request in requests if assignment is not None else ():
            tenant = assignment.tenant if assignment is not None else ""
            waiting[tenant] = waiting.get(tenant, 0) + request.open
            since[tenant] = min(request.since, since.get(tenant, request.since))
    accounts = [account.partition("/") for account in (*state.account_usage.keys(), *state.accepted_grants.keys())]
    names = {name for kind, _, name in accounts if kind in ("quota", "reclaimable")}
    names.update(state.shared_usage.keys())
    rows: list[TenantFairness] = []
    for number, tenant in enumerate(sorted(names | waiting.keys())):
        if number % BIT == 0:
            yield
        grant, charged = state.accepted_grants.get(f"quota/{tenant}"), tenant_usage(state, tenant)
        if charged != ZERO or tenant in waiting:
            rows.append(
                TenantFairness(
                    tenant=tenant,
                    weight=grant.weight if grant is not None else 1,
                    charged=charged,
                    protected=grant.protected if grant is not None else ZERO,
                    waiting=waiting.get(tenant, 0),
                    since=since.get(tenant),
                )
            )
    return with_shares(rows, state.totals.capacity)
