"""Events of the platform ledger.

Every event is a self-sufficient fact. A row with uid 0 is new: its uid becomes the revision of the event. Lists inside
an event are sorted, so an event has one encoding.

Size: one list of everything that can become true, in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import force_setattr

from holdfast.core.ledger.builtin.overrides import OverrideEnded, OverrideOpened
from holdfast.core.ledger.builtin.registry import BuiltinEvent
from holdfast.core.model.objects.policies import PolicyDocument, PolicyStage
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Template, Workload, WorkloadStatus
from holdfast.core.model.records.assignments import Assignment, HeldRight
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.records.grants import Grant
from holdfast.core.model.records.region_reports import Overflow, RegionSummary, WorkloadReport
from holdfast.core.model.values.metadata import Finalizer
from holdfast.core.model.values.ranges import Ordinals, ranges_of
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row
from holdfast.core.platform.commands import OperatorObject

# Objects


class ObjectStored(Row, frozen=True, tag="object-stored"):
    object: OperatorObject


class ObjectRemoved(Row, frozen=True, tag="object-removed"):
    kind: str
    name: str


class WorkloadStored(Row, frozen=True, tag="workload-stored"):
    workload: Workload


class WorkloadOf(Row, frozen=True):
    """A workload and its tenant, so that an event names both."""

    workload: Revision
    tenant: str


class DeletionBegun(Row, frozen=True, tag="deletion-begun"):
    """Deletion was requested by the sender of the command, at its time."""

    workload: Revision
    tenant: str
    finalizers: tuple[Finalizer, ...]


class FinalizersReleased(Row, frozen=True, tag="finalizers-released"):
    """One owner's finalizers on these workloads were released. Each workload has others left."""

    owner: str
    workloads: tuple[WorkloadOf, ...]


class WorkloadsRemoved(Row, frozen=True, tag="workloads-removed"):
    workloads: tuple[WorkloadOf, ...]


class TemplateStored(Row, frozen=True, tag="template-stored"):
    digest: str
    template: Template


class TemplatesForgotten(Row, frozen=True, tag="templates-forgotten"):
    """No workload names these templates any more."""

    digests: tuple[str, ...]


class TemplatesDropped(Row, frozen=True, tag="templates-dropped"):
    """A workload no longer names these templates, since it has named enough others. Other workloads may still name
    them."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    tenant: str
    digests: tuple[str, ...]


class StatusReported(Row, frozen=True, tag="status-reported"):
    """The present counts, and the conditions that changed. Other conditions stay."""

    workload: Revision
    tenant: str
    status: WorkloadStatus


# Assignments, grants and rights


class AssignmentStored(Row, frozen=True, tag="assignment-stored"):
    assignment: Assignment


class AssignmentOf(Row, frozen=True):
    """An assignment that is ended or removed, with its workload, tenant, region, and the replicas done of each
    template."""

    assignment: Revision
    workload: Revision
    tenant: str
    region: str
    done: tuple[tuple[str, int], ...] = ()


class AssignmentsRemoved(Row, frozen=True, tag="assignments-removed"):
    assignments: tuple[AssignmentOf, ...]


class AssignmentsEnded(Row, frozen=True, tag="assignments-ended"):
    """These assignments request no more replicas. Their other fields stay, so the event names them and does not repeat
    them."""

    SINCE: ClassVar[int] = 2

    assignments: tuple[AssignmentOf, ...]


class OfferedBack(Row, frozen=True, tag="offered-back"):
    overflow: Overflow


class GrantStored(Row, frozen=True, tag="grant-stored"):
    """A grant. `claimed`: its region holds more than this log ever offered, for example after a restore."""

    grant: Grant
    claimed: bool = False


class GrantsRemoved(Row, frozen=True, tag="grants-removed"):
    """Grants, by key: `region|account`."""

    grants: tuple[str, ...]


class GrantsForgotten(Row, frozen=True, tag="grants-forgotten"):
    """Grants of one region, by key `region|account`: the account is deleted, and nothing of it is granted.

    Later grants of that region have versions above `version`, since the region ignores versions that it has had.
    """

    SINCE: ClassVar[int] = 2

    grants: tuple[str, ...]
    version: int


class RightGranted(Row, frozen=True, tag="right-granted"):
    workload: Revision
    ordinal: int
    region: str


class RightsReleased(Row, frozen=True, tag="rights-released"):
    """Rights as they were held, and the evidence on which they are free."""

    rights: tuple[HeldRight, ...]
    evidence: str


class RightsGranted(Row, frozen=True, tag="rights-granted"):
    """Rights of one region to any number of identities of one workload."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    ordinals: Ordinals
    region: str

    def __post_init__(self) -> None:
        force_setattr(self, "ordinals", ranges_of(self.ordinals))


class RightsFreed(Row, frozen=True, tag="rights-freed"):
    """Rights of one region to identities of one workload, and the evidence on which they are free."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    ordinals: Ordinals
    region: str
    evidence: str

    def __post_init__(self) -> None:
        force_setattr(self, "ordinals", ranges_of(self.ordinals))


# Regions


class RegionJoined(Row, frozen=True, tag="region-joined"):
    """A region joined with a new log, from its beginning."""

    region: str
    log_id: str
    session: Revision
    health: RegionHealth
    address: str = ""
    session_lease: Duration = 0
    grace: Duration = 0
    fence_time: Duration = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session_lease": 2, "grace": 2, "fence_time": 2}


class RegionRejoined(Row, frozen=True, tag="region-rejoined"):
    """A region joined again with the same log, in another session or from another address."""

    region: str
    session: Revision
    address: str = ""
    session_lease: Duration = 0
    grace: Duration = 0
    fence_time: Duration = 0

    ADDED: ClassVar[Mapping[str, int]] = {"session_lease": 2, "grace": 2, "fence_time": 2}


class RegionAcknowledged(Row, frozen=True, tag="region-acknowledged"):
    region: str
    position: Revision
    cursor: Revision
    digest: str


class RegionBelieved(Row, frozen=True, tag="region-believed"):
    """The acknowledged position of the region's log, and the start of the digest there, no longer count."""

    SINCE: ClassVar[int] = 2

    region: str
    position: Revision
    digest: str


class RegionReported(Row, frozen=True, tag="region-reported"):
    """Reports about workloads that the region has assignments of, and its summary if that has changed."""

    region: str
    position: Revision
    seen: tuple[WorkloadReport, ...]
    summary: RegionSummary | None
    at: Instant = 0


class RegionJudged(Row, frozen=True, tag="region-judged"):
    region: str
    health: RegionHealth
    reason: str


class RegionRetired(Row, frozen=True, tag="region-retired"):
    """A region was retired, its log tombstoned. `log_id` is empty if it never joined; `unreleased` rows are released
    later."""

    ADDED: ClassVar[dict[str, int]] = {"unreleased": 2}

    region: str
    log_id: str
    reason: str
    unreleased: int = 0


class RetirementContinued(Row, frozen=True, tag="retirement-continued"):
    """One more part of what a retired region held was released; `unreleased` rows are left."""

    SINCE: ClassVar[int] = 2

    region: str
    unreleased: int


# Policy


class PolicyPublished(Row, frozen=True, tag="policy-published"):
    """A new policy revision. Its number is the revision of the event."""

    name: str
    document: PolicyDocument


class PoliciesDropped(Row, frozen=True, tag="policies-dropped"):
    """Policy revisions that are valid nowhere and replaced by newer ones of their name."""

    SINCE: ClassVar[int] = 2

    revisions: tuple[Revision, ...]


class PolicyStaged(Row, frozen=True, tag="policy-staged"):
    revision: Revision
    stage: PolicyStage


class ValidityStored(Row, frozen=True, tag="validity-stored"):
    region: str
    scope: str
    revision: Revision


class ValiditiesDropped(Row, frozen=True, tag="validities-dropped"):
    """Validities, by key `region|scope`: the region or the tenant was deleted."""

    validities: tuple[str, ...]


# Breaches of at-commit invariants


class BreachStored(Row, frozen=True, tag="breach-stored"):
    breach: Breach


class BreachClosed(Row, frozen=True, tag="breach-closed"):
    invariant: str
    key: str


PlatformEvent = (
    BuiltinEvent | OverrideOpened | OverrideEnded
    | ObjectStored | ObjectRemoved | WorkloadStored | DeletionBegun | FinalizersReleased | WorkloadsRemoved
    | TemplateStored | TemplatesForgotten | TemplatesDropped | StatusReported
    | AssignmentStored | AssignmentsEnded | AssignmentsRemoved | OfferedBack | GrantStored | GrantsRemoved
    | GrantsForgotten | RightGranted | RightsReleased | RightsGranted | RightsFreed
    | RegionJoined | RegionRejoined | RegionAcknowledged | RegionBelieved | RegionReported | RegionJudged
    | RegionRetired | RetirementContinued
    | PolicyPublished | PoliciesDropped | PolicyStaged | ValidityStored | ValiditiesDropped
    | BreachStored | BreachClosed
)  # fmt: skip
