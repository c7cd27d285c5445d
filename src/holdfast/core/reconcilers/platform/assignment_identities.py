"""Which region is to run which identity of an exclusive workload (RULES 6).

    free ──GrantRight──▶ held ──Assign lists it──▶ runs ──Assign without it──▶ returning ──the region releases──▶ free

An identity stays where its right is. To move it is to ask for it back; only once nobody holds it, it is granted anew.
One that waits somewhere is down: no more of them move at a time than may be disrupted.

All of it is arithmetic on runs: what it costs grows with the regions and with how scattered identities are, and not
with how many there are. A region is given neighbours, so that they stay few.
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
    """The identities of one region: those it keeps, those it is to give back, and how many of all kinds it holds.

    `lapsed`: those of a lost region whose lease has run out for certain.
    """

    kept: Ranges = ()
    returning: Ranges = ()
    lapsed: Ranges = ()
    rights: int = 0


class IdentityPlan(Struct):
    """What to do about identities: rights to grant, and what each region is to list."""

    grants: list[GrantRight]
    listed: dict[str, Ranges]
    #: Who has more to do with it than what it lists: it holds, is to give back, or is to have some.
    involved: dict[str, bool]


def recovered(state: PlatformState, workload: Workload, mine: Sequence[Assignment], rights: Sequence[HeldIn]) -> Ranges:
    """Identities that failover has: those its assignments list, and, while a region is lost, those it has been granted
    where it stands by and has yet to list."""
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
    """What to grant and what to list, towards the split that is due."""
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
    """A region that has no assignment is told of one only to list something, or to be asked for something back. One
    that is lost keeps it for when it comes back, empty or not."""
    if site.old is None:
        return held.rights > count_numbers(held.kept) + count_numbers(held.lapsed)
    waits = site.counts and site.is_lost
    return bool(waits or held.rights or wanted or site.old.ordinals or site.old.returning)


def _sorted(
    state: PlatformState, workload: Workload, ordinals: Ranges, site: CandidateRegion, now: Instant
) -> tuple[RegionIdentities, list[Instant]]:
    """What a region holds, put where it belongs; and when its leases will have run out, if that matters."""
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
    """With a recovery budget, failover moves it."""
    return site.is_lost and workload.spec.failover is FailoverMode.LEASED and not workload.spec.recovery.budget


def _take_back(sites: Sequence[CandidateRegion], held: dict[str, RegionIdentities], targets: dict[str, int]) -> None:
    """What a region was asked to give back, and is to have after all, it keeps."""
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
    """What nobody can act on goes where most are lacking, neighbours to one region."""
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
    """How many of so many each gets, so that those that lack most lack as little as can be; the first ones first."""
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
    """Ask for identities back, the last ones first, of regions that have too many and are heard: few at a time."""
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
    """How many of a region's identities do not run there yet. Where no region ever said how it fares, those count as
    running that are listed."""
    if site.is_lost:
        return 0
    if strict:
        return max(0, count_numbers(held.kept) - site.place.ready)
    return count_numbers(without(held.kept, site.old.ordinals if site.old is not None else ()))


def _listed(site: CandidateRegion, held: RegionIdentities) -> Ranges:
    """What the region's assignment lists. Nothing is added where nothing new may go."""
    kept = with_numbers(held.kept, held.lapsed)
    if site.is_healthy and site.allowed:
        return kept
    return common(kept, site.old.ordinals) if site.old is not None else ()
