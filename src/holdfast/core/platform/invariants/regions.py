"""Invariants of regions: exclusive identities, retirement, reports."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.ranges import count_numbers, numbers
from holdfast.core.platform.invariants.scan import PlatformScan
from holdfast.core.platform.state.tables import PlatformState

Found = Iterator[str]


def identity(at: PlatformScan) -> Found:
    state = at.state
    listed: dict[tuple[int, int], list[str]] = {}
    for uid, assignment in at.rows("assignments"):
        if assignment.ordinals and not assignment.exclusive:
            yield f"assignment {uid} is not exclusive and lists ordinals"
        if assignment.exclusive and assignment.stage is AssignmentStage.ACTIVE:
            if sum(share.count for share in assignment.shares) > count_numbers(assignment.ordinals):
                yield f"assignment {uid} runs more replicas than it has identities"
        for ordinal in (*numbers(assignment.ordinals), *numbers(assignment.returning)):
            listed.setdefault((assignment.workload, ordinal), []).append(assignment.region)
    for key, regions in sorted(listed.items()):
        held = state.rights.get(key)
        if len(regions) != 1 or held is None or held.region != regions[0]:
            yield f"identity {key} is listed in {regions} and held by {held.region if held else 'no region'}"
    for key, held in at.rows("rights"):
        if (
            key != (held.workload, held.ordinal)
            or held.workload not in state.workloads
            or held.region not in state.regions
        ):
            yield f"right {key} is held as {held}"


def retired(at: PlatformScan) -> Found:
    for table in ("assignments", "grants", "rights"):
        for key, row in at.rows(table):
            if _is_released(at.state, row.region):
                yield f"retired region {row.region} has a row of {table}, {key}"
    for uid, workload in at.rows("workloads"):
        for finalizer in workload.meta.finalizers:
            if _is_released(at.state, finalizer.owner.removeprefix("region/")):
                yield f"workload {uid} waits for retired {finalizer.owner}"
    for name, region in at.rows("regions"):
        if region.status.unreleased < 0 or (region.status.unreleased and not _is_retired(at.state, name)):
            yield f"region {name} is {region.status.health} and has {region.status.unreleased} to be released"
        speaks = region.status.log_id or region.status.session or region.status.address
        if region.status.log_id in at.state.tombstones or (_is_retired(at.state, name) and speaks):
            yield f"region {name} has joined with the log {region.status.log_id}, which is tombstoned"


def _is_released(state: PlatformState, name: str) -> bool:
    """Check whether a region is retired and has released everything."""
    return _is_retired(state, name) and not state.regions[name].status.unreleased


def _is_retired(state: PlatformState, name: str) -> bool:
    region = state.regions.get(name)
    return region is not None and region.status.health is RegionHealth.RETIRED


def observed(at: PlatformScan) -> Found:
    state = at.state
    holding: dict[int, set[str]] = {}
    for _, assignment in at.rows("assignments"):
        holding.setdefault(assignment.workload, set()).add(assignment.region)
    for uid, observations in at.rows("observed"):
        names, held = [one.region for one in observations], holding.get(uid, set())
        if names != sorted({*names}) or not names or not {*names} <= held:
            yield f"regions {names} have reported workload {uid}, and {sorted(held)} have assignments of it"
        if any(one.seen.workload != uid for one in observations):
            yield f"a report stored for workload {uid} is about another"
    for uid, overflows in at.rows("overflows"):
        names = [one.region for one in overflows]
        if uid not in state.workloads or names != sorted({*names}) or any(one.workload != uid for one in overflows):
            yield f"workload {uid} has overflow of {names}"
    for uid, done in at.rows("done_before"):
        templates = [template for template, _ in done]
        if uid not in state.workloads or templates != sorted({*templates}) or not all(count > 0 for _, count in done):
            yield f"workload {uid} has the done counts {done}"
    for name, rebalance in at.rows("rebalances"):
        if name != rebalance.region or rebalance.moved <= 0:
            yield f"region {name} has offered back {rebalance.moved}"
    for name, told in at.rows("summaries"):
        if name != told.region or name not in state.regions or _is_retired(state, name):
            yield f"there is a summary of region {name}, which is retired or deleted"
