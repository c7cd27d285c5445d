"""Derived tables of the platform, updated row by row."""

from __future__ import annotations

from holdfast.core.ledger.state.sparse_rows import add_count, add_to_list, put_or_drop, remove_from_list
from holdfast.core.model.objects.workloads import Workload, name_key
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.grants import AccountDemand, charge_key, grant_key
from holdfast.core.model.records.region_reports import still_requested
from holdfast.core.model.values.ranges import Ranges, count_numbers, with_numbers, without
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract, times
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.lookups import emergencies_of
from holdfast.core.platform.state.tables import PlatformState

#: Since this level a workload's templates are in the order of naming; before, they were sorted.
ORDERED_SINCE = 2


def add_template_names(state: PlatformState, workload: Revision, tenant: str, digests: list[str]) -> None:
    known = state.templates_of.get(workload) or ()
    new = [digest for digest in digests if digest not in known]
    if new:
        named = (*known, *new)
        state.templates_of.put(workload, named if state.info.level >= ORDERED_SINCE else tuple(sorted(named)))
        for digest in new:
            count_use(state, tenant, digest, 1)


def unindex_workload(state: PlatformState, uid: Revision) -> None:
    old = state.workloads.get(uid)
    if old is None:
        return
    tenant, key = old.meta.tenant, name_key(old.meta.tenant, old.meta.name)
    if state.workload_names.get(key) == uid:
        state.workload_names.drop(key)
    add_count(state.workload_counts, tenant, -1)
    add_count(state.pending_of, tenant, -pending(old))


def unindex_assignment(state: PlatformState, uid: Revision) -> None:
    old = state.assignments.get(uid)
    if old is None:
        return
    for account in emergencies_of(old):
        remove_from_list(state.paid_by, account, uid)
    index_demand(state, old, -1)
    others = tuple(other for other in state.assignments_of[old.workload] if other != uid)
    put_or_drop(state.assignments_of, old.workload, others)


def unindex_grant(state: PlatformState, key: str) -> None:
    old = state.grants.get(key)
    if old is not None:
        index_offer(state, charge_key(old.account, old.region), subtract(ZERO, old.offered))


def index_rights(state: PlatformState, workload: Revision, region: str, come: Ranges = (), gone: Ranges = ()) -> None:
    """Add and remove rights of a region. Without rights there is no row."""
    held = dict(state.rights_of.get(workload) or ())
    before = held.get(region, ())
    held[region] = without(with_numbers(before, come), gone)
    if bool(before) != bool(held[region]):
        (remove_from_list if before else add_to_list)(state.rights_in, region, workload)
    add_count(state.right_counts, region, count_numbers(held[region]) - count_numbers(before))
    put_or_drop(state.rights_of, workload, tuple((name, held[name]) for name in sorted(held) if held[name]))


def index_workload(state: PlatformState, uid: Revision, workload: Workload) -> None:
    tenant = workload.meta.tenant
    if workload.meta.deletion is None:
        state.workload_names.put(name_key(tenant, workload.meta.name), uid)
    add_count(state.workload_counts, tenant, 1)
    add_count(state.pending_of, tenant, pending(workload))


def pending(workload: Workload) -> int:
    """Return how many replicas of a workload are neither bound nor finished; 0 if it is being deleted."""
    status = workload.status
    there = status.bound + status.succeeded + status.failed
    return max(0, workload.spec.replicas - there) if workload.meta.deletion is None else 0


def index_assignment(state: PlatformState, uid: Revision, assignment: Assignment) -> None:
    others = state.assignments_of.get(assignment.workload) or ()
    state.assignments_of.put(assignment.workload, tuple(sorted((*others, uid))))
    for account in emergencies_of(assignment):
        add_to_list(state.paid_by, account, uid)
    index_demand(state, assignment, 1)


def index_demand(state: PlatformState, assignment: Assignment, sign: int) -> None:
    """Add or subtract the demand of an assignment; no demand leaves no row."""
    if assignment.stage is not AssignmentStage.ACTIVE or not assignment.accounts:
        return
    key = grant_key(assignment.region, assignment.accounts[0])
    old = state.demand_of.get(key) or AccountDemand()
    count, amount = old.count, old.amount
    observed = state.workload_reports.get(assignment.workload) or ()
    for digest, asked in still_requested(observed, assignment).items():
        template = state.templates.get(digest)
        if template is not None:
            count += sign * asked
            amount = add(amount, times(template.need, sign * asked))
    put_or_drop(state.demand_of, key, AccountDemand(count, amount) if count else None)


def index_offer(state: PlatformState, key: str, amount: Resources) -> None:
    """Change the amount offered of a limit; no offer leaves no row."""
    offered = add(state.offered_of.get(key) or ZERO, amount)
    put_or_drop(state.offered_of, key, offered if offered != ZERO else None)


def count_use(state: PlatformState, tenant: str, digest: str, change: int) -> None:
    """Change how many workloads of a tenant name a template."""
    counts = dict(state.template_uses.get(digest) or ())
    counts[tenant] = counts.get(tenant, 0) + change
    put_or_drop(state.template_uses, digest, tuple(sorted((name, count) for name, count in counts.items() if count)))
