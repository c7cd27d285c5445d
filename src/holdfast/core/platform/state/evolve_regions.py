"""Events of regions and of their reports. A report is dropped with the assignment that it is about."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import put_or_drop
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.fairness import dominant_part
from holdfast.core.model.records.grants import tenant_of
from holdfast.core.model.records.region_reports import ObservedWorkload, Rebalance, StoredSummary, capacity_of
from holdfast.core.model.records.usage_windows import UsageWindow, with_share
from holdfast.core.model.values.resources import total
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import events as e
from holdfast.core.platform.state.indexes import index_demand
from holdfast.core.platform.state.lookups import assignments_of, reporting_session
from holdfast.core.platform.state.tables import PlatformState


def region_reported(state: PlatformState, event: e.RegionReported, stamp: Stamp) -> None:
    session = reporting_session(state, event.region)
    for seen in event.seen:
        mine = _assigned(state, seen.workload, event.region)
        for assignment in mine:
            index_demand(state, assignment, -1)
        others = [one for one in state.workload_reports.get(seen.workload) or () if one.region != event.region]
        said = ObservedWorkload(event.region, event.position, seen, event.at, session)
        state.workload_reports.put(seen.workload, tuple(sorted((*others, said), key=lambda one: one.region)))
        for assignment in mine:
            index_demand(state, assignment, 1)
    if event.summary is not None:
        before = state.summaries.get(event.region)
        said_of_all = StoredSummary(event.region, event.position, stamp.at, event.summary, session)
        state.summaries.put(event.region, said_of_all)
        _count_usage(state, before, said_of_all, stamp.at)


def _count_usage(state: PlatformState, before: StoredSummary | None, after: StoredSummary | None, at: Instant) -> None:
    """Start new shares of the tenants whose charges in one region have changed."""
    old, new = (set(one.summary.uses) if one is not None else set() for one in (before, after))
    changed = sorted({tenant for account, _ in old ^ new if (tenant := tenant_of(account))})
    if not changed or state.info.level < UsageWindow.SINCE:
        return
    uses = [dict(one.summary.uses) for one in state.summaries.values()]
    whole = total(capacity_of(one.summary) for one in state.summaries.values())
    for tenant in changed:
        accounts = f"quota/{tenant}", f"reclaimable/{tenant}"
        charged = total(mine[account] for mine in uses for account in accounts if account in mine)
        share, _ = dominant_part(charged, whole)
        known = state.usage_windows.get(tenant) or UsageWindow()
        state.usage_windows.put(tenant, with_share(known, share, at))


def _assigned(state: PlatformState, workload: Revision, region: str) -> list[Assignment]:
    """Return the assignments whose demand depends on the region's report: those of batch work."""
    return [one for one in assignments_of(state, workload) if one.region == region and one.batch]


def offered_back(state: PlatformState, event: e.OfferedBack, stamp: Stamp) -> None:
    overflow = event.overflow
    others = [one for one in state.overflows.get(overflow.workload) or () if one.region != overflow.region]
    state.overflows.put(overflow.workload, tuple(sorted((*others, overflow), key=lambda one: one.region)))
    known = state.rebalances.get(overflow.region)
    before = known.moved if known is not None and known.since == overflow.window else 0
    state.rebalances.put(overflow.region, Rebalance(overflow.region, overflow.window, before + overflow.moved))


def forget_report(state: PlatformState, workload: Revision, region: str) -> None:
    """Drop a region's report about a workload with its last assignment of it."""
    if any(assignment.region == region for assignment in assignments_of(state, workload)):
        return
    left = tuple(one for one in state.workload_reports.get(workload) or () if one.region != region)
    put_or_drop(state.workload_reports, workload, left)


APPLY_OBSERVED: dict[type, Any] = {e.RegionReported: region_reported, e.OfferedBack: offered_back}


def _set_region(state: PlatformState, name: str, **changes: Any) -> None:
    region = state.regions[name]
    state.regions.put(name, replace(region, status=replace(region.status, **changes)))


def region_joined(state: PlatformState, event: e.RegionJoined, stamp: Stamp) -> None:
    old = state.regions[event.region].status
    _set_region(
        state,
        event.region,
        health=event.health,
        since=old.since if event.health is old.health else stamp.at,
        log_id=event.log_id,
        position=0,
        digest="",
        cursor=0,
        heard_at=stamp.at,
        session=event.session,
        address=event.address,
        **_reported_times(event),
    )


def region_rejoined(state: PlatformState, event: e.RegionRejoined, stamp: Stamp) -> None:
    said = {"session": event.session, "address": event.address, **_reported_times(event)}
    _set_region(state, event.region, heard_at=stamp.at, **said)


def _reported_times(event: e.RegionJoined | e.RegionRejoined) -> dict[str, Any]:
    return {"session_lease": event.session_lease, "grace": event.grace, "fence_time": event.fence_time}


def region_acknowledged(state: PlatformState, event: e.RegionAcknowledged, stamp: Stamp) -> None:
    said = {"position": event.position, "digest": event.digest, "cursor": event.cursor}
    _set_region(state, event.region, **said, heard_at=stamp.at)


def region_believed(state: PlatformState, event: e.RegionBelieved, stamp: Stamp) -> None:
    """Drop the acknowledged position. The time of last contact stays: an operator's attestation is no contact."""
    _set_region(state, event.region, position=0, digest="", cursor=0)


def region_judged(state: PlatformState, event: e.RegionJudged, stamp: Stamp) -> None:
    _set_region(state, event.region, health=event.health, since=stamp.at)


def region_retired(state: PlatformState, event: e.RegionRetired, stamp: Stamp) -> None:
    tombstones = state.regions[event.region].status.tombstones
    if event.log_id:
        tombstones = (*tombstones, event.log_id)
        state.tombstones.put(event.log_id, event.region)
    before = state.summaries.get(event.region)
    state.summaries.drop(event.region)
    _count_usage(state, before, None, stamp.at)
    silent = {"log_id": "", "session": 0, "address": "", "unreleased": event.unreleased}
    _set_region(state, event.region, health=RegionHealth.RETIRED, since=stamp.at, tombstones=tombstones, **silent)


def retirement_continued(state: PlatformState, event: e.RetirementContinued, stamp: Stamp) -> None:
    _set_region(state, event.region, unreleased=event.unreleased)
