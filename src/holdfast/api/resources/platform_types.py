"""Views of kinds without a document of the model, in both ledgers.

Each is a struct with metadata, spec and status, so its serializer and schema follow from its type, as for all other
kinds. Uids of the log become names, if the state has one.

Size: one list of what can be seen, in one place.
"""

from __future__ import annotations

from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument, PolicyStage
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Instant, Revision


class AssignmentSpec(Document, frozen=True):
    """A workload in one region for one purpose, as the platform requests it."""

    workload: str
    workload_uid: Revision
    region: str
    purpose: AssignmentPurpose
    stage: AssignmentStage
    generation: int
    shares: tuple[Share, ...]
    accounts: tuple[str, ...]
    priority_class: str
    disruption: int = 0
    exclusive: bool = False
    ordinals: tuple[str, ...] = ()
    right_until: Instant = 0
    jurisdictions: tuple[str, ...] = ()
    batch: bool = False
    deadline: Instant = 0
    fails_late: bool = False


class AssignmentStatus(Document, frozen=True):
    """How many replicas the assignment requires and, in its region, how many are in each phase."""

    replicas: int = 0
    phases: tuple[tuple[str, int], ...] = ()
    #: Number of rights to identities that the region has for it, including those that it must return.
    rights: int = 0


class AssignmentView(Document, frozen=True, tag="Assignment"):
    """The part of one workload that a region runs."""

    meta: Meta
    spec: AssignmentSpec
    status: AssignmentStatus = AssignmentStatus()


class GrantSpec(Document, frozen=True):
    """The part of an account that one region may use, until an end."""

    account: str
    region: str
    version: int
    target: Resources
    ends: Instant
    protected: Resources = ZERO


class GrantStatus(Document, frozen=True):
    """On the platform, `charged` is what counts against the account; in a region, what its replicas are charged.

    The region has settled on the limit `settled` and has logged the version `acknowledged`.
    """

    charged: Resources = ZERO
    settled: Resources = ZERO
    acknowledged: int = 0


class GrantView(Document, frozen=True, tag="Grant"):
    """A grant as the platform gives it, or as its region accepted it."""

    meta: Meta
    spec: GrantSpec
    status: GrantStatus = GrantStatus()


class PolicyScopeView(Document, frozen=True):
    """Where a policy is valid: a region, and a tenant or, if empty, all tenants without a policy of their own."""

    region: str
    tenant: str = ""


class PolicyStatus(Document, frozen=True):
    """Who published a policy and when, its stage, and where it is valid."""

    stage: PolicyStage = PolicyStage.DRAFT
    author: str = ""
    at: Instant = 0
    valid: tuple[PolicyScopeView, ...] = ()


class SchedulerPolicyView(Document, frozen=True, tag="SchedulerPolicy"):
    """One immutable revision of the policy with this name; 0.0 is built in.

    A revision is found by its number, the newest one also by its name. Each document that differs from the newest of
    its name is a new revision.
    """

    meta: Meta
    spec: PolicyDocument = PolicyDocument()
    status: PolicyStatus = PolicyStatus()


class OverrideSpec(Document, frozen=True):
    """What an operator decided, for which target, why and until when."""

    action: OverrideAction
    region: str
    target: str
    reason: str
    ends: Instant
    facts: Labels = ()


class OverrideStatus(Document, frozen=True):
    """Who opened it, when, and in which ledger: `platform` or `region`."""

    owner: str
    opened: Instant
    source: str


class OverrideView(Document, frozen=True, tag="Override"):
    """An operator's decision that is in force."""

    meta: Meta
    spec: OverrideSpec
    status: OverrideStatus


class BreachSpec(Document, frozen=True):
    """The invariant that is broken, and for which key."""

    invariant: str
    key: str


class BreachStatus(Document, frozen=True):
    """The subject by name, the size of the breach, and its owner, who must resolve it before the deadline."""

    subject: str
    overshoot: int
    owner: str
    opened: Instant
    deadline: Instant


class BreachView(Document, frozen=True, tag="Breach"):
    """An invariant that a fact from outside broke."""

    meta: Meta
    spec: BreachSpec
    status: BreachStatus


class SessionSpec(Document, frozen=True):
    """The principal of a session."""

    principal: str


class SessionStatus(Document, frozen=True):
    """When the session was opened, and the highest number of a command in it."""

    opened: Instant
    high: int = 0


class SessionView(Document, frozen=True, tag="Session"):
    """One connection period of a machine with a ledger. Its uid is its session epoch."""

    meta: Meta
    spec: SessionSpec
    status: SessionStatus
