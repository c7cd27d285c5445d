"""The kinds that people read and do not write, and nodes, of which they write a part.

Each is a struct with metadata, spec and status, so that its form and its schema come from its type as those of all
other kinds do. Uids inside the log are names here, wherever the state knows one.

Size: one list of what can be seen, in one place.
"""

from __future__ import annotations

from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument, PolicyStage
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Instant, Revision


class AssignmentSpec(Document, frozen=True):
    """A workload in one region for one purpose, as the platform asked for it."""

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
    """How many replicas it asks for and, in its region, how many are in each phase."""

    replicas: int = 0
    phases: tuple[tuple[str, int], ...] = ()
    #: How many rights to identities the region holds of it, those that it is to give back included.
    rights: int = 0


class AssignmentView(Document, frozen=True, tag="Assignment"):
    """What the platform gives a region of one workload."""

    meta: Meta
    spec: AssignmentSpec
    status: AssignmentStatus = AssignmentStatus()


class GrantSpec(Document, frozen=True):
    """A slice of an account, lent to one region until an end."""

    account: str
    region: str
    version: int
    target: Resources
    ends: Instant
    protected: Resources = ZERO


class GrantStatus(Document, frozen=True):
    """On the platform `charged` is what counts against the account; in a region it is what work is charged there.

    `settled` is the limit that the region has settled on, `acknowledged` the version it has logged.
    """

    charged: Resources = ZERO
    settled: Resources = ZERO
    acknowledged: int = 0


class GrantView(Document, frozen=True, tag="Grant"):
    """A grant as the platform lends it, or as its region holds it."""

    meta: Meta
    spec: GrantSpec
    status: GrantStatus = GrantStatus()


class PolicyScopeView(Document, frozen=True):
    """Where a policy is valid: a region, and a tenant or, when empty, all who have none of their own."""

    region: str
    tenant: str = ""


class PolicyStatus(Document, frozen=True):
    """Who published a policy, when, how far it has come and where it is valid."""

    stage: PolicyStage = PolicyStage.DRAFT
    author: str = ""
    at: Instant = 0
    valid: tuple[PolicyScopeView, ...] = ()


class SchedulerPolicyView(Document, frozen=True, tag="SchedulerPolicy"):
    """One immutable revision of the policy that it is named after; 0.0 is built in.

    It is found by its revision, and the newest of a policy also by its name. Each document that differs from the newest
    of its name is a new revision.
    """

    meta: Meta
    spec: PolicyDocument = PolicyDocument()
    status: PolicyStatus = PolicyStatus()


class OverrideSpec(Document, frozen=True):
    """What a person decided, for whom, why and until when."""

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
    """A human decision in force."""

    meta: Meta
    spec: OverrideSpec
    status: OverrideStatus


class BreachSpec(Document, frozen=True):
    """Which promise is broken, for what."""

    invariant: str
    key: str


class BreachStatus(Document, frozen=True):
    """What it is about by name, by how much it is broken, who must cure it and until when."""

    subject: str
    overshoot: int
    owner: str
    opened: Instant
    deadline: Instant


class BreachView(Document, frozen=True, tag="Breach"):
    """A promise that a fact from outside has broken."""

    meta: Meta
    spec: BreachSpec
    status: BreachStatus


class SessionSpec(Document, frozen=True):
    """Whose life it is."""

    principal: str


class SessionStatus(Document, frozen=True):
    """Since when it lives, and the highest number of a command in it."""

    opened: Instant
    high: int = 0


class SessionView(Document, frozen=True, tag="Session"):
    """One life of a machine. Its uid is its epoch."""

    meta: Meta
    spec: SessionSpec
    status: SessionStatus
