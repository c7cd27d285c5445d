"""Commands of the platform ledger.

Each command has one rule in `definition`: its owners, its side effect, what undoes it.

Size: one list of everything that can be asked, in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.registry import BuiltinCommand
from holdfast.core.model.objects.policies import EVERYWHERE, PolicyDocument, PolicyStage
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass, Quota, RecoveryBudget, Tenant
from holdfast.core.model.objects.topology import NodePool, Region, RegionHealth
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.region_reports import RegionSummary, WorkloadReport
from holdfast.core.model.values.conditions import Condition
from holdfast.core.model.values.ranges import Named
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision, Row

# Objects

#: Objects that operators write.
OperatorObject = Tenant | Quota | PriorityClass | Principal | Token | Region | NodePool | RecoveryBudget


class Put(Row, frozen=True, tag="put"):
    """Create or change an object. `expect` is the precondition that envelopes carry today."""

    object: OperatorObject
    expect: Revision = 0


class PutWorkload(Row, frozen=True, tag="put-workload"):
    """Create or change a workload. `expect` as in `Put`."""

    workload: Workload
    expect: Revision = 0


class Delete(Row, frozen=True, tag="delete"):
    """Delete an object that nothing refers to. `uid` names one object; 0: any of this name. `expect` as in `Put`."""

    kind: str
    name: str
    uid: Revision = 0
    expect: Revision = 0


class DeleteWorkload(Row, frozen=True, tag="delete-workload"):
    """Delete a workload, once every region has released it. `uid` and `expect` as in `Delete`."""

    tenant: str
    name: str
    uid: Revision = 0
    expect: Revision = 0


class ReportStatus(Row, frozen=True, tag="report-status"):
    """Report the state of a workload over all regions, for a generation of its spec. Conditions that are not named
    stay."""

    workload: Revision
    observed_generation: int
    bound: int
    ready: int
    serving: int
    conditions: tuple[Condition, ...] = ()
    succeeded: int = 0
    failed: int = 0


# Assignments


class Assign(Row, frozen=True, tag="assign"):
    """Set how many replicas of each template a region runs for a purpose; `ordinals` if the workload is exclusive."""

    workload: Revision
    region: str
    purpose: AssignmentPurpose
    stage: AssignmentStage
    shares: tuple[Share, ...]
    ordinals: Named = ()
    disruption: int = 0


class Activate(Row, frozen=True, tag="activate"):
    """Start the replicas of a standby recovery assignment: failover."""

    assignment: Revision


class EndAssignment(Row, frozen=True, tag="end-assignment"):
    """End an assignment: it requests no more replicas, and the region releases those that it has."""

    assignment: Revision


class RemoveAssignment(Row, frozen=True, tag="remove-assignment"):
    """Remove an ended assignment, once its region has released it and its identities.

    The region's last assignment of a deleted workload also releases the region's finalizer. `done` counts replicas of
    batch work that succeeded there, by template.
    """

    assignment: Revision
    done: tuple[tuple[str, int], ...] = ()


class ReleaseFinalizer(Row, frozen=True, tag="release-finalizer"):
    """Release a lost region's finalizer on a deleted workload, once its deadline has passed."""

    workload: Revision
    region: str


class OfferBack(Row, frozen=True, tag="offer-back"):
    """Offer back replicas of an assignment that the region cannot place: they may be assigned elsewhere."""

    assignment: Revision
    count: int
    message: str = ""


class Adopt(Row, frozen=True, tag="adopt"):
    """Make a recovery assignment a serving one: the tenant's quota is charged for it from now on."""

    assignment: Revision


# Escrow


class OfferGrant(Row, frozen=True, tag="offer-grant"):
    """Grant a region a slice of an account, as the next version, until an end."""

    ADDED: ClassVar[Mapping[str, int]] = {"weight": 3}

    account: str
    region: str
    target: Resources
    ends: Instant
    protected: Resources = ZERO
    weight: int = 1


class AcknowledgeGrant(Row, frozen=True, tag="acknowledge-grant"):
    """Acknowledge a version: the region has logged it and settled on max(target, charged), at a position in its log."""

    account: str
    version: int
    settled: Resources
    position: Revision = 0


# Rights to exclusive identities


class GrantRight(Row, frozen=True, tag="grant-right"):
    """Give a region the right to one or more identities, if no other region can still act on any of them."""

    workload: Revision
    ordinals: int | Named
    region: str


class ReleaseRights(Row, frozen=True, tag="release-rights"):
    """Release rights, all or none, after their identities have ended in the region that holds them.

    The field `seen` is the region's revision of the assignment that requests them back.
    """

    workload: Revision
    ordinals: Named
    seen: Revision


class AttestRight(Row, frozen=True, tag="attest-right"):
    """Attest that an identity does not run in a region. An operator sends it."""

    workload: Revision
    ordinal: int
    region: str
    reason: str


# Regions


class JoinRegion(Row, frozen=True, tag="join-region"):
    """Join a region with its log, in this session. `address` is where its servers are reached; it may be empty.

    The other numbers are those that the region fences by; with a fence time of 0 they are not reported.
    """

    region: str
    log_id: str
    address: str = ""
    session_lease: Duration = 0
    grace: Duration = 0
    fence_time: Duration = 0


class Acknowledge(Row, frozen=True, tag="acknowledge"):
    """Acknowledge the position of the region's log, and the cursor up to which it has applied the platform's log.

    The start of the digest of the batch at `position` is `digest`; the region's log must contain it (RULES 9).
    """

    region: str
    log_id: str
    position: Revision
    cursor: Revision
    digest: str


class BelieveRegion(Row, frozen=True, tag="believe-region"):
    """Attest that a region's log is complete. Its acknowledged position no longer counts; its next one does.

    An operator sends it if another sender has acknowledged in the region's name.
    """

    region: str
    reason: str


class Report(Row, frozen=True, tag="report"):
    """Report workloads, and a summary of the region, as of a position in its log. The latest position counts.

    For workloads, the later time `at` decides between reports of one position: waiting times change without events.
    """

    region: str
    position: Revision
    seen: tuple[WorkloadReport, ...] = ()
    summary: RegionSummary | None = None
    at: Instant = 0


class JudgeRegion(Row, frozen=True, tag="judge-region"):
    """Change the health of a region: region health concludes it from the region's contact or silence."""

    region: str
    health: RegionHealth
    reason: str


class DeclareLost(Row, frozen=True, tag="declare-lost"):
    """Declare a region lost: failover may begin, and nothing that it holds is released."""

    region: str
    reason: str


class RetireRegion(Row, frozen=True, tag="retire-region"):
    """Retire a region: an operator attests that nothing runs there. All it holds is released; its log can never join
    again."""

    region: str
    reason: str


class ReleaseRetired(Row, frozen=True, tag="release-retired"):
    """Release the next part of what a retired region held."""

    region: str


# Policy


class PublishPolicy(Row, frozen=True, tag="publish-policy"):
    """Publish a new immutable revision of the policy of this name, valid nowhere yet. `expect` as in `Put`."""

    name: str
    document: PolicyDocument
    expect: Revision = 0


class ActivatePolicy(Row, frozen=True, tag="activate-policy"):
    """Make a policy revision valid in a region, for one tenant or for every tenant without a policy of its own."""

    revision: Revision
    region: str
    scope: str = EVERYWHERE
    stage: PolicyStage = PolicyStage.CANARY


class RollBackPolicy(Row, frozen=True, tag="roll-back-policy"):
    """Roll a policy revision back for good. Its successor becomes valid wherever it was."""

    revision: Revision
    successor: Revision
    reason: str


PlatformCommand = (
    BuiltinCommand | OpenOverride | EndOverride
    | Put | PutWorkload | Delete | DeleteWorkload | ReportStatus
    | Assign | Activate | EndAssignment | RemoveAssignment | ReleaseFinalizer | OfferBack | Adopt
    | OfferGrant | AcknowledgeGrant
    | GrantRight | ReleaseRights | AttestRight
    | JoinRegion | Acknowledge | BelieveRegion | Report | JudgeRegion | DeclareLost | RetireRegion
    | ReleaseRetired
    | PublishPolicy | ActivatePolicy | RollBackPolicy
)  # fmt: skip
