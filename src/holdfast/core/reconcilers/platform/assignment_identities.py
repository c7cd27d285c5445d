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
from holdfast.core.model.objects.workloads import Failover, Workload
from holdfast.core.model.records.assignments import Assignment, Purpose, Stage
from holdfast.core.model.values.limits import RIGHTS_MAX
from holdfast.core.model.values.ranges import Runs, common, first_of, in_parts, joined, last_of, size, without
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform.commands import GrantRight
from holdfast.core.platform.queries.identities import lapsed_at
from holdfast.core.platform.state.tables import HeldIn, PlatformState
from holdfast.core.reconcilers.platform.assignment_candidates import Site, Sites, aimed


class Held(Struct):
    """The identities of one region: those it keeps, those it is to give back, and how many of all kinds it holds.

    `lapsed`: those of a lost region whose lease has run out for certain.
    """

    kept: Runs = ()
    returning: Runs = ()
    lapsed: Runs = ()
    rights: int = 0


class Identities(Struct):
    """What to do about identities: rights to grant, and what each region is to list."""

    grants: list[GrantRight]
    listed: dict[str, Runs]
    #: Who has more to do with it than what it lists: it holds, is to give back, or is to have some.
    involved: dict[str, bool]


def recovered(state: PlatformState, workload: Workload, mine: Sequence[Assignment], rights: Sequence[HeldIn]) -> Runs:
    """Identities that failover has: those its assignments list, and, while a region is lost, those it has been granted
    where it stands by and has yet to list."""
    theirs = [one for one in mine if one.purpose is Purpose.RECOVERY]
    if not theirs:
        return ()
    found = _all_of(theirs)
    serving = [one for one in mine if one.purpose is Purpose.SERVING]
    if any(state.regions[one.region].status.health is RegionHealth.LOST for one in serving):
        ready, ours = [one.region for one in theirs if one.stage is not Stage.ENDED], _all_of(serving)
        for region, ordinals in rights:
            found = joined(found, without(ordinals, ours)) if region in ready else found
    return found


def _all_of(assignments: Sequence[Assignment]) -> Runs:
    found: Runs = ()
    for one in assignments:
        found = joined(found, (*one.ordinals, *one.returning))
    return found


def identities(
    state: PlatformState, workload: Workload, sites: Sites, rights: Sequence[HeldIn], apart: Runs, now: Instant
) -> Identities:
    """What to grant and what to list, towards the split that is due."""
    by_name = {site.name: site for site in sites.all}
    held = {site.name: Held() for site in sites.all}
    for region, ordinals in rights:
        mine = without(ordinals, apart)
        held[region], again = _sorted(state, workload, mine, by_name[region], now)
        sites.again += again
    wanted = without(((0, workload.spec.replicas),), apart)
    for site in sites.all:
        site.place.have = size(held[site.name].kept)
    targets = aimed(state, workload, sites, size(wanted), now)
    free = wanted
    for one in held.values():
        for known in (one.kept, one.returning, one.lapsed):
            free = without(free, known)
    _take_back(sites.all, held, targets)
    grants = _granted(workload.meta.uid, sites.all, held, targets, free)
    _let_go(workload, sites.all, held, targets, size(free))
    listed = {site.name: _listed(site, held[site.name]) for site in sites.all}
    involved = {site.name: _is_involved(site, held[site.name], targets.get(site.name, 0)) for site in sites.all}
    return Identities(grants, listed, involved)


def _is_involved(site: Site, held: Held, wanted: int) -> bool:
    """A region that has no assignment is told of one only to list something, or to be asked for something back. One
    that is lost keeps it for when it comes back, empty or not."""
    if site.old is None:
        return held.rights > size(held.kept) + size(held.lapsed)
    waits = site.counts and site.is_lost
    return bool(waits or held.rights or wanted or site.old.ordinals or site.old.returning)


def _sorted(
    state: PlatformState, workload: Workload, ordinals: Runs, site: Site, now: Instant
) -> tuple[Held, list[Instant]]:
    """What a region holds, put where it belongs; and when its leases will have run out, if that matters."""
    held, inside = Held(rights=size(ordinals)), common(ordinals, ((0, workload.spec.replicas),))
    if inside and _may_lapse(workload, site):
        until = lapsed_at(state, workload.meta.uid, site.name, inside)
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


def _may_lapse(workload: Workload, site: Site) -> bool:
    """With a recovery budget, failover moves it."""
    return site.is_lost and workload.spec.failover is Failover.LEASED and not workload.spec.recovery.budget


def _take_back(sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int]) -> None:
    """What a region was asked to give back, and is to have after all, it keeps."""
    for site in sites:
        mine = held[site.name]
        if site.place.takes:
            again = first_of(mine.returning, targets.get(site.name, 0) - size(mine.kept))
            mine.kept, mine.returning = joined(mine.kept, again), without(mine.returning, again)


def _granted(
    uid: Revision, sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int], free: Runs
) -> list[GrantRight]:
    """What nobody can act on goes where most are lacking, neighbours to one region."""
    lacking = {s.name: targets.get(s.name, 0) - size(held[s.name].kept) for s in sites if s.place.takes}
    order = {site.name: (site.place.rank, site.place.turn) for site in sites}
    for one in held.values():
        free = joined(free, one.lapsed)
    found = []
    counts = levelled({name: lacking[name] for name in sorted(lacking, key=order.__getitem__)}, size(free))
    for name, count in counts.items():
        mine = first_of(free, count)
        free = without(free, mine)
        found += [GrantRight(uid, part, name) for part in in_parts(mine, RIGHTS_MAX)]
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
    workload: Workload, sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int], free: int
) -> None:
    """Ask for identities back, the last ones first, of regions that have too many and are heard: few at a time."""
    most = max(1, workload.spec.disruption_max)
    strict = any(site.seen is not None for site in sites)
    down = {site.name: _down(site, held[site.name], strict=strict) for site in sites}
    moving = free + sum(size(one.returning) for one in held.values())
    for site in sites:
        mine = held[site.name]
        over = size(mine.kept) - targets.get(site.name, 0)
        if site.place.floor:
            waiting = moving + sum(count for name, count in down.items() if name != site.name)
            over = min(over, most - waiting) if site.is_healthy else 0
        gone = last_of(mine.kept, over)
        moving += size(gone)
        mine.kept, mine.returning = without(mine.kept, gone), joined(mine.returning, gone)


def _down(site: Site, held: Held, *, strict: bool) -> int:
    """How many of a region's identities do not run there yet. Where no region ever said how it fares, those count as
    running that are listed."""
    if site.is_lost:
        return 0
    if strict:
        return max(0, size(held.kept) - site.place.ready)
    return size(without(held.kept, site.old.ordinals if site.old is not None else ()))


def _listed(site: Site, held: Held) -> Runs:
    """What the region's assignment lists. Nothing is added where nothing new may go."""
    kept = joined(held.kept, held.lapsed)
    if site.is_healthy and site.allowed:
        return kept
    return common(kept, site.old.ordinals) if site.old is not None else ()
