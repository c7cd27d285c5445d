"""The facts of each candidate region of a workload, by which it is split.

Health is a hint: the ledger refuses what is not allowed. A suspect region keeps its replicas. A lost region whose
replicas are replaced is *left*: the others are split without it, and it continues if it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workloads import Workload, WorkloadSpec
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.breaches import PLATFORM_RESIDENCY
from holdfast.core.model.records.region_reports import WorkloadReport, finished_in
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.queries.feasibility import (
    capacity_for,
    could_ever_hold,
    is_candidate,
    members_needed,
    placement_allows,
)
from holdfast.core.platform.state.lookups import overflow_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.assignment_split import SplitRegion, first_index, is_settled, target_split

OVER_GRANT = Code.OVER_GRANT.value


class CandidateRegion(Struct):
    """A region. `old` is its assignment; `allowed`: rules let it hold the workload; `counts`: its replicas count
    towards the spec; `left`: it is lost, and others replace it. `over` finished units stay there and are not in
    `place`."""

    region: Region
    old: Assignment | None
    place: SplitRegion
    seen: WorkloadReport | None
    allowed: bool
    counts: bool
    left: bool
    over: int = 0

    @property
    def name(self) -> str:
        """The region's name."""
        return self.place.name

    @property
    def is_healthy(self) -> bool:
        """Whether it may get more."""
        return self.region.status.health is RegionHealth.HEALTHY

    @property
    def is_lost(self) -> bool:
        """Whether its present state is unknown."""
        return self.region.status.health is RegionHealth.LOST

    @property
    def is_ended(self) -> bool:
        """Whether it must release an ended assignment before it can get another."""
        return self.old is not None and self.old.stage is AssignmentStage.ENDED


class CandidateRegions(Struct):
    """All candidate regions by name, and the times at which their facts change."""

    all: list[CandidateRegion]
    again: list[Instant]

    def counting(self) -> list[CandidateRegion]:
        """Return those whose replicas count towards the spec."""
        return [site for site in self.all if site.counts]


def candidate_regions_of(
    state: PlatformState, workload: Workload, mine: Sequence[Assignment], holders: Iterable[str], now: Instant
) -> CandidateRegions:
    """Return every region that the workload may use, that has an assignment, or that holds a right."""
    spec, uid = workload.spec, workload.meta.uid
    serving = {one.region: one for one in mine if one.purpose is AssignmentPurpose.SERVING}
    seen = {one.region: one.seen for one in state.workload_reports.get(uid) or ()}
    weights, digest = dict(spec.placement.weights), template_digest(spec.template) if spec.batch else ""
    known = state.regions.items()
    first = first_index(uid, len(known))
    found = CandidateRegions([], [])
    for index, (name, region) in enumerate(known):
        old, allowed = serving.get(name), is_candidate(spec, region)
        if allowed or old is not None or name in holders:
            weight = weights.get(name, 0) if weights else 1
            site = _site(spec, region, old, seen.get(name), digest, allowed=allowed, weight=weight)
            site.place.turn = (index - first) % len(known)
            found.all.append(site)
            _apply_overflow(state, workload, site, found.again, now)
    _apply_residency_deadline(state, uid, found, spec, now)
    return found


def _site(
    spec: WorkloadSpec,
    region: Region,
    old: Assignment | None,
    seen: WorkloadReport | None,
    digest: str,
    *,
    allowed: bool,
    weight: int,
) -> CandidateRegion:
    health, is_active = region.status.health, old is not None and old.stage is AssignmentStage.ACTIVE
    is_lost = health is RegionHealth.LOST
    belongs = allowed and weight > 0
    left = belongs and is_lost and not spec.exclusive and not spec.recovery.budget
    have = sum(share.count for share in old.shares) // spec.unit if old is not None and is_active else 0
    over = min(have, finished_in(seen, digest) // spec.unit) if digest else 0
    ready = sum(one.ready for one in seen.counts) if seen is not None and (belongs or not is_lost) else 0
    place = SplitRegion(
        name=region.meta.name,
        have=have - over,
        ready=ready // spec.unit,
        partly=-(-ready // spec.unit) - ready // spec.unit,
        weight=weight if belongs else 0,
        rank=_rank(spec, region) if spec.placement.latency else 0,
        takes=belongs and health is RegionHealth.HEALTHY and (old is None or is_active),
        shaky=health is RegionHealth.SUSPECT,
    )
    return CandidateRegion(region, old, place, seen, allowed, belongs and not left, left, over)


def _rank(spec: WorkloadSpec, region: Region) -> int:
    """Return how many latency targets a region misses. One without a known latency is missed."""
    known = dict(region.spec.latencies)
    targets = [rule for rule in spec.placement.latency if rule.target]
    return sum(known.get(rule.client, rule.target + 1) > rule.target for rule in targets)


def _apply_overflow(
    state: PlatformState, workload: Workload, site: CandidateRegion, again: list[Instant], now: Instant
) -> None:
    """Cap a region at what it can hold, while its offer to give replicas back lasts."""
    overflow = overflow_of(state, workload.meta.uid, site.region.meta.name)
    if overflow is not None and now < overflow.until:
        place = site.place
        place.strained = True
        place.cap = max(0, overflow.most // workload.spec.unit - site.over)
        again.append(overflow.until)


def _apply_residency_deadline(
    state: PlatformState, uid: int, found: CandidateRegions, spec: WorkloadSpec, now: Instant
) -> None:
    """After the breach deadline, remove replicas from forbidden regions, ready elsewhere or not."""
    misplaced = [site for site in found.all if not site.allowed and not placement_allows(spec, site.region)]
    breach = state.breaches.get((PLATFORM_RESIDENCY, str(uid))) if misplaced else None
    if breach is None:
        return
    if now < breach.deadline:
        found.again.append(breach.deadline)
        return
    for site in misplaced:
        site.place.floor = 0


def target_counts(
    state: PlatformState, workload: Workload, sites: CandidateRegions, replicas: int, now: Instant
) -> dict[str, int]:
    """Return the target count of each region that counts, in units.

    Free capacity is examined only if something is to change, or an assigned replica is not bound. A workload that is
    short of capacity or waits is requeued. Summaries do not trigger that: they arrive every second and concern every
    workload.
    """
    counting, primary = sites.counting(), workload.spec.placement.primary
    places = [site.place for site in counting]
    if not counting:
        return {}
    unit = workload.spec.unit
    waiting = any(site.place.have > bound(site.seen) // unit for site in counting)
    stays = workload.spec.batch  # moving a run means starting it again
    if not waiting and is_settled(places, replicas, primary, stays=stays):
        return {place.name: place.have for place in places}
    is_told = any(site.seen is not None and site.seen.waiting for site in counting)
    if _find_capacity(state, workload, counting) or is_told:
        sites.again.append(now + state.info.settings.rebalance_window)
    counts = target_split(places, replicas, primary, stays=stays)
    return {place.name: count for place, count in zip(places, counts, strict=True)}


def _find_capacity(state: PlatformState, workload: Workload, sites: Sequence[CandidateRegion]) -> bool:
    """Fill in each region's free capacity, and return whether one is short of it.

    A region that can never hold a replica gets no more, but keeps the bound ones, as long as another region can.
    """
    tenant, template, most = workload.meta.tenant, workload.spec.template, max(1, workload.spec.replicas)
    could: dict[str, bool | None] = {}
    is_short, unit = False, workload.spec.unit
    for site in sites:
        told, place = state.summaries.get(site.name), site.place
        if told is None:
            could[site.name] = None
            continue
        could[site.name] = could_ever_hold(told.summary, template, tenant, members_needed(workload.spec))
        room = capacity_for(told.summary, template, tenant, most)
        if room is not None:
            # Replicas that are assigned and not bound will use part of the reported free capacity.
            place.room = max(0, room // unit - max(0, place.have - bound(site.seen) // unit))
            is_short = is_short or room < most
    _cap_unfit(sites, could, unit)
    return is_short


def _cap_unfit(sites: Sequence[CandidateRegion], could: Mapping[str, bool | None], unit: int) -> None:
    if any(site.place.takes and could[site.name] is not False for site in sites):
        for site in sites:
            if could[site.name] is False:
                site.place.cap = min(site.place.cap, site.place.have, bound(site.seen) // unit)


def bound(seen: WorkloadReport | None) -> int:
    """Return how many replicas a region has bound; 0 without a report."""
    return sum(one.bound for one in seen.counts) if seen is not None else 0


def waiting_for_quota(sites: Sequence[CandidateRegion], targets: Mapping[str, int]) -> int:
    """Return how many replicas wait for quota in regions where replicas stay or are added."""
    return sum(
        reason.count
        for site in sites
        if site.seen is not None and targets[site.name] >= site.place.have
        for reason in site.seen.waiting
        if reason.code == OVER_GRANT
    )
