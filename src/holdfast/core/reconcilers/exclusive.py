"""Which region is to run which identity of an exclusive workload (RULES 6).

    free ──GrantRight──▶ held ──Assign lists it──▶ runs ──Assign without it──▶ returning ──the region releases──▶ free

An identity stays where its right is. To move it is to ask for it back; only once nobody holds it, it is granted anew.
One that waits somewhere is down: no more of them move at a time than may be disrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.core.model.allotment import Assignment, Purpose, RightHeld, Stage
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.topology import RegionHealth
from holdfast.core.model.workload import Failover, Workload
from holdfast.core.platform.commands import GrantRight
from holdfast.core.platform.rights import lapsed_at
from holdfast.core.platform.state import PlatformState
from holdfast.core.reconcilers.sites import Site, Sites, aimed

Ordinals = list[int]


class Held(Struct):
    """The identities of one region: those it keeps, those it is to give back, and how many of all kinds it holds.

    `asked` are those it was asked for already. `lapsed`: those of a lost region whose lease has run out for certain.
    """

    asked: frozenset[int]
    kept: Ordinals
    returning: Ordinals
    lapsed: Ordinals
    rights: int = 0


class Identities(Struct):
    """What to do about identities: rights to grant, and what each region is to list."""

    grants: list[GrantRight]
    listed: dict[str, tuple[int, ...]]
    #: Who has more to do with it than what it lists: it holds, is to give back, or is to have some.
    involved: dict[str, bool]


def rights_of(state: PlatformState, uid: Revision) -> list[RightHeld]:
    """Who holds what of a workload, by ordinal."""
    return [state.rights[uid, ordinal] for ordinal in state.rights_of.get(uid) or ()]


def recovered(
    state: PlatformState, workload: Workload, mine: Sequence[Assignment], rights: Sequence[RightHeld]
) -> Ordinals:
    """Identities that failover has: those its assignments list, and, while a region is lost, those it has been granted
    where it stands by and has yet to list."""
    theirs = [one for one in mine if one.purpose is Purpose.RECOVERY]
    if not theirs:
        return []
    found = [ordinal for one in theirs for ordinal in (*one.ordinals, *one.returning)]
    serving = [one for one in mine if one.purpose is Purpose.SERVING]
    ours = [ordinal for one in serving for ordinal in (*one.ordinals, *one.returning)]
    if any(state.regions[one.region].status.health is RegionHealth.LOST for one in serving):
        ready = [one.region for one in theirs if one.stage is not Stage.ENDED]
        found += [one.ordinal for one in rights if one.region in ready and one.ordinal not in ours]
    return sorted(dict.fromkeys(found))


def identities(
    state: PlatformState, workload: Workload, sites: Sites, rights: Sequence[RightHeld], apart: Ordinals, now: Instant
) -> Identities:
    """What to grant and what to list, towards the split that is due."""
    spec = workload.spec
    by_name = {site.name: site for site in sites.all}
    held = {site.name: Held(_asked_back(site), [], [], []) for site in sites.all}
    for right in rights:
        if right.ordinal not in apart:
            sites.again += _sort(state, workload, right, held[right.region], by_name[right.region], now)
    wanted = [ordinal for ordinal in range(spec.replicas) if ordinal not in apart]
    for site in sites.all:
        site.place.have = len(held[site.name].kept)
    targets = aimed(state, workload, sites, len(wanted), now)
    known = {ordinal for one in held.values() for ordinal in (*one.kept, *one.returning, *one.lapsed)}
    free = [ordinal for ordinal in wanted if ordinal not in known]
    _take_back(sites.all, held, targets)
    grants = _granted(workload.meta.uid, sites.all, held, targets, free)
    _let_go(workload, sites.all, held, targets, len(free))
    listed = {site.name: _listed(site, held[site.name]) for site in sites.all}
    involved = {site.name: _is_involved(site, held[site.name], targets.get(site.name, 0)) for site in sites.all}
    return Identities(grants, listed, involved)


def _is_involved(site: Site, held: Held, wanted: int) -> bool:
    """A region that has no assignment is told of one only to list something, or to be asked for something back. One
    that is lost keeps it for when it comes back, empty or not."""
    if site.old is None:
        return held.rights > len(held.kept) + len(held.lapsed)
    waits = site.counts and site.is_lost
    return bool(waits or held.rights or wanted or site.old.ordinals or site.old.returning)


def _asked_back(site: Site) -> frozenset[int]:
    return frozenset(site.old.returning) if site.old is not None else frozenset()


def _sort(
    state: PlatformState, workload: Workload, right: RightHeld, held: Held, site: Site, now: Instant
) -> list[Instant]:
    """Put a right where it belongs among what its region holds; when its lease will have run out, if that matters."""
    held.rights += 1
    if right.ordinal >= workload.spec.replicas:
        return []
    until = lapsed_at(state, right, site.region.status.since) if _may_lapse(workload, site) else None
    if until is not None and until <= now:
        held.lapsed.append(right.ordinal)
    elif right.ordinal in held.asked or site.is_ended:
        held.returning.append(right.ordinal)
    else:
        held.kept.append(right.ordinal)
    return [until] if until is not None and until > now else []


def _may_lapse(workload: Workload, site: Site) -> bool:
    """With a recovery budget, failover moves it."""
    return site.is_lost and workload.spec.failover is Failover.LEASED and not workload.spec.recovery.budget


def _take_back(sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int]) -> None:
    """What a region was asked to give back, and is to have after all, it keeps."""
    for site in sites:
        mine = held[site.name]
        while mine.returning and site.place.takes and targets.get(site.name, 0) > len(mine.kept):
            mine.kept.append(mine.returning.pop(0))


def _granted(
    uid: Revision, sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int], free: Ordinals
) -> list[GrantRight]:
    """Each that nobody can act on goes where most are lacking."""
    lacking = {s.name: targets.get(s.name, 0) - len(held[s.name].kept) for s in sites if s.place.takes}
    order = {site.name: (site.place.rank, site.place.turn) for site in sites}
    found = []
    for ordinal in sorted((*free, *(ordinal for one in held.values() for ordinal in one.lapsed))):
        best = min(lacking, key=lambda name: (-lacking[name], order[name]), default=None)
        if best is None or lacking[best] <= 0:
            break
        lacking[best] -= 1
        found.append(GrantRight(uid, ordinal, best))
    return found


def _let_go(
    workload: Workload, sites: Sequence[Site], held: dict[str, Held], targets: dict[str, int], free: int
) -> None:
    """Ask for identities back, the last ones first, of regions that have too many and are heard: few at a time."""
    most = max(1, workload.spec.disruption_max)
    strict = any(site.seen is not None for site in sites)
    down = {site.name: _down(site, held[site.name], strict=strict) for site in sites}
    moving = free + sum(len(one.returning) for one in held.values())
    for site in sites:
        mine = held[site.name]
        over = len(mine.kept) - targets.get(site.name, 0)
        if site.place.floor:
            waiting = moving + sum(count for name, count in down.items() if name != site.name)
            over = min(over, most - waiting) if site.is_healthy else 0
        for _ in range(over):
            moving += 1
            mine.returning.append(mine.kept.pop())


def _down(site: Site, held: Held, *, strict: bool) -> int:
    """How many of a region's identities do not run there yet. Where no region ever said how it fares, those count as
    running that are listed."""
    if site.is_lost:
        return 0
    if strict:
        return max(0, len(held.kept) - site.place.ready)
    listed = frozenset(site.old.ordinals) if site.old is not None else frozenset()
    return sum(ordinal not in listed for ordinal in held.kept)


def _listed(site: Site, held: Held) -> tuple[int, ...]:
    """What the region's assignment lists. Nothing is added where nothing new may go."""
    kept = tuple(sorted((*held.kept, *held.lapsed)))
    if site.is_healthy and site.allowed:
        return kept
    before = frozenset(site.old.ordinals) if site.old is not None else frozenset()
    return tuple(ordinal for ordinal in kept if ordinal in before)
