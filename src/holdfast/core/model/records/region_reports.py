"""Reports of a region to the platform: capacity and free capacity, issues, and the progress of its workloads.

A summary is a hint: it ranks regions and never authorizes. A free total alone could consist of pieces too small for any
slot. So a summary also lists the largest empty nodes and free pieces of each pool and label set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import Resources, total
from holdfast.core.model.values.structs import Instant, Revision, Row


class TemplateCounts(Row, frozen=True):
    """Progress of one template's replicas: bound, ready, serving. Each count includes the later ones.

    A failed replica that its agent will restart counts as bound. For batch work, `done` have succeeded and `failed`
    have failed for good, the last of them for the cause `why`; no other count includes these.
    """

    template: str
    bound: int
    ready: int
    serving: int
    done: int = 0
    failed: int = 0
    why: str = ""


class Waiting(Row, frozen=True):
    """Why replicas are pending: code of the reason, count, start, and the reason in words."""

    code: str
    count: int
    since: Instant
    message: str = ""


class Failing(Row, frozen=True):
    """Failing replicas: code and count, and the node and the agent's report of one of them."""

    code: str
    count: int
    node: str = ""
    detail: str = ""


class WorkloadReport(Row, frozen=True):
    """A region's report on a workload: the generation it acts on, progress, pending reasons and failures.

    Without counts and pending reasons, the region has nothing of the workload.
    """

    workload: Revision
    generation: int
    counts: tuple[TemplateCounts, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    failing: tuple[Failing, ...] = ()


def finished_in(seen: WorkloadReport | None, template: str) -> int:
    """Return how many replicas of a template are finished in a region's last report: succeeded, or failed for good."""
    counts = seen.counts if seen is not None else ()
    return sum(count.done + count.failed for count in counts if count.template == template)


class ObservedWorkload(Row, frozen=True):
    """A region's last report on a workload, with the position in its own log and the time there. Both are compared only
    with reports of the same `session`."""

    region: str
    position: Revision
    seen: WorkloadReport
    at: Instant = 0
    session: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}


def still_requested(observed: Iterable[ObservedWorkload], assignment: Assignment) -> dict[str, int]:
    """Return the requested replicas of an assignment by template, without those its region has reported as finished."""
    counts = {share.template: share.count for share in assignment.shares}
    if not assignment.batch or assignment.purpose is not AssignmentPurpose.SERVING:
        return counts
    seen = next((one.seen for one in observed if one.region == assignment.region), None)
    return {template: max(0, count - finished_in(seen, template)) for template, count in counts.items()}


class Nodes(Row, frozen=True):
    """The nodes of one pool and label set that accept work: their number, capacity and free capacity.

    The lists `largest` and `largest_free` have the empty nodes, and the free pieces that no other piece covers. Long
    lists are merged upward: a slot that fits into none of the entries fits nowhere, but not vice versa. `models` are
    GPU models, `capabilities` what the agents enforce between tenants.
    """

    pool: str
    labels: Labels
    taints: tuple[Taint, ...]
    tenancy: tuple[str, ...]
    models: tuple[str, ...]
    count: int
    capacity: Resources
    free: Resources
    largest: tuple[Resources, ...]
    largest_free: tuple[Resources, ...]
    capabilities: Capabilities = ()

    ADDED: ClassVar[Mapping[str, int]] = {"capabilities": 2}


class Trouble(Row, frozen=True):
    """An issue that the region reports: kind, count and start."""

    kind: str
    count: int
    since: Instant
    message: str = ""


class RegionSummary(Row, frozen=True):
    """A region in short. `uses` are the amounts charged in the region, by account."""

    nodes: tuple[Nodes, ...] = ()
    uses: tuple[tuple[str, Resources], ...] = ()
    troubles: tuple[Trouble, ...] = ()


class StoredSummary(Row, frozen=True):
    """A region's last summary: position in its own log, time of receipt by the platform, and session."""

    region: str
    position: Revision
    at: Instant
    summary: RegionSummary
    session: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}


class Overflow(Row, frozen=True):
    """Replicas that a region has offered back: until `until` it accepts at most `most` of the workload.

    The replicas count as moved in the window that began at `window`.
    """

    workload: Revision
    region: str
    most: int
    moved: int
    window: Instant
    until: Instant


class Rebalance(Row, frozen=True):
    """How many replicas a region has offered back since the current window began."""

    region: str
    since: Instant
    moved: int


def capacity_of(summary: RegionSummary) -> Resources:
    """Return the capacity of all nodes together."""
    return total(nodes.capacity for nodes in summary.nodes)
