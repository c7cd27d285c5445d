"""What a region tells the platform of itself: what its nodes have and lack, what is wrong, how its workloads fare.

A summary is a hint: by it regions are ranked and never authorised. It says more than "so much is free", since a free
total may lie in pieces that hold nothing: of each pool and label set also which empty nodes and pieces are largest.
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
    """How far the replicas of one template are: given to an agent, ready, serving. Each counts those after it, too.

    One that failed and is to be started again where it is has an agent, too.

    `done` are those of batch work that have succeeded, `failed` those that are given up, the last of them for `why`; no
    other count has them.
    """

    template: str
    bound: int
    ready: int
    serving: int
    done: int = 0
    failed: int = 0
    why: str = ""


class Waiting(Row, frozen=True):
    """Why replicas wait: the code of the reason, how many, since when, and the reason in words."""

    code: str
    count: int
    since: Instant
    message: str = ""


class Failing(Row, frozen=True):
    """What is wrong with replicas: the code of it, with how many; of one of them its node, and what its agent said."""

    code: str
    count: int
    node: str = ""
    detail: str = ""


class WorkloadReport(Row, frozen=True):
    """What a region says of a workload: the generation it acts on, how far it is, what keeps it, and what fails.

    Nothing counted and nothing waiting: nothing of it is there.
    """

    workload: Revision
    generation: int
    counts: tuple[TemplateCounts, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    failing: tuple[Failing, ...] = ()


def finished_in(seen: WorkloadReport | None, template: str) -> int:
    """How many of a template do not run any more in a region, by its last word: done, or failed for good."""
    counts = seen.counts if seen is not None else ()
    return sum(count.done + count.failed for count in counts if count.template == template)


class ObservedWorkload(Row, frozen=True):
    """What a region said last of a workload, as of a position in its own log, and then of a time there; both are held
    against what else it says in the same `session`, and in no later one."""

    region: str
    position: Revision
    seen: WorkloadReport
    at: Instant = 0
    session: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}


def still_requested(observed: Iterable[ObservedWorkload], assignment: Assignment) -> dict[str, int]:
    """By template: how many replicas an assignment asks for that are not over, as far as its region has told."""
    counts = {share.template: share.count for share in assignment.shares}
    if not assignment.batch or assignment.purpose is not AssignmentPurpose.SERVING:
        return counts
    seen = next((one.seen for one in observed if one.region == assignment.region), None)
    return {template: max(0, count - finished_in(seen, template)) for template, count in counts.items()}


class Nodes(Row, frozen=True):
    """The nodes of one pool and label set that take work: how many, what they have, what of it is free.

    `largest` are the empty nodes, `largest_free` the free pieces that no other one covers; where these are many, they
    are merged upward: what fits into none of them fits nowhere, not the other way round. `models` are GPU models,
    `capabilities` what their agents enforce between tenants.
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
    """Something that is not as it should be: of which kind, how often, since when."""

    kind: str
    count: int
    since: Instant
    message: str = ""


class RegionSummary(Row, frozen=True):
    """A region in short. `uses`: what each account is charged there, by account."""

    nodes: tuple[Nodes, ...] = ()
    uses: tuple[tuple[str, Resources], ...] = ()
    troubles: tuple[Trouble, ...] = ()


class StoredSummary(Row, frozen=True):
    """A region's last summary, as of a position in its own log, when the platform was told, and in which session."""

    region: str
    position: Revision
    at: Instant
    summary: RegionSummary
    session: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}


class Overflow(Row, frozen=True):
    """What a region could not place and has offered back: until `until` it takes at most `most` of that workload.

    `window` is when the window began in which that counts as moved.
    """

    workload: Revision
    region: str
    most: int
    moved: int
    window: Instant
    until: Instant


class Rebalance(Row, frozen=True):
    """How many replicas a region has offered back since its present window began."""

    region: str
    since: Instant
    moved: int


def capacity_of(summary: RegionSummary) -> Resources:
    """What all nodes together have."""
    return total(nodes.capacity for nodes in summary.nodes)


def free_in(summary: RegionSummary) -> Resources:
    """What of all nodes together is free."""
    return total(nodes.free for nodes in summary.nodes)
