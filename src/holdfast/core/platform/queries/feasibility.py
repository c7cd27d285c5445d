"""Whether a workload could ever fit, and roughly how much of it fits now, by the nodes that regions report.

A result of "never" must be certain. A summary is an upper bound: it merges many nodes into few rows, rounded up. A
replica that fits no row fits nowhere; one that fits may have to wait. Without reported nodes nothing is certain.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.objects.isolation import missing_capabilities
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.objects.workloads import Template, Workload, WorkloadSpec, tolerates
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus, ConditionValue
from holdfast.core.model.values.quantities import format_amount
from holdfast.core.model.values.resources import ZERO, Resources, amount_of, first_lacking, names_in
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.state.tables import PlatformState

FITS = "Fits"


class NearMiss(NamedTuple):
    """Why a template does not fit a row of nodes. Fewer gates `left` and less `lacks` are nearer."""

    left: int
    lacks: int
    texts: str


def could_ever_hold(summary: RegionSummary, template: Template, tenant: str, together: int = 1) -> bool | None:
    """Check whether some nodes, if empty, could hold this many replicas together; None: the region has reported no
    nodes."""
    told = [nodes for nodes in summary.nodes if nodes.count > 0]
    if not told:
        return None
    takes = [
        nodes for nodes in told if _shut(nodes, template, tenant) is None and _covers(nodes.largest, template.need)
    ]
    return bool(takes) and _held(takes, template, together) >= together


def _held(takes: list[Nodes], template: Template, most: int) -> int:
    """Return how many replicas the nodes hold if they are empty, at most `most`: an upper bound."""
    return min(most, sum(_times(nodes.capacity, template.need, most) for nodes in takes)) if most > 1 else 1


def capacity_for(summary: RegionSummary, template: Template, tenant: str, most: int) -> int | None:
    """Estimate how many more replicas fit now, up to `most`; None: the region has reported no nodes.

    It is 0 if no free piece is large enough, whatever their sum.
    """
    told = [nodes for nodes in summary.nodes if nodes.count > 0]
    if not told:
        return None
    room = 0
    for nodes in told:
        fits_a_piece = any(not first_lacking(template.need, ZERO, piece) for piece in nodes.largest_free)
        if fits_a_piece and _shut(nodes, template, tenant) is None:
            room += _times(nodes.free, template.need, most)
    return min(room, most)


def fits(state: PlatformState, workload: Workload) -> ConditionValue:
    """Return whether any region that the workload may use could hold a replica of it, or the members that a gang
    needs."""
    untold: list[str] = []
    nearest: tuple[int, int, str, str] | None = None
    template, tenant, together = workload.spec.template, workload.meta.tenant, members_needed(workload.spec)
    for name in candidate_regions(state, workload):
        known = state.summaries.get(name)
        could = could_ever_hold(known.summary, template, tenant, together) if known is not None else None
        if could:
            return ConditionValue(ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
        if known is None or could is None:
            untold.append(name)
            continue
        miss = _nearest(known.summary, template, tenant, name, together)
        found = (miss.left, miss.lacks, name, miss.texts)
        nearest = found if nearest is None else min(nearest, found)
    if nearest is None:
        return ConditionValue(ConditionStatus.UNKNOWN, ConditionReason.NOT_YET_KNOWN)
    if untold:
        return ConditionValue(
            ConditionStatus.UNKNOWN, ConditionReason.NOT_YET_KNOWN, f"{untold[0]} has not reported its nodes"
        )
    return ConditionValue(ConditionStatus.FALSE, ConditionReason.NEVER_FITS, nearest[3])


def fits_condition(state: PlatformState, workload: Workload, at: Instant) -> Condition:
    """Return the condition `Fits` of the workload's present generation."""
    fit = fits(state, workload)
    return Condition(
        type=FITS,
        status=fit.status,
        reason=fit.reason,
        message=fit.message,
        since=at,
        observed_generation=workload.meta.generation,
    )


def candidate_regions(state: PlatformState, workload: Workload) -> list[str]:
    """Return the regions that have joined, are not retired, and that the workload may use."""
    return [name for name, region in state.regions.items() if is_candidate(workload.spec, region)]


def is_candidate(spec: WorkloadSpec, region: Region) -> bool:
    """Check whether a region has joined, is not retired, and is allowed for the workload."""
    is_there = bool(region.status.log_id) and region.status.health is not RegionHealth.RETIRED
    return is_there and placement_allows(spec, region) and within_latency_limits(spec, region)


def _covers(pieces: tuple[Resources, ...], need: Resources) -> bool:
    """Check whether one of the pieces is large enough. Without reported sizes one might be."""
    return not pieces or any(not first_lacking(need, ZERO, piece) for piece in pieces)


def _shut(nodes: Nodes, template: Template, tenant: str) -> NearMiss | None:
    """Return which gate excludes these nodes, if any."""
    for taint in nodes.taints:
        if not tolerates(template, taint):
            return NearMiss(5, 0, f"have the taint {taint.key}={taint.value}, which it does not tolerate")
    if nodes.tenancy and tenant not in nodes.tenancy:
        return NearMiss(4, 0, "are kept for other tenants")
    lacks = missing_capabilities(template.isolation, nodes.capabilities)
    if lacks:
        return NearMiss(3, 0, f"do not isolate it as it requires: their agents do not enforce {', '.join(lacks)}")
    labels = dict(nodes.labels)
    for key, value in template.require:
        if labels.get(key) != value:
            return NearMiss(2, 0, f"do not have the label {key}={value}")
    if template.gpus and template.gpu_models and not any(model in template.gpu_models for model in nodes.models):
        return NearMiss(1, 0, f"have no GPU of the models {', '.join(template.gpu_models)}")
    return None


def _times(free: Resources, need: Resources, most: int) -> int:
    """Return how often a need fits into the free amount, as if that were one piece."""
    count = most
    for name in names_in(need):
        amount = amount_of(need, name)
        if amount > 0:
            count = min(count, amount_of(free, name) // amount)
    return max(count, 0)


def members_needed(spec: WorkloadSpec) -> int:
    """Return how many replicas must be placed together: the needed members of a gang, or 1."""
    return spec.gang.needed if spec.gang is not None else 1


def _nearest(summary: RegionSummary, template: Template, tenant: str, region: str, together: int) -> NearMiss:
    """Return the nearest miss among the nodes of a region."""
    if could_ever_hold(summary, template, tenant):
        takes = [nodes for nodes in summary.nodes if nodes.count > 0 and _shut(nodes, template, tenant) is None]
        held = _held(takes, template, together)
        return NearMiss(0, together - held, f"the nodes of {region} hold at most {held} of a gang's {together} members")
    misses = []
    for nodes in summary.nodes:
        if nodes.count <= 0:
            continue
        shut = _shut(nodes, template, tenant)
        if shut is not None:
            misses.append(NearMiss(shut.left, shut.lacks, f"the nodes of {region} in pool {nodes.pool} {shut.texts}"))
        else:
            misses.extend(_too_small(piece, template.need, region) for piece in nodes.largest)
    return min(misses)


def _too_small(piece: Resources, need: Resources, region: str) -> NearMiss:
    """Return the resource that a node lacks most, in thousandths of what it has."""
    short = []
    for name in names_in(need):
        wanted, there = amount_of(need, name), amount_of(piece, name)
        if wanted > there:
            short.append((wanted * 1000 // max(there, 1), name))
    over, name = max(short)
    asked, there = format_amount(name, amount_of(need, name)), amount_of(piece, name)
    has = format_amount(name, there) if there else "none"
    return NearMiss(0, over, f"needs {asked} {name}; the largest node of {region} has {has}")


def placement_allows(spec: WorkloadSpec, region: Region) -> bool:
    """Check whether placement and residency rules allow this region for the workload."""
    named, lawful = spec.placement.regions, spec.placement.jurisdictions
    return (not named or region.meta.name in named) and (not lawful or region.spec.jurisdiction in lawful)


def within_latency_limits(spec: WorkloadSpec, region: Region) -> bool:
    """Check whether a region is within every latency limit of a workload."""
    known = dict(region.spec.latencies)
    return all(known.get(rule.client, rule.limit + 1) <= rule.limit for rule in spec.placement.latency if rule.limit)
