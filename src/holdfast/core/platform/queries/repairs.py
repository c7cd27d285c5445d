"""Open repairs on the platform: everything that waits to be ended or corrected.

Each entry names its owner, the owner's state and the next step. If a region never returns, an operator retires it,
which ends everything that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model.objects.topology import RegionHealth, RegionStatus
from holdfast.core.model.objects.workloads import FailoverMode, Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.breaches import Breach, Repair, breach_repair, by_urgency
from holdfast.core.model.records.grants import Grant
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.ranges import Ranges, count_numbers, first_of, numbers
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.queries.identities import lease_expired_for_sure_at
from holdfast.core.platform.state.lookups import is_left_to_its_region
from holdfast.core.platform.state.tables import PlatformState

#: Ordinals that an entry names; others are counted.
NAMED = 4
#: Longest normal time of an offer to a healthy region, which acknowledges one within a second or two.
ON_ITS_WAY_MS = 60_000


def repairs(state: PlatformState, now: Instant) -> list[Repair]:
    """Return all open repairs, the most urgent first."""
    return by_urgency(repair_steps(state, now))


def repair_steps(state: PlatformState, now: Instant) -> Iterator[Repair | None]:
    """Yield all open repairs in no order, and None for each row without one."""
    yield from _deletions(state, now)
    yield from _breaches(state, now)
    yield from _assignments(state)
    yield from _rights(state, now)
    yield from _grants(state, now)


def _deletions(state: PlatformState, now: Instant) -> Iterator[Repair | None]:
    for _, workload in state.workloads.unordered():
        yield None
        meta, deletion = workload.meta, workload.meta.deletion
        for finalizer in meta.finalizers if deletion is not None else ():
            region = finalizer.owner.removeprefix("region/")
            waits_for, todo = _waits_for_region(state, region, "end and release its replicas")
            is_theirs = is_left_to_its_region(state, workload, region)
            if not is_theirs:
                todo = f"nothing: it continues without region {region} after its deadline"
            yield Repair(
                what="deletion",
                key=f"workload/{meta.tenant}/{meta.name}",
                owner=finalizer.owner if is_theirs else "controller/repair",
                since=deletion.at if deletion is not None else 0,
                deadline=finalizer.deadline,
                overdue=now >= finalizer.deadline,
                waits_for=waits_for,
                todo=todo or f"`holdfast get replicas --region {region} --tenant {meta.tenant}`",
                tenant=meta.tenant,
            )


def _breaches(state: PlatformState, now: Instant) -> Iterator[Repair]:
    for _, breach in state.breaches.unordered():
        yield breach_repair(breach, *_subject_of(state, breach), now)


def _subject_of(state: PlatformState, breach: Breach) -> tuple[str, str]:
    """Return what a breach is about, and its tenant."""
    workload = state.workloads.get(int(breach.key)) if breach.key.isdigit() else None
    if workload is not None:
        return f"workload/{workload.meta.tenant}/{workload.meta.name}", workload.meta.tenant
    kind, _, rest = breach.key.partition("/")
    return breach.key, rest.partition("/")[0] if kind in ("quota", "reclaimable") else ""


def _assignments(state: PlatformState) -> Iterator[Repair | None]:
    """Yield assignments that are ended and not released. A deleted workload's appear as its deletion."""
    for _, one in state.assignments.unordered():
        yield None
        if one.stage is not AssignmentStage.ENDED or state.workloads[one.workload].meta.deletion is not None:
            continue
        key = f"assignment/{one.tenant}/{one.workload_name}/{one.region}/{one.purpose}"
        yield _by_region(state, one, "assignment", key, "release what it still has of it")


def _by_region(state: PlatformState, one: Assignment, what: str, key: str, work: str) -> Repair:
    """Return the entry of an assignment with which its region has work left."""
    waits_for, todo = _waits_for_region(state, one.region, work)
    return Repair(
        what=what,
        key=key,
        owner=f"region/{one.region}",
        since=_silent_since(state, one.region),
        waits_for=waits_for,
        todo=todo or f"`holdfast get replicas --region {one.region} --tenant {one.tenant}`",
        tenant=one.tenant,
    )


def _rights(state: PlatformState, now: Instant) -> Iterator[Repair | None]:
    """Yield rights that a region must release, and rights that a lost region holds, by workload and region."""
    lost: set[tuple[Revision, str]] = set()
    for uid, held in state.rights_of.unordered():
        yield None
        for region, ordinals in held if state.workloads[uid].meta.deletion is None else ():
            if state.regions[region].status.health is RegionHealth.LOST:
                lost.add((uid, region))
                yield _lost(state, state.workloads[uid], region, ordinals, now)
    for _, one in state.assignments.unordered():
        yield None
        if one.returning and one.stage is not AssignmentStage.ENDED and (one.workload, one.region) not in lost:
            key = f"workload/{one.tenant}/{one.workload_name}/{_listed(one.returning)}"
            yield _by_region(state, one, "right", key, "end them and give the rights back")


def _lost(state: PlatformState, workload: Workload, region: str, ordinals: Ranges, now: Instant) -> Repair:
    meta, status = workload.meta, state.regions[region].status
    waits_for, _ = _waits_for_region(state, region, "release them")
    lapsed, todo = 0, _attesting(meta, region, ordinals)
    if workload.spec.failover is FailoverMode.LEASED:
        lapsed = lease_expired_for_sure_at(state, meta.uid, region, ordinals)
        if workload.spec.recovery.budget:  # the assignment controller leaves these to recovery
            waits_for = f"failover, once the leases of region {region} have run out"
        else:
            waits_for, todo = f"the leases of region {region} to run out", "nothing: they move automatically then"
    return Repair(
        what="right",
        key=f"workload/{meta.tenant}/{meta.name}/{_listed(ordinals)}",
        owner=f"region/{region}",
        since=status.since,
        deadline=lapsed,
        overdue=bool(lapsed) and now >= lapsed,
        waits_for=waits_for,
        todo=todo,
        tenant=meta.tenant,
    )


def _attesting(meta: Meta, region: str, ordinals: Ranges) -> str:
    """Return the command with which an operator attests that these ordinals do not run there."""
    named = " ".join(str(ordinal) for ordinal in numbers(first_of(ordinals, NAMED)))
    attest = f"holdfast region attest {region} {meta.tenant}/{meta.name} {named} --stopped --reason TEXT"
    return f"once they do not run there any more: `{attest}`"


def _grants(state: PlatformState, now: Instant) -> Iterator[Repair | None]:
    """Yield offers that an unhealthy region has not acknowledged, or a healthy one not in time."""
    for _, grant in state.grants.unordered():
        yield None
        is_well, offered = state.regions[grant.region].status.health is RegionHealth.HEALTHY, _offered_at(state, grant)
        if grant.acknowledged >= grant.version or (is_well and now < offered + ON_ITS_WAY_MS):
            continue
        waits_for, todo = _waits_for_region(state, grant.region, f"log version {grant.version}")
        kind, _, name = grant.account.partition("/")
        yield Repair(
            what="grant",
            key=f"grant/{grant.region}/{grant.account}",
            owner=f"region/{grant.region}",
            since=offered if is_well else _silent_since(state, grant.region),
            waits_for=waits_for,
            todo=todo or f"`holdfast describe grant {grant.region}/{grant.account}`",
            tenant=name if kind in ("quota", "reclaimable") else "",
        )


def _offered_at(state: PlatformState, grant: Grant) -> Instant:
    """Return the earliest possible time of an offer: its end less its longest life, or its emergency's start."""
    kind, _, name = grant.account.partition("/")
    override = state.overrides.get(int(name)) if kind == "emergency" else None
    earliest = grant.ends - state.info.settings.grant_life
    return max(earliest, override.opened) if override is not None else earliest


def _waits_for_region(state: PlatformState, region: str, what: str) -> tuple[str, str]:
    """Return which region an entry waits for, and the next step; empty: look at the region."""
    status: RegionStatus = state.regions[region].status
    if status.health is RegionHealth.LOST:
        forget = f"`holdfast region forget {region} --destroyed --reason TEXT`"
        return f"region {region}, which is lost, to {what}", f"once nothing can run there any more: {forget}"
    if status.health is RegionHealth.SUSPECT:
        return f"region {region}, which is suspect, to {what}", "`holdfast status` shows its last contact"
    return f"region {region} to {what}", ""


def _silent_since(state: PlatformState, region: str) -> Instant:
    """Return since when an unhealthy region is unhealthy: the shortest possible wait. It is 0 for a healthy region."""
    status = state.regions[region].status
    return status.since if status.health is not RegionHealth.HEALTHY else 0


def _listed(ordinals: Ranges) -> str:
    named, count = ",".join(str(ordinal) for ordinal in numbers(first_of(ordinals, NAMED))), count_numbers(ordinals)
    return named if count <= NAMED else f"{named} and {count - NAMED} more"
