"""Assignments: every workload is split over the regions that it may use, as workloads and regions change.

    workload, regions, reports ──▶ candidate regions ──▶ counts of each region ──▶ Assign, EndAssignment, GrantRight

This module makes commands from `assignment_candidates` (facts of each region), `assignment_split` (counts),
`assignment_identities` (ordinals) and `assignment_disruption` (shares of the budget). Replicas that failover runs are
not counted. Finished batch work stays where it was done; only the rest is split. Work that has missed its deadline and
was to fail then is ended everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.builtin.overrides import emergency
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.reconciler import (
    EVERYTHING,
    NO_CHANGES,
    ProposedCommand,
    ReconcileKey,
    ReconcileResult,
    WatchKey,
)
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.ranges import Ranges, count_numbers
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import Assign, EndAssignment
from holdfast.core.platform.queries.accounts import paying_accounts
from holdfast.core.platform.queries.completion import batch_progress, is_abandoned
from holdfast.core.platform.queries.identities import lease_needs_renewal
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.assignment_candidates import (
    CandidateRegion,
    CandidateRegions,
    candidate_regions_of,
    target_counts,
    waiting_for_quota,
)
from holdfast.core.reconcilers.platform.assignment_disruption import (
    ACKNOWLEDGED_MS,
    BudgetShares,
    budget_holder,
    budget_shares,
)
from holdfast.core.reconcilers.platform.assignment_identities import identity_plan, recovered
from holdfast.core.reconcilers.platform.assignment_split import next_step


class DesiredAssignment(Struct):
    """What one region is to have of a workload, in units: gangs, or replicas. `stays`: its assignment is not ended even
    if it is empty."""

    site: CandidateRegion
    count: int
    ordinals: Ranges = ()
    stays: bool = False


class AssignmentReconciler:
    """The assignment controller, keyed by workload uid.

    Changes that concern all workloads are rare: a region's existence, health and spec, or a new payer. A region's own
    key is not watched, since each assignment to it would reconcile all other workloads.
    """

    name = "assignment"
    watches: tuple[str, ...] = ("workload", "observed", "standing", "override", "quota", "priority-class")

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return state.workloads.keys()

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        kind, key = touched
        if kind in ("workload", "observed"):
            return [key]
        if kind == "quota":
            return _of_tenant(state, key)
        if kind == "override":
            opened = state.overrides.get(key)  # type: ignore[arg-type]
            added = emergency(opened)
            # An override that has ended is found by the assignments that it paid for.
            return _paid_by(state, key) if opened is None else _of_tenant(state, added.tenant) if added else ()
        return EVERYTHING

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        workload = state.workloads.get(key)  # type: ignore[arg-type]
        if workload is None or workload.meta.deletion is not None:
            return NO_CHANGES
        mine = assignments_of(state, workload.meta.uid)
        if is_abandoned(workload):
            ends = [EndAssignment(one.uid) for one in mine if one.stage is not AssignmentStage.ENDED]
            return ReconcileResult(tuple(_wanted(workload, end) for end in ends))
        if workload.spec.exclusive:
            sites, wishes, grants = _exclusive(state, workload, mine, now)
        else:
            sites, wishes = _ordinary(state, workload, mine, now)
            grants = []
        digest, unit = template_digest(workload.spec.template), workload.spec.unit
        holders = [budget_holder(wish.site, wish.count + wish.site.over, digest, unit) for wish in wishes]
        shares = budget_shares(holders, workload.spec.disruption_max // unit)
        if shares.waits:
            sites.again.append(now + ACKNOWLEDGED_MS)
        # Skip regions that get a right now: an assignment that does not list it yet would request it back.
        granted = [grant.region for grant in grants]
        told = [wish for wish in wishes if wish.site.name not in granted]
        commands = [*grants, *_commands(state, workload, digest, told, shares, now)]
        sites.again += _renewals(state, sites.all)
        again = min((at for at in sites.again if at > now), default=None)
        return ReconcileResult(tuple(_wanted(workload, command) for command in commands), again)


def _wanted(workload: Workload, command: Any) -> ProposedCommand:
    """Return the command with its cause: it is refused once the spec has changed, except a grant of a right."""
    revision = workload.meta.revision
    return ProposedCommand(command, revision, expect=revision if isinstance(command, Assign | EndAssignment) else 0)


def _of_tenant(state: PlatformState, tenant: ReconcileKey) -> Sequence[ReconcileKey]:
    return sorted(uid for uid, one in state.workloads.unordered() if one.meta.tenant == tenant)


def _paid_by(state: PlatformState, override: ReconcileKey) -> Sequence[ReconcileKey]:
    """Return the workloads whose assignments name this emergency among those that pay for them."""
    named = state.paid_by.get(f"emergency/{override}") or ()
    return sorted({state.assignments[uid].workload for uid in named})


def _ordinary(
    state: PlatformState, workload: Workload, mine: Sequence[Assignment], now: Instant
) -> tuple[CandidateRegions, list[DesiredAssignment]]:
    """Return the count of each region, towards the target, no faster than replicas become ready.

    Finished replicas are not split. A region that may keep them does, in addition to its new ones.
    """
    spec, unit = workload.spec, workload.spec.unit
    sites = candidate_regions_of(state, workload, mine, (), now)
    replicas = -(-max(0, spec.replicas - batch_progress(state, workload).over) // unit)
    aims = target_counts(state, workload, sites, replicas, now)
    moving = [site for site in sites.all if not site.left and not site.is_ended]
    targets = {site.name: aims.get(site.name, 0) for site in moving}
    late = min(spec.disruption_max, waiting_for_quota(moving, targets)) // unit
    counts = next_step([site.place for site in moving], [targets[site.name] for site in moving], replicas, late)
    wishes = [DesiredAssignment(site, count) for site, count in zip(moving, counts, strict=True)]
    # A lost region that others replace continues if it returns, but never with more than the present replicas.
    wishes += [
        DesiredAssignment(site, min(site.place.have, replicas)) for site in sites.all if site.left and not site.is_ended
    ]
    return sites, wishes


def _exclusive(
    state: PlatformState, workload: Workload, mine: Sequence[Assignment], now: Instant
) -> tuple[CandidateRegions, list[DesiredAssignment], list[Any]]:
    """Return the identities of each region."""
    rights = state.rights_of.get(workload.meta.uid) or ()
    sites = candidate_regions_of(state, workload, mine, [region for region, _ in rights], now)
    apart = recovered(state, workload, mine, rights)
    found = identity_plan(state, workload, sites, rights, apart, now)
    wishes = []
    for site in sites.all:
        if not site.is_ended:
            ordinals = found.listed[site.name]
            wishes.append(DesiredAssignment(site, count_numbers(ordinals), ordinals, found.involved[site.name]))
    return sites, wishes, found.grants


def _commands(
    state: PlatformState,
    workload: Workload,
    digest: str,
    wishes: Sequence[DesiredAssignment],
    shares: BudgetShares,
    now: Instant,
) -> list[Any]:
    found: list[Any] = []
    for wish in wishes:
        old, name = wish.site.old, wish.site.name
        if not wish.count and not wish.stays and not (wish.site.over and wish.site.allowed):
            if old is not None:
                found.append(EndAssignment(old.uid))
            continue
        new = Assign(
            workload.meta.uid,
            name,
            AssignmentPurpose.SERVING,
            AssignmentStage.ACTIVE,
            _shares(wish, digest, workload.spec.unit),
            wish.ordinals,
            shares.told[name] * workload.spec.unit,
        )
        if old is None or _differs(state, workload, digest, wish.site, old, new, now):
            found.append(new)
    return found


def _shares(desired: DesiredAssignment, digest: str, unit: int) -> tuple[Share, ...]:
    """Return shares of the newest template; if the region may get nothing new, of its old templates, the first ones
    first."""
    site, count = desired.site, (desired.count + desired.site.over) * unit
    if site.old is None or (site.is_healthy and site.allowed):
        return (Share(digest, count),) if count else ()
    kept = []
    for share in site.old.shares:
        part = min(count, share.count)
        count -= part
        if part:
            kept.append(Share(share.template, part))
    return tuple(kept)


def _differs(
    state: PlatformState,
    workload: Workload,
    digest: str,
    site: CandidateRegion,
    old: Assignment,
    new: Assign,
    now: Instant,
) -> bool:
    """Check whether the region needs a command: for replicas, identities, budget, gangs, accounts or a newer
    generation."""
    if (old.shares, old.ordinals, old.disruption) != (new.shares, new.ordinals, new.disruption):
        return True
    # Without the newest template, the assignment cannot claim the new generation.
    is_newest = site.is_healthy and site.allowed
    if old.generation != workload.meta.generation and (is_newest or all(s.template == digest for s in old.shares)):
        return True
    if old.gang != workload.spec.gang or old.accounts != paying_accounts(
        state, workload, site.name, AssignmentPurpose.SERVING, now
    ):
        return True
    return lease_needs_renewal(state, workload, old, now)


def _renewals(state: PlatformState, sites: Sequence[CandidateRegion]) -> list[Instant]:
    """Return when half of each lease has passed. Leases of an unhealthy region are not renewed."""
    half = state.info.settings.right_lease // 2
    leased = [site.old for site in sites if site.old is not None and site.old.right_until and site.is_healthy]
    return [old.right_until - half for old in leased if old.stage is AssignmentStage.ACTIVE]
