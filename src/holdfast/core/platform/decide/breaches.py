"""At-commit invariants: they hold at commit; an outside fact may break one, whose breach may shrink but never grow.

An operator or tenant may lower a quota below its grants or a disruption budget below its shares, or forbid a region
that runs replicas (RULES 18). The ledger records a breach with owner and deadline. Every command that touches it
recounts it, and the one that repairs it closes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.objects.topology import Region
from holdfast.core.model.objects.workloads import Workload, WorkloadSpec
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.breaches import PLATFORM_DISRUPTION, PLATFORM_ESCROW, PLATFORM_RESIDENCY, Breach
from holdfast.core.model.values.resources import Resources, amount_of, names_in
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.events import BreachClosed, BreachStored
from holdfast.core.platform.queries.feasibility import placement_allows
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState

BreachEvent = BreachStored | BreachClosed


def disruption_shared(assignments: Sequence[Assignment]) -> int:
    """Return how much of a workload's disruption budget its regions hold."""
    return sum(
        a.disruption
        for a in assignments
        if a.purpose is AssignmentPurpose.SERVING and a.stage is not AssignmentStage.ENDED
    )


def recount_workload(
    state: PlatformState, workload: Workload, assignments: Sequence[Assignment], ctx: CommandContext
) -> tuple[BreachEvent, ...]:
    """Return the breach events of a workload with this spec and these assignments."""
    spec, key = workload.spec, str(workload.meta.uid)
    over = disruption_shared(assignments) - spec.disruption_max
    misplaced = _misplaced(state, spec, assignments)
    return (
        *_recount(state, PLATFORM_DISRUPTION, key, over, "controller/rollout", ctx),
        *_recount(state, PLATFORM_RESIDENCY, key, misplaced, "controller/assignment", ctx),
    )


def recount_region(state: PlatformState, region: Region, ctx: CommandContext) -> tuple[BreachEvent, ...]:
    """Return the breaches that a region's new jurisdiction closes. It opens none: a change that would is refused."""
    found: list[BreachEvent] = []
    for breach in state.breaches.values():
        if breach.invariant == PLATFORM_RESIDENCY:
            workload = state.workloads[int(breach.key)]
            over = _misplaced(state, workload.spec, assignments_of(state, workload.meta.uid), region)
            found.extend(_recount(state, PLATFORM_RESIDENCY, breach.key, over, "controller/assignment", ctx))
    return tuple(found)


def _misplaced(
    state: PlatformState, spec: WorkloadSpec, assignments: Sequence[Assignment], changed: Region | None = None
) -> int:
    """Count replicas in regions that the spec does not allow, with `changed` in place of the stored region."""
    count = 0
    for assignment in assignments:
        region = state.regions[assignment.region]
        if changed is not None and changed.meta.name == assignment.region:
            region = changed
        if assignment.stage is not AssignmentStage.ENDED and not placement_allows(spec, region):
            count += sum(share.count for share in assignment.shares)
    return count


def close_workload(state: PlatformState, workload: Revision, ctx: CommandContext) -> tuple[BreachEvent, ...]:
    """Close the breaches of a workload that is removed."""
    key = str(workload)
    return (
        *_recount(state, PLATFORM_DISRUPTION, key, 0, "", ctx),
        *_recount(state, PLATFORM_RESIDENCY, key, 0, "", ctx),
    )


def recount_account(
    state: PlatformState, account: str, charged: tuple[Resources, Resources], limit: Resources, ctx: CommandContext
) -> tuple[BreachEvent, ...]:
    """Return the breach events of an account, for each resource, when `charged` changes from first to second."""
    before, after = charged
    found: list[BreachEvent] = []
    for name in names_in(before, after):
        over = amount_of(after, name) - amount_of(limit, name)
        found.extend(_recount(state, PLATFORM_ESCROW, f"{account}/{name}", over, "controller/grant", ctx))
    return tuple(found)


def _recount(
    state: PlatformState, invariant: str, key: str, overshoot: int, owner: str, ctx: CommandContext
) -> tuple[BreachEvent, ...]:
    known = state.breaches.get((invariant, key))
    if overshoot <= 0:
        return (BreachClosed(invariant, key),) if known else ()
    if known is not None and known.overshoot == overshoot:
        return ()
    opened = known.opened if known else ctx.at
    deadline = opened + state.info.settings.breach_deadline
    return (BreachStored(Breach(invariant, key, overshoot, owner, opened, deadline)),)
