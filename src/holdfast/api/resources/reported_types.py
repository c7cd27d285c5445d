"""Workloads and regions with what regions reported: a workload's progress by region, a region's summary; schedulers.

It is computed for each read and stored in no object. A summary has the charge of each account. Accounts of tenants are
added up here, since every caller may read a region.
"""

from __future__ import annotations

from typing import Any

from holdfast.api.resources.tables import view_from
from holdfast.core.model.objects import topology, workloads
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.region_reports import Failing, Nodes, StoredSummary, Trouble, Waiting
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources, add
from holdfast.core.model.values.structs import Document, Duration, Instant
from holdfast.core.platform.state.lookups import assignments_of
from holdfast.core.platform.state.tables import PlatformState

#: Kinds of accounts that belong to a tenant.
_OF_TENANTS = ("quota", "reclaimable", "emergency")


class WorkloadInRegionView(Document, frozen=True):
    """One template of a workload in one region: assigned replicas, and what the region last reported.

    The region acts on `generation` and reported last at `reportedAt`. `waiting` and `failing` are shown with the
    region's first template, since regions do not report them by template.
    """

    region: str
    template: str
    assigned: int = 0
    bound: int = 0
    ready: int = 0
    serving: int = 0
    done: int = 0
    failed: int = 0
    generation: int = 0
    waiting: tuple[Waiting, ...] = ()
    reported_at: Instant = 0
    failing: tuple[Failing, ...] = ()


class WorkloadStatusView(workloads.WorkloadStatus, frozen=True):
    """Progress as regions report it: the sum, and each region."""

    regions: tuple[WorkloadInRegionView, ...] = ()


class WorkloadView(Document, frozen=True, tag="Workload"):
    """A workload, written by its tenant. It is removed when every region has released it."""

    meta: Meta
    spec: workloads.WorkloadSpec
    status: WorkloadStatusView = WorkloadStatusView()


class RegionSummaryView(Document, frozen=True):
    """A region's last report about itself, at the time `at`: nodes by pool and label set, charges by account, and
    issues. Accounts of tenants are added up by kind."""

    at: Instant
    nodes: tuple[Nodes, ...] = ()
    uses: tuple[tuple[str, Resources], ...] = ()
    issues: tuple[Trouble, ...] = ()


class RegionStatusView(topology.RegionStatus, frozen=True):
    """The platform's state of a region, and the region's last summary."""

    summary: RegionSummaryView | None = None


class RegionView(Document, frozen=True, tag="Region"):
    """A region. An operator writes it; the link sets its health, and an operator declares it lost or retired."""

    meta: Meta
    spec: topology.RegionSpec
    status: RegionStatusView = RegionStatusView()


class SchedulerSpec(Document, frozen=True):
    """Where a scheduler runs: the leader, if it is `embedded`, or another machine."""

    where: str
    embedded: bool = False


class SchedulerStatus(Document, frozen=True):
    """A scheduler's last minute, as the leader answered its proposals: slots placed, and refused ones by reason.

    `viewAge` is the age of its view when it was last heard, at `heardAt`. Rates and conflicts per placement are
    decimal numbers; without a placement, conflicts are not divided. `placedTotal` is of the leader's term.
    """

    heard_at: Instant
    last_cycle: Instant
    view_age: Duration
    placed: int
    placed_total: int
    placed_per_second: str
    conflicts_per_placement: str
    conflict_reasons: tuple[str, ...] = ()


class LiveSchedulerView(Document, frozen=True, tag="Scheduler"):
    """A live scheduler of a region. It is soft state of the region's leader: no log contains it."""

    meta: Meta
    spec: SchedulerSpec
    status: SchedulerStatus


#: By kind: the struct that is shown in place of the written one.
VIEWS_BY_KIND: dict[str, type[Document]] = {
    "Workload": WorkloadView, "Region": RegionView, "Scheduler": LiveSchedulerView,
}  # fmt: skip


def workload_view(state: PlatformState, name: str, key: Any, row: workloads.Workload) -> WorkloadView:
    """Return a workload with its progress in each region."""
    status = view_from(WorkloadStatusView, row.status, regions=_in_regions(state, row))
    return WorkloadView(meta=row.meta, spec=row.spec, status=status)


def _in_regions(state: PlatformState, row: workloads.Workload) -> tuple[WorkloadInRegionView, ...]:
    uid = row.meta.uid
    assigned: dict[tuple[str, str], int] = {}
    for assignment in assignments_of(state, uid):
        for share in assignment.shares if assignment.stage is AssignmentStage.ACTIVE else ():
            place = (assignment.region, share.template)
            assigned[place] = assigned.get(place, 0) + share.count
    said = {one.region: one.seen for one in state.workload_reports.get(uid) or ()}
    counted = {(region, count.template): count for region, seen in said.items() for count in seen.counts}
    told_of = {region for region, _ in (*assigned, *counted)}
    waits = {region for region, seen in said.items() if seen.waiting or seen.failing}
    waiting_only = [(region, "") for region in waits if region not in told_of]
    found: list[WorkloadInRegionView] = []
    for region, template in sorted({*assigned, *counted, *waiting_only}):
        count, seen, known = counted.get((region, template)), said.get(region), state.regions.get(region)
        is_first = not found or found[-1].region != region
        found.append(
            WorkloadInRegionView(
                region=region,
                template=template,
                assigned=assigned.get((region, template), 0),
                bound=count.bound if count is not None else 0,
                ready=count.ready if count is not None else 0,
                serving=count.serving if count is not None else 0,
                done=count.done if count is not None else 0,
                failed=count.failed if count is not None else 0,
                generation=seen.generation if seen is not None else 0,
                waiting=seen.waiting if seen is not None and is_first else (),
                reported_at=known.status.heard_at if known is not None else 0,
                failing=seen.failing if seen is not None and is_first else (),
            )
        )
    return tuple(found)


def region_view(state: PlatformState, name: str, key: Any, row: topology.Region) -> RegionView:
    """Return a region with its last summary."""
    known = state.summaries.get(row.meta.name)
    summary = _summary(known) if known is not None else None
    return RegionView(meta=row.meta, spec=row.spec, status=view_from(RegionStatusView, row.status, summary=summary))


def _summary(known: StoredSummary) -> RegionSummaryView:
    uses: dict[str, Resources] = {}
    for account, charged in known.summary.uses:
        kind = account.partition("/")[0]
        name = kind if kind in _OF_TENANTS else account
        uses[name] = add(uses.get(name, ZERO), charged)
    shown = known.summary
    return RegionSummaryView(at=known.at, nodes=shown.nodes, uses=tuple(sorted(uses.items())), issues=shown.troubles)
