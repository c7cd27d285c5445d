"""What the platform's ledger can be asked.

Each command has one rule in `definition`: its owners, its side effect, what undoes it.

Size: one list of everything that can be asked, in one place.
"""

from __future__ import annotations

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

#: What operators write.
OperatorObject = Tenant | Quota | PriorityClass | Principal | Token | Region | NodePool | RecoveryBudget


class Put(Row, frozen=True, tag="put"):
    """Create or change an object. `expect` as in the envelope, which is where it comes from today."""

    object: OperatorObject
    expect: Revision = 0


class PutWorkload(Row, frozen=True, tag="put-workload"):
    """Create or change a workload. `expect` as in `Put`."""

    workload: Workload
    expect: Revision = 0


class Delete(Row, frozen=True, tag="delete"):
    """Remove an object that nothing refers to. `uid` is the one that is meant; 0: whatever has the name.

    `expect` as in `Put`.
    """

    kind: str
    name: str
    uid: Revision = 0
    expect: Revision = 0


class DeleteWorkload(Row, frozen=True, tag="delete-workload"):
    """End a workload everywhere; it is gone when every region has released it. `uid` and `expect` as in `Delete`."""

    tenant: str
    name: str
    uid: Revision = 0
    expect: Revision = 0


class ReportStatus(Row, frozen=True, tag="report-status"):
    """What the regions together say of a workload, as of a generation of its spec. Conditions it does not name stay."""

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
    """This many of each template in this region, for this purpose; ordinals where the workload is exclusive."""

    workload: Revision
    region: str
    purpose: AssignmentPurpose
    stage: AssignmentStage
    shares: tuple[Share, ...]
    ordinals: Named = ()
    disruption: int = 0


class Activate(Row, frozen=True, tag="activate"):
    """Failover: what stood by runs now."""

    assignment: Revision


class EndAssignment(Row, frozen=True, tag="end-assignment"):
    """Nothing of it is wanted any more; the region releases it."""

    assignment: Revision


class RemoveAssignment(Row, frozen=True, tag="remove-assignment"):
    """The region has released an ended assignment and every identity in it.

    With its last assignment of a workload that is being deleted, the region's finalizer is released, too. `done`: how
    many of each template it had done, of batch work.
    """

    assignment: Revision
    done: tuple[tuple[str, int], ...] = ()


class ReleaseFinalizer(Row, frozen=True, tag="release-finalizer"):
    """A deleted workload waits for a lost region no more: its deadline has passed."""

    workload: Revision
    region: str


class OfferBack(Row, frozen=True, tag="offer-back"):
    """A region cannot place so many replicas of an assignment: they may go elsewhere."""

    assignment: Revision
    count: int
    message: str = ""


class Adopt(Row, frozen=True, tag="adopt"):
    """What recovery started stays, and is paid for by the tenant's quota from now on."""

    assignment: Revision


# Escrow


class OfferGrant(Row, frozen=True, tag="offer-grant"):
    """Lend a region a slice of an account: the next version, until an end."""

    account: str
    region: str
    target: Resources
    ends: Instant
    protected: Resources = ZERO


class AcknowledgeGrant(Row, frozen=True, tag="acknowledge-grant"):
    """A region has logged a version and settled on max(target, charged), as of a position in its own log."""

    account: str
    version: int
    settled: Resources
    position: Revision = 0


# Rights to exclusive identities


class GrantRight(Row, frozen=True, tag="grant-right"):
    """Give a region the right to one or more identities, if nobody else can still hold any of them."""

    workload: Revision
    ordinals: int | Named
    region: str


class ReleaseRights(Row, frozen=True, tag="release-rights"):
    """The region that holds these rights has ended the identities and gives them back, all or none.

    `seen` is the revision of the assignment by which it judged that they are to be given back.
    """

    workload: Revision
    ordinals: Named
    seen: Revision


class AttestRight(Row, frozen=True, tag="attest-right"):
    """A person attests that the identity does not run in that region."""

    workload: Revision
    ordinal: int
    region: str
    reason: str


# Regions


class JoinRegion(Row, frozen=True, tag="join-region"):
    """A region's log speaks for the region, in this session. `address` is where its servers are reached, if it says.

    The other numbers are those that the region fences by; a fence time of 0: it does not say.
    """

    region: str
    log_id: str
    address: str = ""
    session_lease: Duration = 0
    grace: Duration = 0
    fence_time: Duration = 0


class Acknowledge(Row, frozen=True, tag="acknowledge"):
    """How far the region's own log is, and up to where it has applied the platform's.

    `digest` is the start of the digest of the batch that `position` names: the region is held to it (RULES 9).
    """

    region: str
    log_id: str
    position: Revision
    cursor: Revision
    digest: str


class BelieveRegion(Row, frozen=True, tag="believe-region"):
    """A person attests that a region's log is whole: what was acknowledged of it counts no more, its next word does.

    The way out where somebody else has spoken for the region: nothing that its log lacks was ever in it.
    """

    region: str
    reason: str


class Report(Row, frozen=True, tag="report"):
    """What a region says of workloads and of itself, as of a position in its own log. The latest position counts.

    Of workloads the latest time there, `at`, counts besides: how long a replica takes is told, too.
    """

    region: str
    position: Revision
    seen: tuple[WorkloadReport, ...] = ()
    summary: RegionSummary | None = None
    at: Instant = 0


class JudgeRegion(Row, frozen=True, tag="judge-region"):
    """Region health says whether a region is heard."""

    region: str
    health: RegionHealth
    reason: str


class DeclareLost(Row, frozen=True, tag="declare-lost"):
    """A person says that a region is lost: failover may begin, and nothing it holds comes back."""

    region: str
    reason: str


class RetireRegion(Row, frozen=True, tag="retire-region"):
    """A person attests that nothing runs in a region: all it holds is released, and its log never speaks again."""

    region: str
    reason: str


class ReleaseRetired(Row, frozen=True, tag="release-retired"):
    """The next part of what a retired region held is released."""

    region: str


# Policy


class PublishPolicy(Row, frozen=True, tag="publish-policy"):
    """A new immutable revision of the policy of this name, valid nowhere yet. `expect` as in `Put`."""

    name: str
    document: PolicyDocument
    expect: Revision = 0


class ActivatePolicy(Row, frozen=True, tag="activate-policy"):
    """Make a revision the valid one in a region, for one tenant or for everybody who has none of their own."""

    revision: Revision
    region: str
    scope: str = EVERYWHERE
    stage: PolicyStage = PolicyStage.CANARY


class RollBackPolicy(Row, frozen=True, tag="roll-back-policy"):
    """Take a revision back for good; wherever it was valid its successor is."""

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
