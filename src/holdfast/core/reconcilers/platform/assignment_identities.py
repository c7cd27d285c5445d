"""Which region runs which identity of an exclusive workload (RULES 6).

    free ──GrantRight──▶ held ──Assign lists it──▶ runs ──Assign without it──▶ returning ──the region releases──▶ free

An identity stays where its right is. To move it, the platform requests it back and grants it again once no region holds
it. Meanwhile it is down, so at most `disruptionMax` move at a time.

The cost grows with the regions and the ranges of ordinals, not with their number. A region gets neighboring identities,
so that there are few ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import FailoverMode, Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import (
    Ranges,
    common,
    count_numbers,
    first_of,
    last_of,
    split_ranges,
    with_numbers,
    without,
)
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.commands import GrantRight
from holdfast.core.platform.queries.identities import lease_expired_for_sure_at
from holdfast.core.platform.state.tables import HeldIn, PlatformState
from holdfast.core.reconcilers.platform.assignment_candidates import CandidateRegion, CandidateRegions, target_counts


class RegionIdentities(Struct):
    """The identities of one region: kept, to be released (`returning`), and the number of all its rights.

    Those in `lapsed` are of a lost region, and their lease has certainly expired.
    """

    kept: Ranges = ()
    returning: Ranges = ()
    lapsed: Ranges = ()
    rights: int = 0


class IdentityPlan(Struct):
    """Rights to grant, and the ordinals that each region is to list."""

    grants: list[GrantRight]
    listed: dict[str, Ranges]
    #: Regions that need an assignment even if it is empty: they hold rights, must release some, or will get some.
    involved: dict[str, bool]


def recovered(state: PlatformState, workload: Workload, mine: Sequence[Assignment], rights: Sequence[HeldIn]) -> Ranges:
    """Return the identities that failover has: listed ones, and, while a region is lost, granted ones of standby
    regions."""
    theirs = [one for one in mine if one.purpose is AssignmentPurpose.RECOVERY]
    if not theirs:
        return ()
    found = _all_of(theirs)
    serving = [one for one in mine if one.purpose is AssignmentPurpose.SERVING]
    if any(state.regions[one.region].status.health is RegionHealth.LOST for one in serving):
        ready, ours = [one.region for one in theirs if one.stage is not AssignmentStage.ENDED], _all_of(serving)
        for region, ordinals in rights:
            found = with_numbers(found, without(ordinals, ours)) if region in ready else found
    return found


def _all_of(assignments: Sequence[Assignment]) -> Ranges:
    found: Ranges = ()
    for one in assignments:
        found = with_numbers(found, (*one.ordinals, *one.returning))
    return found


def identity_plan(
    state: PlatformState,
    workload: Workload,
    sites: CandidateRegions,
    rights: Sequence[HeldIn],
    apart: Ranges,
    now: Instant,
) -> IdentityPlan:
    """Return what to grant and what to list, towards the target."""
    by_name = {site.name: site for site in sites.all}
    held = {site.name: RegionIdentities() for site in sites.all}
    for region, ordinals in rights:
        mine = without(ordinals, apart)
        held[region], again = _sorted(state, workload, mine, by_name[region], now)
        sites.again += again
    wanted = without(((0, workload.spec.replicas),), apart)
    for site in sites.all:
        site.place.have = count_numbers(held[site.name].kept)
    targets = target_counts(state, workload, sites, count_numbers(wanted), now)
    free = wanted
    for one in held.values():
        for known in (one.kept, one.returning, one.lapsed):
            free = without(free, known)
    _take_back(sites.all, held, targets)
    grants = _granted(workload.meta.uid, sites.all, held, targets, free)
    _let_go(workload, sites.all, held, targets, count_numbers(free))
    listed = {site.name: _listed(site, held[site.name]) for site in sites.all}
    involved = {site.name: _is_involved(site, held[site.name], targets.get(site.name, 0)) for site in sites.all}
    return IdentityPlan(grants, listed, involved)


def _is_involved(site: CandidateRegion, held: RegionIdentities, wanted: int) -> bool:
    """Check whether a region needs an assignment, even an empty one.

    A new one must list identities or request some back. A lost region keeps its own until it returns.
    """
    if site.old is None:
        return held.rights > count_numbers(held.kept) + count_numbers(held.lapsed)
    waits = site.counts and site.is_lost
    return bool(waits or held.rights or wanted or site.old.ordinals or site.old.returning)


def _sorted(
    state: PlatformState, workload: Workload, ordinals: Ranges, site: CandidateRegion, now: Instant
) -> tuple[RegionIdentities, list[Instant]]:
    """Sort a region's identities, and return when its leases will certainly have expired, if that matters."""
    held, inside = RegionIdentities(rights=count_numbers(ordinals)), common(ordinals, ((0, workload.spec.replicas),))
    if inside and _may_lapse(workload, site):
        until = lease_expired_for_sure_at(state, workload.meta.uid, site.name, inside)
        if until <= now:
            held.lapsed = inside
            return held, []
        again = [until]
    else:
        again = []
    asked = site.old.returning if site.old is not None else ()
    held.returning = inside if site.is_ended else common(inside, asked)
    held.kept = without(inside, held.returning)
    return held, again


def _may_lapse(workload: Workload, site: CandidateRegion) -> bool:
    """Check whether a lease may be taken from a lost region. With a recovery budget, failover does that."""
    return site.is_lost and workload.spec.failover is FailoverMode.LEASED and not workload.spec.recovery.budget


def _take_back(sites: Sequence[CandidateRegion], held: dict[str, RegionIdentities], targets: dict[str, int]) -> None:
    """Keep identities that were requested back, if the region is to have them after all."""
    for site in sites:
        mine = held[site.name]
        if site.place.takes:
            again = first_of(mine.returning, targets.get(site.name, 0) - count_numbers(mine.kept))
            mine.kept, mine.returning = with_numbers(mine.kept, again), without(mine.returning, again)


def _granted(
    uid: Revision,
    sites: Sequence[CandidateRegion],
    held: dict[str, RegionIdentities],
    targets: dict[str, int],
    free: Ranges,
) -> list[GrantRight]:
    """Grant free identities to the regions that lack most, neighboring ones to one region."""
    lacking = {s.name: targets.get(s.name, 0) - count_numbers(held[s.name].kept) for s in sites if s.place.takes}
    order = {site.name: (site.place.rank, site.place.turn) for site in sites}
    for one in held.values():
        free = with_numbers(free, one.lapsed)
    found = []
    counts = levelled({name: lacking[name] for name in sorted(lacking, key=order.__getitem__)}, count_numbers(free))
    for name, count in counts.items():
        mine = first_of(free, count)
        free = without(free, mine)
        found += [GrantRight(uid, part, name) for part in split_ranges(mine, RIGHTS_MAX)]
    return found


def levelled(lacking: dict[str, int], count: int) -> dict[str, int]:
    """Distribute a count so that the largest lack becomes as small as possible; the first ones win ties."""
    given = dict.fromkeys(lacking, 0)
    levels = sorted({lack for lack in lacking.values() if lack > 0} | {0}, reverse=True)
    for level, next_level in pairwise(levels):
        names = [name for name, lack in lacking.items() if lack >= level]
        step = min(count, len(names) * (level - next_level))
        for place, name in enumerate(names):
            given[name] += step // len(names) + (place < step % len(names))
        count -= step
    return given


def _let_go(
    workload: Workload,
    sites: Sequence[CandidateRegion],
    held: dict[str, RegionIdentities],
    targets: dict[str, int],
    free: int,
) -> None:
    """Request surplus identities back from healthy regions, the last ones first, a few at a time."""
    most = max(1, workload.spec.disruption_max)
    strict = any(site.seen is not None for site in sites)
    down = {site.name: _down(site, held[site.name], strict=strict) for site in sites}
    moving = free + sum(count_numbers(one.returning) for one in held.values())
    for site in sites:
        mine = held[site.name]
        over = count_numbers(mine.kept) - targets.get(site.name, 0)
        if site.place.floor:
            waiting = moving + sum(count for name, count in down.items() if name != site.name)
            over = min(over, most - waiting) if site.is_healthy else 0
        gone = last_of(mine.kept, over)
        moving += count_numbers(gone)
        mine.kept, mine.returning = without(mine.kept, gone), with_numbers(mine.returning, gone)


def _down(site: CandidateRegion, held: RegionIdentities, *, strict: bool) -> int:
    """Return how many identities do not run in a region yet. Before any region's first report, listed ones count as
    running."""
    if site.is_lost:
        return 0
    if strict:
        return max(0, count_numbers(held.kept) - site.place.ready)
    return count_numbers(without(held.kept, site.old.ordinals if site.old is not None else ()))


def _listed(site: CandidateRegion, held: RegionIdentities) -> Ranges:
    """Return the ordinals that a region's assignment lists. Nothing is added to an unhealthy or forbidden region."""
    kept = with_numbers(held.kept, held.lapsed)
    if site.is_healthy and site.allowed:
        return kept
    return common(kept, site.old.ordinals) if site.old is not None else ()
