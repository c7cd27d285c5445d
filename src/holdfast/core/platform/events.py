"""What can become true on the platform.

Every event is a self-sufficient fact. A row in it whose uid is 0 is new: it gets the revision of the event as its
uid, so that an object's uid is the place in the log where it began. Order inside an event is always sorted, so its
bytes are one.

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
    """A workload and whose it is. With it an event says by itself whom it concerns."""

    workload: Revision
    tenant: str


class DeletionBegun(Row, frozen=True, tag="deletion-begun"):
    """Asked for by the sender of the command, at its time."""

    workload: Revision
    tenant: str
    finalizers: tuple[Finalizer, ...]


class FinalizersReleased(Row, frozen=True, tag="finalizers-released"):
    """One owner's finalizers on these workloads, which have others left."""

    owner: str
    workloads: tuple[WorkloadOf, ...]


class WorkloadsRemoved(Row, frozen=True, tag="workloads-removed"):
    workloads: tuple[WorkloadOf, ...]


class TemplateStored(Row, frozen=True, tag="template-stored"):
    digest: str
    template: Template


class TemplatesForgotten(Row, frozen=True, tag="templates-forgotten"):
    """Nobody names these any more."""

    digests: tuple[str, ...]


class TemplatesDropped(Row, frozen=True, tag="templates-dropped"):
    """A workload has named so many others since that it keeps these no longer. Others may name them still."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    tenant: str
    digests: tuple[str, ...]


class StatusReported(Row, frozen=True, tag="status-reported"):
    """The counts as they are now, and of the conditions those that changed: the others stay."""

    workload: Revision
    tenant: str
    status: WorkloadStatus


# What regions are given


class AssignmentStored(Row, frozen=True, tag="assignment-stored"):
    assignment: Assignment


class AssignmentOf(Row, frozen=True):
    """An assignment that ends, or is no more: of what it was, whose, and where; and how many of each template it had
    done."""

    assignment: Revision
    workload: Revision
    tenant: str
    region: str
    done: tuple[tuple[str, int], ...] = ()


class AssignmentsRemoved(Row, frozen=True, tag="assignments-removed"):
    assignments: tuple[AssignmentOf, ...]


class AssignmentsEnded(Row, frozen=True, tag="assignments-ended"):
    """Nothing of these is wanted any more. Otherwise they stay as they are: what ends is named, not written anew."""

    SINCE: ClassVar[int] = 2

    assignments: tuple[AssignmentOf, ...]


class OfferedBack(Row, frozen=True, tag="offered-back"):
    overflow: Overflow


class GrantStored(Row, frozen=True, tag="grant-stored"):
    """`claimed`: its region holds more than was ever offered in this log, as after a restore to an older state."""

    grant: Grant
    claimed: bool = False


class GrantsRemoved(Row, frozen=True, tag="grants-removed"):
    """By key, `region|account`."""

    grants: tuple[str, ...]


class GrantsForgotten(Row, frozen=True, tag="grants-forgotten"):
    """Grants of one region by key, `region|account`: the account is gone, and nothing of it is lent.

    No later grant of that region has a version up to this one: it takes none that is not above what it has.
    """

    SINCE: ClassVar[int] = 2

    grants: tuple[str, ...]
    version: int


class RightGranted(Row, frozen=True, tag="right-granted"):
    workload: Revision
    ordinal: int
    region: str


class RightsReleased(Row, frozen=True, tag="rights-released"):
    """Rights as they were held, and on what evidence they are free."""

    rights: tuple[HeldRight, ...]
    evidence: str


class RightsGranted(Row, frozen=True, tag="rights-granted"):
    """The same of any number of identities of one workload."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    ordinals: Ordinals
    region: str

    def __post_init__(self) -> None:
        force_setattr(self, "ordinals", ranges_of(self.ordinals))


class RightsFreed(Row, frozen=True, tag="rights-freed"):
    """Rights to identities of one workload that a region held, and on what evidence they are free."""

    SINCE: ClassVar[int] = 2

    workload: Revision
    ordinals: Ordinals
    region: str
    evidence: str

    def __post_init__(self) -> None:
        force_setattr(self, "ordinals", ranges_of(self.ordinals))


# Regions


class RegionJoined(Row, frozen=True, tag="region-joined"):
    """A new log speaks for the region, from its beginning."""

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
    """The same log speaks again, in another session or from another address."""

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
    """What was acknowledged of the region's log counts no more: this position, and how the digest there began."""

    SINCE: ClassVar[int] = 2

    region: str
    position: Revision
    digest: str


class RegionReported(Row, frozen=True, tag="region-reported"):
    """What the region says of workloads that it has assignments of, and of itself if that has changed."""

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
    """Its log is tombstoned; an empty log id: it had never joined. `unreleased`: so much of it is released later."""

    ADDED: ClassVar[dict[str, int]] = {"unreleased": 2}

    region: str
    log_id: str
    reason: str
    unreleased: int = 0


class RetirementContinued(Row, frozen=True, tag="retirement-continued"):
    """One more part of what a retired region held is released; so much is left."""

    SINCE: ClassVar[int] = 2

    region: str
    unreleased: int


# Policy


class PolicyPublished(Row, frozen=True, tag="policy-published"):
    """Its revision is the event's."""

    name: str
    document: PolicyDocument


class PoliciesDropped(Row, frozen=True, tag="policies-dropped"):
    """Revisions that are valid nowhere, and that newer ones of their name have taken the place of."""

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
    """By key, `region|scope`: the region or the tenant is gone."""

    validities: tuple[str, ...]


# Promises of the second kind


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
